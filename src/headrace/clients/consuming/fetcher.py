"""Fetches ahead: keeps one long poll at every broker that has something to read, within a bound of memory.

`send_fetches` looks which partitions may be fetched (they have a position, are not paused, and not too much
of them is buffered) and sends one request to each broker that has none under way. Answers are sorted into the
partitions' states and `on_news` is called. Errors that pass make the metadata anew; an offset out of range
goes to the reset policy; others are kept for the next poll.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_EPOCH, NO_LEADER, TopicPartition
from headrace.clients.channel import Channel
from headrace.clients.cluster_client import ClusterClient, Use
from headrace.clients.consuming.fetch_session import FetchSession, Wanted
from headrace.clients.consuming.positions import NO_REPLICA, PartitionState, Positions
from headrace.clients.consuming.records import Chunk, broken, end_of
from headrace.clients.errors import ClientError, RefusedError, UnreachableError
from headrace.clients.metadata import Leader
from headrace.wire.schemas.fetch import FetchRequest

# Fetch names topics by id from this version on.
_FIRST_WITH_IDS: Final = 13
# How often a leader that is older than what was read is not believed that an offset is out of range.
_DOUBTS_MAX: Final = 8
# How much of one partition may wait, in answers of the largest size: one is read while one arrives.
_CHUNKS_AHEAD: Final = 2

Eras = dict[TopicPartition, int]


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        cluster: ClusterClient,
        positions: Positions,
        *,
        on_news: Callable[[], None],
        on_stale: Callable[[], None],
        on_out_of_range: Callable[[PartitionState], None],
        on_failure: Callable[[ClientError], None],
    ) -> None:
        config = cluster.config
        self._cluster = cluster
        self._world = cluster.world
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
        self._sessions: dict[int, FetchSession] = {}
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
        now_ms = self._world.now_ms()
        next_ms = float("inf")
        groups: dict[int, list[PartitionState]] = {}
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
                self._fetch(node, states)
        return next_ms

    def _is_fetchable(self, state: PartitionState) -> bool:
        ahead = _CHUNKS_AHEAD * self._partition_bytes_max
        return (
            state.has_position
            and state.fetch_offset < state.fetch_until
            and not state.is_paused
            and not state.must_validate
            and state.buffered_bytes < ahead
            and len(state.chunks) < 2 * _CHUNKS_AHEAD
        )

    def _node_for(self, state: PartitionState, now_ms: float) -> int:
        """The leader, or the replica nearby that the leader has named (KIP-392)."""
        if state.preferred_replica != NO_REPLICA:
            if now_ms < state.preferred_until_ms and state.preferred_replica in self._cluster.view.brokers:
                return state.preferred_replica
            state.preferred_replica = NO_REPLICA
        return self._cluster.view.leader(state.partition).node

    def _fetch(self, node: int, states: list[PartitionState]) -> None:
        try:
            channel = self._cluster.channel(node, Use.FETCH)
        except UnreachableError:
            self._on_stale()
            return
        if not channel.is_ready:
            self._connect(node, channel)
            return
        session = self._sessions.setdefault(node, FetchSession())
        request, at_most = self._request(session, states)
        eras = {state.partition: state.era for state in states}
        config = self._cluster.config
        timeout_ms = self._cluster.timeout_ms + config.int("fetch.max.wait.ms")
        try:
            asked = channel.ask_now(request, timeout_ms=timeout_ms, at_most=at_most)
        except ClientError as error:
            self._on_failure(error)
            return
        self._in_flight.add(node)
        asked.add_done_callback(lambda done: self._answered(node, eras, done))

    def _request(
        self, session: FetchSession, states: list[PartitionState]
    ) -> tuple[FetchRequest, int | None]:
        view, config = self._cluster.view, self._cluster.config
        has_ids = view.has_ids({state.partition.topic for state in states})
        wanted = {
            state.partition: Wanted(
                view.topic_id(state.partition.topic),
                state.fetch_offset,
                view.leader(state.partition).epoch,
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
        return request, None if has_ids else _FIRST_WITH_IDS - 1

    def _connect(self, node: int, channel: Channel) -> None:
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
            task = self._world.loop.create_task(connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # Answers

    def _answered(self, node: int, eras: Eras, done: "asyncio.Future[Any]") -> None:
        self._in_flight.discard(node)
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
        view = self._cluster.view
        view.learn_endpoints((each.node_id, each.host, each.port) for each in response.node_endpoints)
        for topic in response.responses:
            name = view.name_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                state = self._positions.get(partition)
                if state is None or state.era != eras.get(partition):
                    continue  # it moved, or is somebody else's, since this was asked
                if data.error_code:
                    self._refused(state, data)
                else:
                    self._received(state, data)

    def _received(self, state: PartitionState, data: Any) -> None:
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica != NO_REPLICA:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = self._world.now_ms() + self._replica_age_ms
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
        chunk = Chunk(state.partition, data.records, aborted=aborted, checks_crc=self._checks_crc)
        state.add(chunk, end, epoch)

    def _refused(self, state: PartitionState, data: Any) -> None:
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
            leader = Leader(hint.leader_id, hint.leader_epoch)
            if self._cluster.view.learn_leader(state.partition, leader):
                state.retry_at_ms = 0.0
                return
        self._on_stale()

    def _was_deposed(self, state: PartitionState) -> bool:
        """Whether the leader that was asked is one of before the position: it lacks what came later, and may
        not even know that another one leads. Doubts end, for a topic that was made anew has old epochs too.
        """
        epoch = self._cluster.view.leader(state.partition).epoch
        return NO_EPOCH != epoch < state.fetch_epoch and state.failures < _DOUBTS_MAX

    def _pause(self, state: PartitionState) -> None:
        state.failures += 1
        state.retry_at_ms = self._world.now_ms() + self._cluster.retry.wait_ms(state.failures)
