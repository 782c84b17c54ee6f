"""DelayedFetch: a consumer's Fetch, which records it gets within its limits, and whether it waits for more.

From v11 on a consumer may read from a follower, up to what that one knows to be replicated (KIP-392). A
leader that has a replica in the consumer's rack names it instead of answering with records.

A consumer that is told that its offset is out of range leaves it for good. So nobody says that of an offset
past its log's end who may merely lack what another leader has: a follower does not, and a leader asks its
followers first whether it still is one. Until it knows, the request waits.

What lies in the remote tier alone is given where it is in memory (`tiered/reader.py`). Else it is being
fetched: the request is answered with what else there is, or waits for it as it does for new records. That an
offset is in neither tier says only a leader that knows what its predecessors put and removed there: a
follower sends the consumer to the leader, and a new leader lets it wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.replication.partition import READ_COMMITTED, Partition
from headrace.server.context import RequestContext
from headrace.server.fetch_sessions import Answer, CachedPartition, FetchContext
from headrace.server.long_requests import Slices, in_slices
from headrace.server.metadata_cache import LEADER_ERRORS, addresses, leader_of
from headrace.server.replica_selection import NO_REPLICA
from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicMetrics
from headrace.wire.schemas.fetch import (
    CURRENT_LEADER_SINCE,
    READ_FROM_FOLLOWER_SINCE,
    TOPIC_ID_SINCE,
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from headrace.tiered.reader import RemoteLogReader


UNKNOWN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Said before a partition is looked at: others that are asked for may still be waited for."""


class DelayedFetch:
    """One consumer's Fetch: its limits, and what has been read for it so far."""

    __slots__ = (
        "_given",
        "_questions",
        "awaits_followers",
        "awaits_remote",
        "bytes_max",
        "bytes_min",
        "bytes_read",
        "context",
        "fetch",
        "finds_any",
        "is_committed",
        "is_last_look",
        "is_urgent",
        "may_read",
        "rack",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: FetchContext) -> None:
        self.context = context
        self.fetch = fetch
        self.is_committed = request.isolation_level == READ_COMMITTED
        self.bytes_max = min(request.max_bytes, context.parts.fetch_bytes_max)
        self.bytes_min = min(request.min_bytes, self.bytes_max)
        self.bytes_read = 0
        self.rack = request.rack_id
        self.finds_any = False  # a partition that exists
        self.is_urgent = False  # an error that the client must hear of now
        self.awaits_remote = False  # records that are being fetched from the remote tier
        self.awaits_followers = False  # a word on whether this node still leads
        self.is_last_look = False
        self.may_read: Callable[[str], bool] | None = None  # asked for each topic at every look
        self._questions: dict[TopicPartition, int] | None = None
        self._given: list[tuple[BrokerTopicMetrics, int]] = []  # bytes of the last look, by topic

    @property
    def is_enough(self) -> bool:
        """Whether there is no reason to wait for more."""
        if self.is_urgent or not self.finds_any:
            return True
        if self.awaits_followers:
            return False
        return self.bytes_read >= self.bytes_min and not (self.awaits_remote and self.bytes_read == 0)

    def keys(self) -> list[TopicPartition]:
        return [TopicPartition(self._name(wanted), wanted.partition) for wanted in self.fetch.partitions]

    def attempt(self, expired: bool) -> FetchResponse | None:
        """Read again after something moved, or for the last time."""
        self.is_last_look = expired
        answers = self.read_all()
        return self.finish(answers) if expired or self.is_enough else None

    def read_all(self) -> list[Answer]:
        self._begin_look()
        return [(wanted, self._read_one(wanted)) for wanted in self.fetch.partitions]

    def read_in_slices(self) -> Slices[list[Answer]]:
        """The same of many partitions, for the first look at them."""
        self._begin_look()
        return (yield from in_slices(self.fetch.partitions, lambda wanted: (wanted, self._read_one(wanted))))

    def _begin_look(self) -> None:
        self.bytes_read, self._given = 0, []
        self.finds_any = self.is_urgent = self.awaits_remote = self.awaits_followers = False

    def finish(self, answers: list[Answer]) -> FetchResponse:
        context = self.context
        if context.api_version >= CURRENT_LEADER_SINCE and self.is_urgent:
            endpoints = self._hint_leaders(answers)
        else:
            endpoints = []
        if self.bytes_read:
            self._count_bytes()
        response = self.fetch.finish(answers, context.parts.clock.monotonic_ms())
        if endpoints:
            response.node_endpoints = endpoints
        return response

    def _count_bytes(self) -> None:
        """Once for each reply, and not for each look at the logs."""
        for metrics, size in self._given:
            metrics.bytes_out += size

    def _metrics_of(self, wanted: CachedPartition) -> BrokerTopicMetrics | None:
        """None where the partition is not here: nobody makes counters by asking for what there is not."""
        try:
            return self.context.parts.replica_manager.find(self._name(wanted), wanted.partition).metrics
        except ApiError:
            return None

    def _name(self, wanted: CachedPartition) -> str:
        if self.context.api_version < TOPIC_ID_SINCE:
            return wanted.topic
        image = self.context.parts.image.topics_by_id.get(TopicId(wanted.topic_id))
        return image.name if image is not None else ""

    def _read_one(self, wanted: CachedPartition) -> PartitionData:
        try:
            return self._read(wanted)
        except ApiError as error:
            data = PartitionData(wanted.partition, error.code, -1, records=b"")
            metrics = self._metrics_of(wanted)
            if metrics is not None:
                metrics.failed_fetch_requests += 1
            if error.code not in UNKNOWN:
                data.aborted_transactions = None
                self.finds_any = self.is_urgent = True
            return data

    def _read(self, wanted: CachedPartition) -> PartitionData:
        partition = self._find(wanted)
        partition.metrics.total_fetch_requests += 1
        if partition.leader_id != partition.node_id and self.context.api_version >= READ_FROM_FOLLOWER_SINCE:
            log = partition.following_log(wanted.current_leader_epoch)
        else:
            log = partition.leading_log(wanted.current_leader_epoch)
        self.finds_any = True
        high_watermark, stable = log.high_watermark, log.last_stable_offset
        data = PartitionData(wanted.partition, 0, high_watermark, stable, log.log_start_offset, records=b"")
        data.aborted_transactions = None
        if self.rack and partition.leader_state is not None:
            data.preferred_read_replica = self._nearer_replica(partition, wanted)
            if data.preferred_read_replica >= 0:
                self.is_urgent = True
                return data
        diverging = divergence(log, wanted)
        if diverging is not None:
            data.diverging_epoch = diverging
            self.is_urgent = True
            return data
        if wanted.fetch_offset > log.log_end_offset and not self._is_sure_to_lead(partition):
            self.awaits_followers = True
            return data
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end = stable if self.is_committed else high_watermark
        room = min(wanted.max_bytes, self.bytes_max - self.bytes_read)
        if wanted.fetch_offset < end and (room > 0 or self.bytes_read == 0):
            remote = self.context.parts.remote_log_reader
            if remote is not None and wanted.fetch_offset < log.local_start_offset:
                self._read_remote(remote, partition, log, wanted, data, room=max(room, 0), end=end)
            else:
                self._read_records(partition, log, wanted, data, room=max(room, 0), end=end)
        elif self.is_committed:
            data.aborted_transactions = []
        return data

    def _is_sure_to_lead(self, partition: Partition) -> bool:
        """Whether no other leader can have taken what this node lacks; NOT_LEADER_OR_FOLLOWER where one has,
        or where it cannot be found out in time.
        """
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._questions is None:
            self._questions = {}
        key = partition.topic_partition
        if key not in self._questions:
            self._questions[key] = partition.ask_followers()
        if partition.is_followed_since(self._questions[key]):
            return True
        if self.is_last_look:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return False

    def _find(self, wanted: CachedPartition) -> Partition:
        name = self._name(wanted)
        if self.may_read is not None and not self.may_read(name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not name:
            unknown_id = self.context.api_version >= TOPIC_ID_SINCE
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.context.parts.replica_manager.find(name, wanted.partition)

    def _nearer_replica(self, partition: Partition, wanted: CachedPartition) -> int:
        parts = self.context.parts
        if parts.replica_selector is None:
            return NO_REPLICA
        return parts.replica_selector(
            parts.image,
            partition,
            rack=self.rack,
            offset=wanted.fetch_offset,
            listener=self.context.peer.listener,
        )

    def _read_records(
        self,
        partition: Partition,
        log: UnifiedLog,
        wanted: CachedPartition,
        data: PartitionData,
        *,
        room: int,
        end: int,
        offset: int | None = None,
    ) -> None:
        """From the offset that is wanted, or from a later one before which there is nothing."""
        offset = wanted.fetch_offset if offset is None else offset
        read = log.read(offset, max_bytes=room, max_offset=end, at_least_one=self.bytes_read == 0)
        size = len(read.chunk)
        if size == 0:
            return
        self.bytes_read += size
        self._given.append((partition.metrics, size))
        data.records = read.chunk
        if self.is_committed:
            aborted = log.aborted_transactions(offset, read.upper_offset)
            data.aborted_transactions = [AbortedTransaction(*each) for each in aborted]

    def _read_remote(
        self,
        remote: RemoteLogReader,
        partition: Partition,
        log: UnifiedLog,
        wanted: CachedPartition,
        data: PartitionData,
        *,
        room: int,
        end: int,
    ) -> None:
        try:
            found = remote.read(
                log,
                wanted.fetch_offset,
                max_bytes=room,
                max_offset=end,
                committed=self.is_committed,
                at_least_one=self.bytes_read == 0,
            )
        except ApiError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE or partition.knows_start:
                raise
            if not partition.is_leader:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
            found = None
        if self.is_committed:
            aborted = () if found is None else found.aborted
            data.aborted_transactions = [AbortedTransaction(*each) for each in aborted]
        if found is None:
            self.awaits_remote = True
        elif len(found.records) > 0:
            self.bytes_read += len(found.records)
            self._given.append((partition.metrics, len(found.records)))
            self.bytes_min = 0  # more comes with the next request: nobody waits for it, as in Kafka
            data.records = found.records
        elif found.upper_offset > wanted.fetch_offset:  # compaction took the rest of the remote tier
            self._read_records(partition, log, wanted, data, room=room, end=end, offset=found.upper_offset)

    def _hint_leaders(self, answers: list[Answer]) -> list[NodeEndpoint]:
        image = self.context.parts.image
        leaders = set()
        for wanted, data in answers:
            if data.error_code in LEADER_ERRORS:
                leader = leader_of(image, wanted.topic, wanted.topic_id, wanted.partition)
                if leader is not None:
                    data.current_leader = LeaderIdAndEpoch(*leader)
                    leaders.add(leader.id)
        known = addresses(image, leaders, self.context.peer.listener)
        return [NodeEndpoint(*address) for address in known]


def divergence(log: UnifiedLog, wanted: CachedPartition) -> EpochEndOffset | None:
    """Where the reader's log leaves ours: its last epoch is not one we have, or ends before its offset."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.leader_epoch_cache.end_offset_for(wanted.last_fetched_epoch, log.log_end_offset)
    if epoch == NO_EPOCH or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None
