"""A broker's producer ids: taken one by one from a block that the controller gave it.

A block is asked for when the first id is wanted, and the next one when a tenth of it is left, so that
producers seldom wait. Ids of a block that a restart leaves unused are lost, which 2^63 of them allow.
"""

from asyncio import AbstractEventLoop, Future
from collections import deque
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.drivers.controller import Controller
from headrace.controller.producer_id_control import BLOCK_SIZE
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

FETCH_AHEAD: Final = BLOCK_SIZE // 10


class ProducerIdManager:
    """The blocks of one broker; its epoch is read from the image."""

    def __init__(
        self, controller: Controller, image: MetadataImage, *, node_id: int, loop: AbstractEventLoop
    ) -> None:
        self._controller = controller
        self._image = image
        self._node_id = node_id
        self._loop = loop
        self._ids: deque[int] = deque()
        self._waiting: deque[Future[int]] = deque()
        self._asked = False

    def take(self) -> "int | Future[int]":
        """The next id, at once where the block has one left. ApiError in the future where none can be had."""
        if len(self._ids) <= FETCH_AHEAD:
            self._ask()
        if self._ids:
            return self._ids.popleft()
        answer: Future[int] = self._loop.create_future()
        if self._asked:
            self._waiting.append(answer)
        else:
            answer.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, "no controller gives producer ids"))
        return answer

    def _ask(self) -> None:
        broker = self._image.brokers.get(self._node_id)
        if self._asked or broker is None:
            return
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=broker.epoch)
        try:
            given = self._controller.ask(request)
        except ApiError:
            return
        self._asked = True
        given.add_done_callback(self._given)

    def _given(self, done: "Future[AllocateProducerIdsResponse]") -> None:
        self._asked = False
        stopped = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this node stops")
        error = stopped if done.cancelled() else done.exception()
        if error is None and done.result().error_code:
            error = ApiError(ErrorCode(done.result().error_code))
        if error is None:
            first = done.result().producer_id_start
            self._ids.extend(range(first, first + done.result().producer_id_len))
        while self._waiting and (error is not None or self._ids):
            waiting = self._waiting.popleft()
            if waiting.done():
                continue
            if error is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(self._ids.popleft())
        if self._waiting:
            self._ask()
