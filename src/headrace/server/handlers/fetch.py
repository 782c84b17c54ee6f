"""Fetch (1), v4-v18: read records from partitions, waiting for them where there are too few.

A session (KIP-227) says which partitions are wanted. Each is read up to what its reader may see: the high
watermark, or the last stable offset for read_committed, and always whole batches. The first partition with
data gives at least one batch whatever the limits, so that a large batch cannot block a reader. With fewer
than `min_bytes` and no error the request waits, up to `max_wait_ms`, for a watched partition to move. Records
are slices of segment files: the kernel sends them, this code never sees them. v9: leader epochs fence
(KIP-320). v12: a reader whose last epoch diverges is told where (KIP-595). v13: topics by id.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    pass

LEADER_HINTS_SINCE: Final = 16
TOPIC_IDS_SINCE: Final = 13


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Future[FetchResponse]:
    """Read now; answer if there is enough, else wait."""
    parts = context.parts
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        # Only brokers fetch as replicas, and none has registered with this node's partitions.
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    fetch = parts.sessions.begin(request, context.api_version, parts.clock.monotonic_ms(), follower=False)
    if isinstance(fetch, FetchResponse):
        return fetch
    reading = _Reading(context, request, fetch)
    answers = reading.read_all()
    if reading.bytes_read >= request.min_bytes or reading.is_urgent or request.max_wait_ms <= 0:
        return reading.finish(answers)
    if not answers:
        # A session without partitions waits too: it is how an idle consumer is kept from spinning.
        return parts.waiting.watch(
            (), lambda expired: reading.finish([]) if expired else None, request.max_wait_ms
        )
    return parts.waiting.watch(reading.keys(), reading.attempt, request.max_wait_ms)


class _Reading:
    """One Fetch: its limits, and what has been read for it so far."""

    __slots__ = ("bytes_read", "context", "fetch", "is_urgent", "request")

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: Fetch) -> None:
        self.context = context
        self.request = request
        self.fetch = fetch
        self.bytes_read = 0
        self.is_urgent = False

    def keys(self) -> list[TopicPartition]:
        return [TopicPartition(self._name(wanted), wanted.partition) for wanted in self.fetch.partitions()]

    def attempt(self, expired: bool) -> FetchResponse | None:
        """Read again after something moved, or for the last time."""
        answers = self.read_all()
        if expired or self.is_urgent or self.bytes_read >= self.request.min_bytes:
            return self.finish(answers)
        return None

    def read_all(self) -> list[Answer]:
        self.bytes_read = 0
        self.is_urgent = False
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
            self.is_urgent = True
            return PartitionData(wanted.partition, error.code, -1)

    def _read(self, wanted: WantedPartition) -> PartitionData:
        request = self.request
        name = self._name(wanted)
        if not name:
            unknown_id = self.context.api_version >= TOPIC_IDS_SINCE
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.context.parts.replicas.find(name, wanted.partition)
        log = partition.leading_log(wanted.current_leader_epoch)
        data = PartitionData(
            wanted.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset
        )
        data.aborted_transactions = None
        diverging = _divergence(log, wanted)
        if diverging is not None:
            data.diverging_epoch = diverging
            self.is_urgent = True
            return data
        committed = request.isolation_level == READ_COMMITTED
        end = log.last_stable_offset if committed else log.high_watermark
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        room = min(wanted.max_bytes, request.max_bytes - self.bytes_read)
        if wanted.fetch_offset >= end or (room <= 0 and self.bytes_read > 0):
            data.records = b""
            if committed:
                data.aborted_transactions = []
            return data
        read = log.read(
            wanted.fetch_offset, max_bytes=max(room, 0), max_offset=end, at_least_one=self.bytes_read == 0
        )
        self.bytes_read += len(read.chunk)
        data.records = read.chunk
        if committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id, first_offset)
                for producer_id, first_offset in log.aborted_transactions(
                    wanted.fetch_offset, read.upper_offset
                )
            ]
        return data

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
    if wanted.last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.log_end_offset)
    if epoch == NO_EPOCH or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None
