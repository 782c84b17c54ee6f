"""Tells the controller in which directory each replica of this node lies (KIP-858).

A broker with several directories chooses one for each of its replicas. Until the controller knows which, it
cannot tell who went when a directory fails. What is noted goes out together, a turn of the loop later; what
cannot be told is told again.
"""

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.controller.drivers.controller import Controller
from headrace.wire.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

logger = logging.getLogger(__name__)

REPLICAS_MAX: Final = 2_000
"""In one request: its records must fit into one batch of the metadata log."""

RETRY_S: Final = 1.0

Placed = tuple[tuple[TopicId, int], bytes]


class AssignmentsManager:
    """What is noted waits until `begin`: only a registered broker can report."""

    def __init__(self, controller: Controller, *, node_id: int, loop: asyncio.AbstractEventLoop) -> None:
        self._controller = controller
        self._node_id = node_id
        self._loop = loop
        self._broker_epoch: int | None = None
        self._noted: dict[tuple[TopicId, int], bytes] = {}
        self._next: asyncio.Handle | None = None
        self._under_way: asyncio.Future[AssignReplicasToDirsResponse] | None = None

    def note(self, topic_id: TopicId, index: int, directory_id: bytes) -> None:
        """A replica lies in this directory, and the controller does not know it."""
        self._noted[topic_id, index] = directory_id
        self._send_soon(0)

    def begin(self, broker_epoch: int) -> None:
        self._broker_epoch = broker_epoch
        self._send_soon(0)

    def stop(self) -> None:
        self._broker_epoch = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _send_soon(self, delay_s: float) -> None:
        idle = self._next is None and self._under_way is None
        if self._noted and self._broker_epoch is not None and idle:
            self._next = self._loop.call_later(delay_s, self._send)

    def _send(self) -> None:
        self._next = None
        if self._broker_epoch is None:
            return
        placed = list(islice(self._noted.items(), REPLICAS_MAX))
        request = AssignReplicasToDirsRequest(self._node_id, self._broker_epoch, _by_directory(placed))
        try:
            self._under_way = self._controller.ask(request)
        except ApiError as error:
            self._again(error)
        else:
            self._under_way.add_done_callback(lambda done: self._told(done, placed))

    def _told(self, done: "asyncio.Future[AssignReplicasToDirsResponse]", placed: list[Placed]) -> None:
        self._under_way = None
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._again(error)
            return
        for replica, directory_id in placed:
            # One that was moved meanwhile is told again; one that the controller does not know is gone.
            if self._noted.get(replica) == directory_id:
                del self._noted[replica]
        self._send_soon(0)

    def _again(self, error: BaseException) -> None:
        logger.warning("the directories of %d replicas are not told yet: %s", len(self._noted), error)
        self._send_soon(RETRY_S)


def _by_directory(placed: Iterable[Placed]) -> list[RequestDirectoryData]:
    sorted_out: dict[bytes, dict[TopicId, list[RequestPartitionData]]] = {}
    for (topic_id, index), directory_id in placed:
        partitions = sorted_out.setdefault(directory_id, {}).setdefault(topic_id, [])
        partitions.append(RequestPartitionData(index))
    return [
        RequestDirectoryData(directory_id, [RequestTopicData(*each) for each in topics.items()])
        for directory_id, topics in sorted_out.items()
    ]
