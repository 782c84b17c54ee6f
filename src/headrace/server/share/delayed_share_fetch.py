"""DelayedShareFetch: a member's ShareFetch, which records it acquires, and whether it waits for some.

The partitions of its session are looked at in order until the limits are reached. A share partition that is
not loaded yet is waited for like one that has nothing to hand out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from headrace.base.chunks import FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey
from headrace.log.unified_log import UnifiedLog
from headrace.replication.partition import Partition
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, at_once
from headrace.server.share.acquiring import Limits
from headrace.server.share.key_order import KeyOrder
from headrace.server.share.log_batches import LogBatches, Piece
from headrace.server.share.share_partition_manager import LedSharePartition, SharePartitionManager
from headrace.server.share.share_sessions import PartitionId, ShareSession
from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicMetrics
from headrace.wire.schemas.share_fetch import AcquiredRecords, PartitionData, ShareFetchRequest

RECORD_LIMIT: Final = 1
"""The acquire mode that never gives a record more than asked for (KIP-1206)."""

KEYS_BYTES: Final = 256 * 1024
"""Of the log, looked at for keys at a time: some thousand records."""

Found = dict[PartitionId, PartitionData]


def find_partition(context: RequestContext, partition_id: PartitionId) -> Partition:
    """The partition of this id; ApiError where there is none."""
    topic = context.parts.image.topics_by_id.get(TopicId(partition_id[0]))
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if partition_id[1] not in topic.partitions:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return context.parts.replica_manager.find(topic.name, partition_id[1])


class DelayedShareFetch:
    """One member's ShareFetch: its limits, and what has been acquired for it so far."""

    def __init__(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
        may_read: Callable[[bytes], bool],
    ) -> None:
        self._context = context
        self._request = request
        self._session = session
        self._may_read = may_read
        self._manager: SharePartitionManager = context.parts.share_groups.manager
        self._bytes_left = 0
        self._records_left = 0
        self._bytes_read = 0

    def keys(self) -> list[Hashable]:
        """What a fetch that found nothing waits for."""
        keys: list[Hashable] = []
        for topic_id, index in self._session.partitions:
            topic = self._context.parts.image.topics_by_id.get(TopicId(topic_id))
            keys.append(SharePartitionKey(self._session.group_id, topic_id, index))
            if topic is not None:
                keys.append(TopicPartition(topic.name, index))
        return keys

    def attempt(self, expired: bool) -> Found | None:
        """Acquire what there is; None where that is nothing, and there is time left."""
        return at_once(self.attempt_in_slices(expired))

    def attempt_in_slices(self, expired: bool) -> Slices[Found | None]:
        """The same of many partitions."""
        found: Found = {}
        if self._is_over():
            return found
        if not expired and self._request.min_bytes > 1 and self._readable() < self._request.min_bytes:
            return None
        self._bytes_left = min(self._request.max_bytes, self._context.parts.fetch_bytes_max)
        self._records_left, self._bytes_read = self._request.max_records, 0
        for number, partition_id in enumerate(list(self._session.partitions), 1):
            if not number % SLICE_ITEMS:
                yield
                if self._is_over():
                    return {}  # what was acquired is released
            data = self._read_one(partition_id)
            if data is not None:
                found[partition_id] = data
        if not found and not expired:
            return None
        self._session.to_end([each for each, data in found.items() if data.acquired_records])
        return found

    def _is_over(self) -> bool:
        """Whether nobody would answer for what is acquired."""
        return self._context.peer.is_gone or not self._manager.sessions.is_open(self._session)

    def _readable(self) -> int:
        """How many bytes could be acquired now."""
        total = 0
        for partition_id in self._session.partitions:
            try:
                led = self._find(partition_id)
            except ApiError:
                return self._request.min_bytes  # to be told at once
            if led is not None and self._may_acquire(led):
                log = led.partition.leading_log()
                offset = led.core.next_fetch_offset()
                piece = self._piece(led, log, offset, self._request.max_bytes, at_least_one=True)
                total += 0 if piece is None else len(piece)
        return total

    def _read_one(self, partition_id: PartitionId) -> PartitionData | None:
        """Records or an error; None where there is no news."""
        metrics: BrokerTopicMetrics | None = None
        try:
            if not self._may_read(partition_id[0]):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            metrics = find_partition(self._context, partition_id).metrics
            metrics.total_share_fetch_requests += 1
            led = self._find(partition_id)
            if led is None or not self._may_acquire(led):
                return None
            return self._acquire(led, partition_id)
        except ApiError as error:
            if metrics is not None:
                metrics.failed_share_fetch_requests += 1
            return PartitionData(partition_id[1], error.code, error.message)

    def _find(self, partition_id: PartitionId) -> LedSharePartition | None:
        partition = find_partition(self._context, partition_id)
        return self._manager.find(SharePartitionKey(self._session.group_id, *partition_id), partition)

    def _may_acquire(self, led: LedSharePartition) -> bool:
        return self._manager.may_acquire(led)

    def _acquire(self, led: LedSharePartition, partition_id: PartitionId) -> PartitionData | None:
        if self._records_left <= 0 or (self._bytes_left <= 0 and self._bytes_read > 0):
            return None
        log, order = led.partition.leading_log(), led.core.order
        if order is not None:
            self._learn_keys(led, log, order)
            if not led.core.has_free:
                return None
        config = self._manager.config_of(self._session.group_id)
        at_least_one = self._bytes_read == 0
        begin = led.core.next_fetch_offset()
        batches = self._batches(led, log, begin, max(0, self._bytes_left), at_least_one=at_least_one)
        if batches is None:
            return None
        limits = Limits(
            records_max=min(self._records_left, 1) if led.breaker.is_on_trial else self._records_left,
            batch_size=self._request.batch_size,
            is_strict=led.breaker.is_on_trial or self._request.share_acquire_mode == RECORD_LIMIT,
            lock_until_ms=self._context.parts.clock.monotonic_ms() + config.lock_duration_ms,
            locks_max=config.record_locks_max,
            delivery_count_limit=config.delivery_count_limit,
        )
        acquired = self._manager.acquire(led, self._session.member_id, batches, limits)
        if not acquired:
            if order is not None and led.core.next_fetch_offset() > begin:
                self._manager.look_again(led)  # the log had nothing there
            return None
        cover = batches.cover if order is None else batches.cover_sparsely
        data = PartitionData(partition_id[1], records=cover(acquired))
        data.acquired_records = [AcquiredRecords(*each) for each in acquired]
        self._bytes_left -= len(data.records)
        self._bytes_read += len(data.records)
        self._records_left -= sum(each.last_offset - each.first_offset + 1 for each in acquired)
        led.partition.metrics.bytes_out += len(data.records)
        return data

    def _learn_keys(self, led: LedSharePartition, log: UnifiedLog, order: KeyOrder) -> None:
        """In order by key: have records whose turn it is. It takes a few milliseconds at most, and goes on
        with the next attempt, for which somebody who waits is woken."""
        config = self._manager.config_of(self._session.group_id)
        begin = order.known_to
        if not order.has_room:
            return
        batches = self._batches(led, log, begin, KEYS_BYTES, at_least_one=True)
        if batches is None:
            return
        clock = self._context.parts.clock
        keyed = batches.with_keys(order.looks, now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
        try:
            led.core.learn_keys(keyed, records=self._records_left, locks_max=config.record_locks_max)
        except InvalidBytesError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        self._manager.watch_rests(led)
        if order.known_to > begin and not led.core.has_free:
            self._manager.look_again(led)

    def _batches(
        self, led: LedSharePartition, log: UnifiedLog, offset: int, bytes_max: int, *, at_least_one: bool
    ) -> LogBatches | None:
        """The batches from this offset on, as far as the group may read; None where there are none."""
        piece = self._piece(led, log, offset, bytes_max, at_least_one=at_least_one)
        if piece is None:
            return None
        if not self._manager.config_of(self._session.group_id).is_committed:
            return LogBatches(piece)
        return LogBatches(piece, log.aborted_transactions(offset, log.last_stable_offset))

    def _piece(
        self, led: LedSharePartition, log: UnifiedLog, offset: int, bytes_max: int, *, at_least_one: bool
    ) -> Piece | None:
        """What the log has from this offset on, as far as the group may read; None where that is nothing."""
        config = self._manager.config_of(self._session.group_id)
        end = log.last_stable_offset if config.is_committed else log.high_watermark
        if offset >= end:
            return None
        remote = self._context.parts.remote_log_reader
        piece: Piece
        if remote is not None and offset < log.local_start_offset:
            window = remote.read(
                log,
                offset,
                max_bytes=bytes_max,
                max_offset=end,
                committed=False,
                at_least_one=at_least_one,
            )
            if window is None:
                return None  # it is being fetched; the partition's key is told when it is there
            piece = window.records
        else:
            chunk = log.read(offset, max_bytes=bytes_max, max_offset=end, at_least_one=at_least_one).chunk
            piece = chunk if isinstance(chunk, FileSlice) else bytes(chunk)
        return piece if len(piece) else None
