"""Fetches ahead: keeps one long poll at every broker that has something to read, within a bound of memory.

`send_fetches` looks which partitions may be fetched (they have a position, are not paused, and not too much
of them is buffered) and sends one request to each broker that has none under way. Answers are sorted into the
partitions' states and `on_news` is called. Errors that pass make the metadata anew; an offset out of range
goes to the reset policy; others are kept for the next poll.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_EPOCH, NO_LEADER, TopicPartition
from headrace.clients.errors import ClientError, RefusedError, UnreachableError
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, broken, end_of
from headrace.clients.internals.consumer.subscription_state import (
    NO_REPLICA,
    PartitionStates,
    TopicPartitionState,
)
from headrace.clients.internals.metadata import LeaderAndEpoch
from headrace.clients.internals.network_client import NetworkClient, Use
from headrace.wire.schemas.fetch import (
    TOPIC_ID_SINCE,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchTarget(NamedTuple):
    """What to fetch of a partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSessionHandler:
    """An incremental fetch session with one broker (KIP-227): say what changed, not everything.

    The first request of a session names all partitions (epoch 0); the broker remembers them under an id, and
    later requests name only those that are new, moved or gone, with the next epoch. Any doubt (a lost
    connection, an error of the session) begins a new one.
    """

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, FetchTarget] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchTarget]) -> None:
        """Put into a request what the broker has to hear to fetch exactly these partitions."""
        request.session_id, request.session_epoch = self._id, self._epoch
        is_full = self._epoch == _FIRST_EPOCH
        told = {} if is_full else self._known
        topics: dict[str, FetchTopic] = {}
        for partition, want in wanted.items():
            if told.get(partition) == want:
                continue
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=want.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.offset,
                    partition_max_bytes=want.bytes_max,
                )
            )
        request.topics = list(topics.values())
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for partition, had in told.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != had.topic_id:
                gone = forgotten.setdefault(
                    (partition.topic, had.topic_id),
                    ForgottenTopic(topic=partition.topic, topic_id=had.topic_id),
                )
                gone.partitions.append(partition.partition)
        request.forgotten_topics_data = list(forgotten.values())
        self._known = dict(wanted)

    def answered(self, error: int, session_id: int) -> bool:
        """Take in an answer's session; False where it is an error and the answer holds nothing."""
        if error:
            self.lost(keeps_id=error not in _SESSION_ERRORS)
            return False
        if session_id == NO_SESSION:
            self.lost()
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1
        return True

    def lost(self, *, keeps_id: bool = False) -> None:
        """The next request begins a new session; with its id it also closes the old one."""
        if not keeps_id:
            self._id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known = {}


# How often a leader that is older than what was read is not believed that an offset is out of range.
_DOUBTS_MAX: Final = 8
# How much of one partition may wait, in answers of the largest size: one is read while one arrives.
_CHUNKS_AHEAD: Final = 2

Eras = dict[TopicPartition, int]


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        client: NetworkClient,
        positions: PartitionStates,
        *,
        on_news: Callable[[], None],
        on_stale: Callable[[], None],
        on_out_of_range: Callable[[TopicPartitionState], None],
        on_failure: Callable[[ClientError], None],
    ) -> None:
        config = client.config
        self._client = client
        self._environment = client.environment
        self._positions = positions
        self._on_news = on_news
        self._on_stale = on_stale
        self._on_out_of_range = on_out_of_range
        self._on_failure = on_failure
        self.is_committed = config.str("isolation.level").lower() == "read_committed"
        self._checks_crc = config.bool("check.crcs")
        self._bytes_max = config.int("fetch.max.bytes")
        self._partition_bytes_max = config.int("max.partition.fetch.bytes")
        self._replica_age_ms = config.int("metadata.max.age.ms")
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: set[int] = set()
        self._connecting: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    # Asking

    def send_fetches(self) -> float:
        """Send what can be sent; returns when a partition that pauses after an error may be tried again."""
        now_ms = self._environment.now_ms()
        next_ms = float("inf")
        groups: dict[int, list[TopicPartitionState]] = {}
        if self._positions.buffered_bytes() >= self._bytes_max:
            return next_ms
        for state in self._positions:
            if not self._is_fetchable(state):
                continue
            if state.retry_at_ms > now_ms:
                next_ms = min(next_ms, state.retry_at_ms)
                continue
            node = self._node_for(state, now_ms)
            if node == NO_LEADER:
                self._on_stale()
            else:
                groups.setdefault(node, []).append(state)
        for node, states in groups.items():
            if node not in self._in_flight:
                next_ms = min(next_ms, self._fetch(node, states))
        return next_ms

    def _is_fetchable(self, state: TopicPartitionState) -> bool:
        ahead = _CHUNKS_AHEAD * self._partition_bytes_max
        return (
            state.has_position
            and state.fetch_offset < state.fetch_until
            and not state.is_paused
            and not state.must_validate
            and state.buffered_bytes < ahead
            and len(state.chunks) < 2 * _CHUNKS_AHEAD
        )

    def _node_for(self, state: TopicPartitionState, now_ms: float) -> int:
        """The leader, or the replica nearby that the leader has named (KIP-392)."""
        if state.preferred_replica != NO_REPLICA:
            if now_ms < state.preferred_until_ms and state.preferred_replica in self._client.metadata.brokers:
                return state.preferred_replica
            state.preferred_replica = NO_REPLICA
        return self._client.metadata.leader(state.partition).node

    def _fetch(self, node: int, states: list[TopicPartitionState]) -> float:
        """Ask for these; when to try again where the broker throttles this client."""
        try:
            channel = self._client.channel(node, Use.FETCH)
        except UnreachableError:
            self._on_stale()
            return float("inf")
        if not channel.is_ready:
            self._connect(node, channel)
            return float("inf")
        if throttle_ms := channel.throttle_ms:
            return self._environment.now_ms() + throttle_ms
        session = self._sessions.setdefault(node, FetchSessionHandler())
        request, at_most = self._request(session, states)
        eras = {state.partition: state.era for state in states}
        config = self._client.config
        timeout_ms = self._client.timeout_ms + config.int("fetch.max.wait.ms")
        try:
            asked = channel.ask_now(request, timeout_ms=timeout_ms, at_most=at_most)
        except ClientError as error:
            self._on_failure(error)
            return float("inf")
        self._in_flight.add(node)
        sent_ms = self._environment.now_ms()
        asked.add_done_callback(lambda done: self._answered(node, eras, done, sent_ms))
        return float("inf")

    def _request(
        self, session: FetchSessionHandler, states: list[TopicPartitionState]
    ) -> tuple[FetchRequest, int | None]:
        metadata, config = self._client.metadata, self._client.config
        has_ids = metadata.has_ids({state.partition.topic for state in states})
        wanted = {
            state.partition: FetchTarget(
                metadata.topic_id(state.partition.topic),
                state.fetch_offset,
                metadata.leader(state.partition).epoch,
                self._partition_bytes_max,
            )
            for state in states
        }
        request = FetchRequest(
            max_wait_ms=config.int("fetch.max.wait.ms"),
            min_bytes=config.int("fetch.min.bytes"),
            max_bytes=self._bytes_max,
            isolation_level=int(self.is_committed),
            rack_id=config.str("client.rack"),
        )
        session.fill(request, wanted)
        return request, None if has_ids else TOPIC_ID_SINCE - 1

    def _connect(self, node: int, channel: BrokerChannel) -> None:
        async def connect() -> None:
            try:
                await channel.ready()
            except ClientError:
                self._on_stale()
            finally:
                self._connecting.discard(node)
                self._on_news()

        if node not in self._connecting and not self._is_closed:
            self._connecting.add(node)
            task = self._environment.loop.create_task(connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # Answers

    def _answered(self, node: int, eras: Eras, done: "asyncio.Future[Any]", sent_ms: float) -> None:
        self._in_flight.discard(node)
        self._client.metrics.fetches.note(self._environment.now_ms() - sent_ms)
        failure = None if done.cancelled() else done.exception()
        if self._is_closed or done.cancelled():
            return
        session = self._sessions[node]
        if failure is not None:
            session.lost()
            self._on_stale()
        else:
            response = done.result()
            if session.answered(response.error_code, response.session_id):
                self._take_in(response, eras)
            elif response.error_code not in RETRIABLE:
                self._on_failure(RefusedError(response.error_code, "cannot fetch"))
        self.send_fetches()
        self._on_news()

    def _take_in(self, response: Any, eras: Eras) -> None:
        metadata = self._client.metadata
        metadata.learn_endpoints((each.node_id, each.host, each.port) for each in response.node_endpoints)
        for topic in response.responses:
            name = metadata.name_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                state = self._positions.get(partition)
                if state is None or state.era != eras.get(partition):
                    continue  # it moved, or is somebody else's, since this was asked
                if data.error_code:
                    self._refused(state, data)
                else:
                    self._received(state, data)

    def _received(self, state: TopicPartitionState, data: Any) -> None:
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica != NO_REPLICA:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = self._environment.now_ms() + self._replica_age_ms
        if not data.records:
            return
        try:
            end, epoch = end_of(data.records, state.fetch_offset)
        except InvalidBytesError as error:
            self._on_failure(broken(state.partition, state.fetch_offset, error))
            self._pause(state)
            return
        if end == state.fetch_offset:
            return
        aborted = None
        if self.is_committed:
            aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
        self._client.metrics.bytes_consumed += len(data.records)
        chunk = CompletedFetch(state.partition, data.records, aborted=aborted, checks_crc=self._checks_crc)
        state.add(chunk, end, epoch)

    def _refused(self, state: TopicPartitionState, data: Any) -> None:
        code = data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica != NO_REPLICA:
                state.preferred_replica = NO_REPLICA
            elif self._was_deposed(state):
                self._pause(state)
                self._on_stale()
            else:
                self._on_out_of_range(state)
            return
        state.preferred_replica = NO_REPLICA
        self._pause(state)
        if code not in RETRIABLE or code == ErrorCode.CORRUPT_MESSAGE:
            what = f"cannot read {state.partition} from offset {state.fetch_offset}"
            self._on_failure(RefusedError(code, what))
            return
        hint = data.current_leader
        if hint is not None and hint.leader_id != NO_LEADER:
            leader = LeaderAndEpoch(hint.leader_id, hint.leader_epoch)
            if self._client.metadata.learn_leader(state.partition, leader):
                state.retry_at_ms = 0.0
                return
        self._on_stale()

    def _was_deposed(self, state: TopicPartitionState) -> bool:
        """Whether the leader that was asked is one of before the position: it lacks what came later, and may
        not even know that another one leads. Doubts end: a topic that was created again has old epochs too.
        """
        epoch = self._client.metadata.leader(state.partition).epoch
        return NO_EPOCH != epoch < state.fetch_epoch and state.failures < _DOUBTS_MAX

    def _pause(self, state: TopicPartitionState) -> None:
        state.failures += 1
        state.retry_at_ms = self._environment.now_ms() + self._client.retry.wait_ms(state.failures)
