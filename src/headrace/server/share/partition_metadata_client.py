"""PartitionMetadataClient: how far partitions have grown, wherever they are led: what a share group's lag is
reckoned from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.metadata.image import MetadataImage
from headrace.replication.replica_manager import ReplicaManager
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
CONSUMER = -1

EndOffsets = Mapping[TopicPartition, int]


class PartitionMetadataClient:
    """`send` asks another broker."""

    def __init__(
        self,
        *,
        node_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        send: Callable[[int, Any], asyncio.Future[Any]],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._replicas = replicas
        self._send = send

    def list_latest_offsets(
        self, partitions: Iterable[TopicPartition], done: Callable[[EndOffsets], None]
    ) -> None:
        """The high watermarks, of those partitions whose leader can tell."""
        found: dict[TopicPartition, int] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            image = self._image.partition(*each)
            replica = self._replicas.get(each)
            if image is not None and image.leader != self._node_id and image.leader >= 0:
                elsewhere.setdefault(image.leader, []).append(each)
            elif replica is not None and replica.is_leader and replica.log is not None:
                found[each] = replica.log.high_watermark
        left = len(elsewhere)
        if not left:
            done(found)

        def heard(asked: asyncio.Future[Any]) -> None:
            nonlocal left
            if not asked.cancelled() and asked.exception() is None:
                found.update(_offsets_in(asked.result()))
            left -= 1
            if not left:
                done(found)

        for leader, wanted in elsewhere.items():
            self._send(leader, _question(wanted)).add_done_callback(heard)


def _question(wanted: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in wanted:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=CONSUMER, topics=[ListOffsetsTopic(name, each) for name, each in topics.items()]
    )


def _offsets_in(response: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    }
