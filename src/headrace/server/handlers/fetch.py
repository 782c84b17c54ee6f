"""Fetch (1), v4-v18: read records from partitions, waiting for them where there are too few.

A session (KIP-227) says which partitions are wanted. Each is read up to what its reader may see: the high
watermark, or the last stable offset for read_committed. The first partition with data gives at least one
batch whatever the limits, so that a large batch cannot block a reader; the last batch may be cut. With fewer
than `min_bytes` and no error the request waits, up to `max_wait_ms`, for a watched partition to move. A
partition that does not exist does not end the wait, unless nothing else is wanted: a consumer would ask again
at once. Records are slices of segment files: the kernel sends them, this code never sees them.

Checks, in order: a consumer, and an isolation level that there is? the session as the client believes? then
of each partition: known? its leader epoch ours (v9, KIP-320)? leader here? the reader's last epoch not
diverging (v12, KIP-595)? offset within the log? v13: topics by id. v16: leaders are told (KIP-951).
"""

from __future__ import annotations

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import READ_COMMITTED
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import Answer, Fetch, WantedPartition
from headrace.server.leader_hints import LEADER_ERRORS, addresses, leader_of
from headrace.wire.schemas.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

LEADER_HINTS_SINCE: Final = 16
TOPIC_IDS_SINCE: Final = 13

_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Future[FetchResponse]:
    """Read now; answer if there is enough, else wait."""
    parts = context.parts
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        # Only brokers fetch as replicas, and none has registered with this node's partitions.
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.isolation_level > READ_COMMITTED or request.isolation_level < 0:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    fetch = parts.sessions.begin(request, context.api_version, parts.clock.monotonic_ms(), follower=False)
    if isinstance(fetch, FetchResponse):
        return fetch
    reading = _Reading(context, request, fetch)
    answers = reading.read_all()
    if reading.is_enough or request.max_wait_ms <= 0:
        return reading.finish(answers)
    return parts.waiting.watch(reading.keys(), reading.attempt, request.max_wait_ms)


class _Reading:
    """One Fetch: its limits, and what has been read for it so far."""

    __slots__ = (
        "bytes_max",
        "bytes_min",
        "bytes_read",
        "context",
        "fetch",
        "finds_any",
        "is_committed",
        "is_urgent",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: Fetch) -> None:
        self.context = context
        self.fetch = fetch
        self.is_committed = request.isolation_level == READ_COMMITTED
        self.bytes_max = min(request.max_bytes, context.parts.fetch_bytes_max)
        self.bytes_min = min(request.min_bytes, self.bytes_max)
        self.bytes_read = 0
        self.finds_any = False  # a partition that exists
        self.is_urgent = False  # an error that the client must hear of now

    @property
    def is_enough(self) -> bool:
        """Whether there is no reason to wait for more."""
        return self.bytes_read >= self.bytes_min or self.is_urgent or not self.finds_any

    def keys(self) -> list[TopicPartition]:
        return [TopicPartition(self._name(wanted), wanted.partition) for wanted in self.fetch.partitions()]

    def attempt(self, expired: bool) -> FetchResponse | None:
        """Read again after something moved, or for the last time."""
        answers = self.read_all()
        return self.finish(answers) if expired or self.is_enough else None

    def read_all(self) -> list[Answer]:
        self.bytes_read = 0
        self.finds_any = self.is_urgent = False
        return [(wanted, self._read_one(wanted)) for wanted in self.fetch.partitions()]

    def finish(self, answers: list[Answer]) -> FetchResponse:
        context = self.context
        if context.api_version >= LEADER_HINTS_SINCE and self.is_urgent:
            endpoints = self._hint_leaders(answers)
        else:
            endpoints = []
        response = self.fetch.finish(answers, context.parts.clock.monotonic_ms())
        if endpoints:
            response.node_endpoints = endpoints
        return response

    def _name(self, wanted: WantedPartition) -> str:
        if self.context.api_version < TOPIC_IDS_SINCE:
            return wanted.topic
        image = self.context.parts.image.topics_by_id.get(TopicId(wanted.topic_id))
        return image.name if image is not None else ""

    def _read_one(self, wanted: WantedPartition) -> PartitionData:
        try:
            return self._read(wanted)
        except ApiError as error:
            data = PartitionData(wanted.partition, error.code, -1, records=b"")
            if error.code not in _UNKNOWN:
                data.aborted_transactions = None
                self.finds_any = self.is_urgent = True
            return data

    def _read(self, wanted: WantedPartition) -> PartitionData:
        name = self._name(wanted)
        if not name:
            unknown_id = self.context.api_version >= TOPIC_IDS_SINCE
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.context.parts.replicas.find(name, wanted.partition)
        log = partition.leading_log(wanted.current_leader_epoch)
        self.finds_any = True
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        data = PartitionData(wanted.partition, 0, high_watermark, stable, log.log_start_offset, records=b"")
        data.aborted_transactions = None
        diverging = _divergence(log, wanted)
        if diverging is not None:
            data.diverging_epoch = diverging
            self.is_urgent = True
            return data
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end = stable if self.is_committed else high_watermark
        room = min(wanted.max_bytes, self.bytes_max - self.bytes_read)
        if wanted.fetch_offset < end and (room > 0 or self.bytes_read == 0):
            self._read_records(log, wanted, data, room=max(room, 0), end=end)
        elif self.is_committed:
            data.aborted_transactions = []
        return data

    def _read_records(
        self, log: PartitionLog, wanted: WantedPartition, data: PartitionData, *, room: int, end: int
    ) -> None:
        read = log.read(
            wanted.fetch_offset, max_bytes=room, max_offset=end, at_least_one=self.bytes_read == 0
        )
        size = len(read.chunk)
        if size == 0:
            return
        self.bytes_read += size
        data.records = read.chunk
        if self.is_committed:
            aborted = log.aborted_transactions(wanted.fetch_offset, read.upper_offset)
            data.aborted_transactions = [AbortedTransaction(*each) for each in aborted]

    def _hint_leaders(self, answers: list[Answer]) -> list[NodeEndpoint]:
        image = self.context.parts.image
        leaders = set()
        for wanted, data in answers:
            if data.error_code in LEADER_ERRORS:
                leader = leader_of(image, wanted.topic, wanted.topic_id, wanted.partition)
                if leader is not None:
                    data.current_leader = LeaderIdAndEpoch(*leader)
                    leaders.add(leader.id)
        known = addresses(image, leaders, self.context.connection.listener)
        return [NodeEndpoint(*address) for address in known]


def _divergence(log: PartitionLog, wanted: WantedPartition) -> EpochEndOffset | None:
    """Where the reader's log leaves ours: its last epoch is not one we have, or ends before its offset."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.log_end_offset)
    if epoch == NO_EPOCH or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None
