"""DelayedFollowerFetch: a follower's Fetch, up to the end of the log, noting how far the follower has come.

What a follower asks for is what it lacks, so the request itself moves the high watermark and the in-sync set
(`Partition.follower_fetched`); that happens once, when the request comes, and for a follower whose log
leaves this one not at all: it is told where, and must cut its log first. It also tells that this node is
followed; where somebody wants to know (`Partition.ask_followers`), no reply waits for records.

A follower may follow thousands of partitions in one session, most of which are quiet: the follower is in
sync, has all of them, and knows it. Such a one costs a few comparisons, when the request comes and at each
wake-up; records are looked for where there are some.
"""

from __future__ import annotations

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.replication.partition import Partition
from headrace.server.context import RequestContext
from headrace.server.delayed_fetch import DelayedFetch, divergence
from headrace.server.fetch_sessions import Answer, CachedPartition, FetchContext
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse, NodeEndpoint, PartitionData


class DelayedFollowerFetch(DelayedFetch):
    """As `DelayedFetch`, for the replica that the request names."""

    __slots__ = ("_is_noted", "_now_ms", "broker_epoch", "replica_id")

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: FetchContext) -> None:
        super().__init__(context, request, fetch)
        state = request.replica_state
        self.replica_id = request.replica_id if state is None else state.replica_id
        self.broker_epoch = -1 if state is None else state.replica_epoch
        self.is_committed = False
        self._now_ms = context.parts.clock.monotonic_ms()
        self._is_noted = False
        context.parts.replica_manager.context.now_ms = self._now_ms

    def keys(self) -> list[TopicPartition]:
        return [
            TopicPartition(self._name(wanted), wanted.partition)
            if wanted.replica is None
            else wanted.replica.topic_partition
            for wanted in self.fetch.partitions
        ]

    def read_all(self) -> list[Answer]:
        self._begin_look()
        answers = []
        for wanted in self.fetch.partitions:
            if self._is_quiet(wanted):
                self.finds_any = True
            else:
                answers.append((wanted, self._read_one(wanted)))
        self._is_noted = True
        return answers

    def attempt(self, expired: bool) -> FetchResponse | None:
        return super().attempt(expired) if expired or self._has_news() else None

    def _hint_leaders(self, answers: list[Answer]) -> list[NodeEndpoint]:
        super()._hint_leaders(answers)
        return []  # a broker knows where the others are

    def _count_bytes(self) -> None:
        for metrics, size in self._given:
            metrics.replication_bytes_out += size

    def _has_news(self) -> bool:
        """Whether a partition that was read has grown, or is not led here any more."""
        for wanted in self.fetch.partitions:
            partition = wanted.replica
            if partition is not None:
                log = partition.log
                if (
                    log is None
                    or log.log_end_offset > wanted.fetch_offset
                    or partition.leader_epoch != wanted.current_leader_epoch
                    or (partition.question and partition.owes_answer(self.replica_id))
                ):
                    return True
        return False

    def _is_quiet(self, wanted: CachedPartition) -> bool:
        """Whether the follower has all there is, as was noted before, and was told all there is to tell. One
        that is not in sync is noted each time: it may be let in by now.
        """
        partition: Partition | None = wanted.replica
        if partition is None or wanted.noted_offset != wanted.fetch_offset:
            return False
        log, leader_state = partition.log, partition.leader_state
        return (
            log is not None
            and leader_state is not None
            and log.failure is None
            and log.log_end_offset == wanted.fetch_offset
            and log.high_watermark == wanted.told_high_watermark
            and log.log_start_offset == wanted.told_log_start_offset
            and partition.leader_epoch == wanted.current_leader_epoch
            and self.replica_id in leader_state.isr
            and not (partition.question and partition.owes_answer(self.replica_id))
        )

    def _read(self, wanted: CachedPartition) -> PartitionData:
        partition = self._find(wanted)
        partition.metrics.total_fetch_requests += 1
        epoch = wanted.current_leader_epoch
        log = partition.leading_log(epoch)
        self.finds_any = True
        data = PartitionData(
            wanted.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        data.diverging_epoch = divergence(log, wanted)
        if data.diverging_epoch is not None:
            self.is_urgent = True
            return data
        offset = wanted.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset < log.local_start_offset:
            # It shall start where the local part does, and take the rest for granted (KIP-405).
            data.error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            self.is_urgent = True
            return data
        if not self._is_noted:
            partition.follower_fetched(
                self.replica_id,
                offset=offset,
                log_start_offset=wanted.follower_log_start_offset,
                broker_epoch=self.broker_epoch,
                now_ms=self._now_ms,
                current_leader_epoch=epoch,
            )
            data.high_watermark = log.high_watermark
            wanted.replica, wanted.noted_offset = partition, offset
        if partition.owes_answer(self.replica_id):
            partition.put_question(self.replica_id)
            self.is_urgent = True
        room = min(wanted.max_bytes, self.bytes_max - self.bytes_read)
        if offset < log.log_end_offset and (room > 0 or self.bytes_read == 0):
            self._read_within_throttle(partition, log, wanted, data, max(room, 0))
        return data

    def _read_within_throttle(
        self, partition: Partition, log: UnifiedLog, wanted: CachedPartition, data: PartitionData, room: int
    ) -> None:
        throttle = self.context.parts.leader_replication_quota
        is_held = throttle is not None and throttle.holds(partition, self.replica_id)
        if is_held and throttle is not None and throttle.is_used_up(self._now_ms):
            return
        before = self.bytes_read
        self._read_records(partition, log, wanted, data, room=room, end=log.log_end_offset)
        if is_held and throttle is not None:
            throttle.note(self.bytes_read - before)
