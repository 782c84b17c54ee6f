"""Reading for one Fetch of a follower: up to the end of the log, noting how far the follower has come.

What a follower asks for is what it lacks, so the request itself moves the high watermark and the in-sync set
(`Partition.follower_fetched`); that happens once, when the request comes, and for a follower whose log
leaves this one not at all: it is told where, and must cut its log first.

A follower may follow thousands of partitions in one session. While it waits, each wake-up only compares
offsets; records are looked for once one of them has some.
"""

from __future__ import annotations

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import Partition
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import Answer, Fetch, WantedPartition
from headrace.server.reading import Reading, divergence
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse, NodeEndpoint, PartitionData


class FollowerReading(Reading):
    """As `Reading`, for the replica that the request names."""

    __slots__ = ("_is_noted", "_now_ms", "_watched", "broker_epoch", "replica_id")

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: Fetch) -> None:
        super().__init__(context, request, fetch)
        state = request.replica_state
        self.replica_id = request.replica_id if state is None else state.replica_id
        self.broker_epoch = -1 if state is None else state.replica_epoch
        self.is_committed = False
        self._now_ms = context.parts.clock.monotonic_ms()
        self._is_noted = False
        self._watched: list[tuple[Partition, int, int]] = []

    def read_all(self) -> list[Answer]:
        answers = super().read_all()
        self._is_noted = True
        return answers

    def attempt(self, expired: bool) -> FetchResponse | None:
        return super().attempt(expired) if expired or self._has_news() else None

    def _hint_leaders(self, answers: list[Answer]) -> list[NodeEndpoint]:
        super()._hint_leaders(answers)
        return []  # a broker knows where the others are

    def _has_news(self) -> bool:
        """Whether a partition that was read has grown, or is not led here any more."""
        for partition, leader_epoch, end in self._watched:
            log = partition.log
            if partition.leader_epoch != leader_epoch or log is None or log.log_end_offset > end:
                return True
        return False

    def _read(self, wanted: WantedPartition) -> PartitionData:
        partition = self._find(wanted)
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
            self._watched.append((partition, partition.leader_epoch, log.log_end_offset))
        room = min(wanted.max_bytes, self.bytes_max - self.bytes_read)
        if offset < log.log_end_offset and (room > 0 or self.bytes_read == 0):
            self._read_within_throttle(partition, log, wanted, data, max(room, 0))
        return data

    def _read_within_throttle(
        self, partition: Partition, log: PartitionLog, wanted: WantedPartition, data: PartitionData, room: int
    ) -> None:
        throttle = self.context.parts.leader_throttle
        is_held = throttle is not None and throttle.holds(partition, self.replica_id)
        if is_held and throttle is not None and throttle.is_used_up(self._now_ms):
            return
        before = self.bytes_read
        self._read_records(log, wanted, data, room=room, end=log.log_end_offset)
        if is_held and throttle is not None:
            throttle.note(self.bytes_read - before)
