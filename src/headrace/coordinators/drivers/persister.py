"""Persister: how a group coordinator and the leaders of share partitions reach the share coordinator.

A share partition's state is kept by one broker: this one, which is asked directly, or another. Who keeps it
may be loading, moving or not there yet, so a request is tried again for a while. `__share_group_state` is
made at the first request.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import SHARE_STATE_TOPIC
from headrace.coordinators.drivers.share_coordinator import ShareCoordinator
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey, StateToWrite
from headrace.coordinators.share.state_batches import StateBatch
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas import delete_share_group_state as delete
from headrace.wire.schemas import initialize_share_group_state as initialize
from headrace.wire.schemas import read_share_group_state as read
from headrace.wire.schemas import read_share_group_state_summary as summary
from headrace.wire.schemas import write_share_group_state as write

logger = logging.getLogger(__name__)

# A new coordinator is found within some heartbeats of the controller; who waits longer is told so.
ATTEMPTS_MAX: Final = 20
RETRY_S: Final = 0.1
RETRY_S_MAX: Final = 2.0

_TRY_AGAIN: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)

Send = Callable[[int, Any], "asyncio.Future[Any]"]


class PersistedState(NamedTuple):
    """What a leader finds when it takes a share partition over."""

    state_epoch: int
    start_offset: int
    batches: list[StateBatch]


class StateSummary(NamedTuple):
    """How far a share partition is; a start offset of -1 says that there is nothing yet."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


Results = Mapping[SharePartitionKey, Any]
"""An ErrorCode for each key that failed, else what was asked for."""


class Persister:
    """`send` asks another broker; `make_topic` has `__share_group_state` made, and calls back when that is
    over, however it went.
    """

    def __init__(
        self,
        coordinator: ShareCoordinator,
        *,
        node_id: int,
        image: MetadataImage,
        loop: asyncio.AbstractEventLoop,
        send: Send,
        make_topic: Callable[[Callable[[], None]], None],
    ) -> None:
        self._coordinator = coordinator
        self._node_id = node_id
        self._image = image
        self._loop = loop
        self._send = send
        self._make_topic = make_topic
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    # --- the five requests, for one share partition or more ---

    def initialize_at(
        self, offsets: Mapping[SharePartitionKey, int], state_epoch: int, done: Callable[[Results], None]
    ) -> None:
        """Begin the state of share partitions at these offsets."""

        def make(key: SharePartitionKey) -> Any:
            data = initialize.PartitionData(key.partition, state_epoch, offsets[key])
            topics = [initialize.InitializeStateData(key.topic_id, [data])]
            return initialize.InitializeShareGroupStateRequest(key.group_id, topics)

        self._ask_all(offsets, make, _nothing, done)

    def delete(self, keys: Iterable[SharePartitionKey], done: Callable[[Results], None]) -> None:
        def make(key: SharePartitionKey) -> Any:
            topics = [delete.DeleteStateData(key.topic_id, [delete.PartitionData(key.partition)])]
            return delete.DeleteShareGroupStateRequest(key.group_id, topics)

        self._ask_all(keys, make, _nothing, done)

    def read_summaries(self, keys: Mapping[SharePartitionKey, int], done: Callable[[Results], None]) -> None:
        """StateSummary of each key; the numbers are leader epochs."""

        def make(key: SharePartitionKey) -> Any:
            data = summary.PartitionData(key.partition, keys[key])
            topics = [summary.ReadStateSummaryData(key.topic_id, [data])]
            return summary.ReadShareGroupStateSummaryRequest(key.group_id, topics)

        self._ask_all(keys, make, _summary_of, done)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[PersistedState | ErrorCode], None]
    ) -> None:
        """The state, for the leader of this epoch: those before it are fenced from then on."""
        topics = [read.ReadStateData(key.topic_id, [read.PartitionData(key.partition, leader_epoch)])]
        request = read.ReadShareGroupStateRequest(key.group_id, topics)
        _Question(self, key, request, lambda result: done(_state_of(result)), done).ask()

    def write(self, key: SharePartitionKey, state: StateToWrite, done: Callable[[ErrorCode], None]) -> None:
        data = write.PartitionData(
            key.partition,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            [write.StateBatch(*each) for each in state.batches],
        )
        request = write.WriteShareGroupStateRequest(
            key.group_id, [write.WriteStateData(key.topic_id, [data])]
        )
        _Question(self, key, request, lambda result: done(ErrorCode.NONE), done).ask()

    def _ask_all(
        self,
        keys: Iterable[SharePartitionKey],
        make: Callable[[SharePartitionKey], Any],
        read_result: Callable[[Any], Any],
        done: Callable[[Results], None],
    ) -> None:
        results: dict[SharePartitionKey, Any] = {}
        wanted = list(keys)
        if not wanted:
            done(results)
            return

        def note(key: SharePartitionKey, outcome: Any) -> None:
            results[key] = outcome
            if len(results) == len(wanted):
                done(results)

        def ask(key: SharePartitionKey) -> None:
            _Question(
                self,
                key,
                make(key),
                lambda result: note(key, read_result(result)),
                lambda error: note(key, error),
            ).ask()

        for key in wanted:
            ask(key)

    # --- one attempt ---

    def attempt(self, key: SharePartitionKey, request: Any, done: Callable[[Any], None]) -> None:
        """Ask whoever coordinates the key now; `done` gets the partition's result, or an ErrorCode."""
        if self._stopped:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if SHARE_STATE_TOPIC not in self._image.topics_by_name:
            self._make_topic(lambda: done(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        try:
            leader = self._coordinator.leader_of(str(key))
        except ApiError as error:
            done(error.code)
            return
        if leader == self._node_id:
            self._coordinator.ask(request, lambda response: done(_only_result(response)))
        elif leader < 0:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._send(leader, request).add_done_callback(lambda asked: done(_outcome(asked)))

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, action)


class _Question:
    """A request about one share partition, asked until there is an answer."""

    __slots__ = ("_answer", "_attempts", "_fail", "_key", "_persister", "_request")

    def __init__(
        self,
        persister: Persister,
        key: SharePartitionKey,
        request: Any,
        answer: Callable[[Any], None],
        fail: Callable[[ErrorCode], None],
    ) -> None:
        self._persister = persister
        self._key = key
        self._request = request
        self._answer = answer
        self._fail = fail
        self._attempts = 0

    def ask(self) -> None:
        self._attempts += 1
        self._persister.attempt(self._key, self._request, self._heard)

    def _heard(self, outcome: Any) -> None:
        code = outcome if isinstance(outcome, ErrorCode) else ErrorCode(outcome.error_code)
        if code is ErrorCode.NONE:
            self._answer(outcome)
        elif code in _TRY_AGAIN and self._attempts < ATTEMPTS_MAX:
            delay_s = min(RETRY_S_MAX, RETRY_S * 2 ** (self._attempts - 1))
            self._persister.later(delay_s, self.ask)
        else:
            logger.warning(
                "share partition %s: its coordinator answers %s to %s",
                self._key,
                code.name,
                type(self._request).__name__,
            )
            self._fail(code)


def _only_result(response: Any) -> Any:
    """The result of the one partition that was asked about."""
    if len(response.results) != 1 or len(response.results[0].partitions) != 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return response.results[0].partitions[0]


def _outcome(asked: "asyncio.Future[Any]") -> Any:
    if asked.cancelled() or asked.exception() is not None:
        return ErrorCode.NETWORK_EXCEPTION
    return _only_result(asked.result())


def _nothing(result: Any) -> ErrorCode:
    return ErrorCode.NONE


def _summary_of(result: summary.PartitionResult) -> StateSummary:
    return StateSummary(
        result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
    )


def _state_of(result: read.PartitionResult) -> PersistedState:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in result.state_batches
    ]
    return PersistedState(result.state_epoch, result.start_offset, batches)
