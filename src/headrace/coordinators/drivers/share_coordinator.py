"""ShareCoordinator: serves the share partitions whose partition of `__share_group_state` this node leads.

The shards decide; this finds them, has their records written and answers when those are replicated. It also
keeps the topic small: share partitions that nobody changes get a snapshot now and then, and what lies before
the oldest snapshot is deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import SHARE_STATE_TOPIC
from headrace.coordinators.coordinator_shard import CoordinatorRecord, partition_for
from headrace.coordinators.drivers.coordinator_runtime import CoordinatorRuntime
from headrace.coordinators.share.share_coordinator_shard import (
    ShareCoordinatorShard,
    SharePartitionKey,
    StateToWrite,
)
from headrace.coordinators.share.state_batches import StateBatch
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import SHARE
from headrace.wire.schemas import delete_share_group_state as delete
from headrace.wire.schemas import initialize_share_group_state as initialize
from headrace.wire.schemas import read_share_group_state as read
from headrace.wire.schemas import read_share_group_state_summary as summary
from headrace.wire.schemas import write_share_group_state as write

logger = logging.getLogger(__name__)

Decide = Callable[[ShareCoordinatorShard, SharePartitionKey, Any, Any], CoordinatorRecord | None]
"""Fills in a partition's result, and returns what is to be written before it is told."""


class ShareCoordinator:
    """All share partitions whose state this node keeps."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        replicas: ReplicaManager,
        image: MetadataImage,
    ) -> None:
        self._config = config
        self._clock = clock
        self._loop = loop
        self._replicas = replicas
        self._image = image
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False
        self.writes = 0  # of states, for metrics
        self.write_requests = 0
        self.write_s = 0.0  # those requests took, in all
        self.runtime: CoordinatorRuntime[ShareCoordinatorShard] = CoordinatorRuntime(
            SHARE_STATE_TOPIC,
            SHARE,
            clock=clock,
            loop=loop,
            make_shard=self._make_shard,
            write_timeout_ms=config.int("share.coordinator.write.timeout.ms"),
            on_replayed=ShareCoordinatorShard.replayed_at,
        )

    def start(self) -> None:
        """Begin to look for what can be made smaller."""
        self._repeat("share.coordinator.state.topic.prune.interval.ms", self._prune)
        self._repeat("share.coordinator.cold.partition.snapshot.interval.ms", self._snapshot_cold)

    def stop(self) -> None:
        """Coordinate nothing any more."""
        self._stopped = True
        self.runtime.unload_all()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        if self._stopped:
            return
        for topic in delta.topics_deleted:
            if topic.name == SHARE_STATE_TOPIC:
                for index in topic.partitions:
                    self.runtime.unload(index)
        topic_now = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        if topic_now is None:
            return
        for index in delta.partitions_changed(topic_now.id):
            partition = self._replicas.get(TopicPartition(SHARE_STATE_TOPIC, index))
            if partition is not None:
                self.runtime.on_leadership_change(partition)
        if delta.topics_deleted:
            self._forget_deleted_topics(topic_now.partitions)

    # --- where a share partition lives ---

    def partition_of(self, key: str) -> int:
        """The partition that keeps it; ApiError until the topic exists."""
        topic = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """The broker that coordinates it, -1 where there is none now."""
        partition = self._image.partition(SHARE_STATE_TOPIC, self.partition_of(key))
        return -1 if partition is None else partition.leader

    # --- requests: each partition has an answer of its own ---

    def ask(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Serve one of the five requests; `answer` is called with its response."""
        serve = _SERVED[type(request)]
        if type(request) is write.WriteShareGroupStateRequest:
            answer = self._timed(answer)
        _Serving(self, request, serve, answer).run()

    def _timed(self, answer: Callable[[Any], None]) -> Callable[[Any], None]:
        began = self._loop.time()

        def timed(response: write.WriteShareGroupStateResponse) -> None:
            self.write_requests += 1
            self.write_s += self._loop.time() - began
            self.writes += sum(not each.error_code for topic in response.results for each in topic.partitions)
            answer(response)

        return timed

    # --- upkeep ---

    def _repeat(self, setting: str, action: Callable[[], None]) -> None:
        def run() -> None:
            if not self._stopped:
                action()
                self._repeat(setting, action)

        self._timers[setting] = self._loop.call_later(self._config.int(setting) / 1000, run)

    def _prune(self) -> None:
        """Delete the log before what is still needed, once that is replicated: until then whoever leads next
        needs the snapshots before."""
        topic = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        for index in () if topic is None else topic.partitions:
            try:
                offset = self.runtime.shard(index).prunable.offset()
            except ApiError:
                continue  # led elsewhere, or loading: it is looked at again
            self.runtime.when_committed(index, partial(self._prune_to, index, offset))

    def _prune_to(self, index: int, offset: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE or self._stopped:
            return
        try:
            partition = self._replicas.find(SHARE_STATE_TOPIC, index)
            if partition.local_log().log_start_offset < offset <= partition.local_log().high_watermark:
                partition.delete_records(offset)
        except ApiError as failure:
            logger.warning("%s-%d cannot be pruned yet: %s", SHARE_STATE_TOPIC, index, failure)

    def _snapshot_cold(self) -> None:
        interval_ms = self._config.int("share.coordinator.cold.partition.snapshot.interval.ms")
        older_than_ms = self._clock.now_ms() - interval_ms
        topic = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        for index in () if topic is None else topic.partitions:
            self._write_upkeep(index, lambda shard: shard.cold_snapshots(older_than_ms))

    def _forget_deleted_topics(self, partitions: Iterable[int]) -> None:
        for index in partitions:
            self._write_upkeep(index, ShareCoordinatorShard.stale_records)

    def _write_upkeep(
        self, index: int, make: Callable[[ShareCoordinatorShard], list[CoordinatorRecord]]
    ) -> None:
        try:
            records = make(self.runtime.shard(index))
        except ApiError:
            return  # led elsewhere, or loading: it is looked at again
        if records:
            self.runtime.write(index, records, partial(_tell_failure, index))

    def _make_shard(self, partition: int) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(
            image=self._image,
            clock=self._clock,
            updates_per_snapshot=self._config.int("share.coordinator.snapshot.update.records.per.snapshot"),
        )


def _tell_failure(index: int, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        logger.warning(
            "%s-%d: upkeep was not written (%s); it is tried again", SHARE_STATE_TOPIC, index, error.name
        )


class _Served:
    """How a request kind is served."""

    def __init__(
        self,
        topic_result: type[Any],
        result: type[Any],
        response: type[Any],
        decide: Decide,
        *,
        reads: bool = False,
    ) -> None:
        self.topic_result = topic_result
        self.result = result
        self.response = response
        self.decide = decide
        self.reads = reads


class _Serving:
    """One request under way: answered when every partition of it is."""

    def __init__(
        self, coordinator: ShareCoordinator, request: Any, served: _Served, answer: Callable[[Any], None]
    ) -> None:
        self._coordinator = coordinator
        self._request = request
        self._served = served
        self._answer = answer
        self._left = 1
        self._results: list[Any] = []

    def run(self) -> None:
        served, group_id = self._served, self._request.group_id
        by_shard: dict[int, tuple[list[CoordinatorRecord], list[Any]]] = {}
        for topic in self._request.topics:
            results = []
            for wish in topic.partitions:
                result = served.result(wish.partition)
                results.append(result)
                self._decide(
                    SharePartitionKey(group_id, topic.topic_id, wish.partition), wish, result, by_shard
                )
            self._results.append(served.topic_result(topic.topic_id, results))
        for index, (records, waiting) in by_shard.items():
            self._left += 1
            done = partial(self._written, waiting)
            if records:
                self._coordinator.runtime.write(index, records, done)
            else:
                self._coordinator.runtime.when_committed(index, done, asks_followers=True)
        self._one_done()

    def _decide(
        self,
        key: SharePartitionKey,
        wish: Any,
        result: Any,
        by_shard: dict[int, tuple[list[CoordinatorRecord], list[Any]]],
    ) -> None:
        coordinator = self._coordinator
        try:
            if not key.group_id:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The group id cannot be empty.")
            index = coordinator.partition_of(str(key))
            record = self._served.decide(coordinator.runtime.shard(index), key, wish, result)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            return
        if record is not None or self._served.reads:
            records, waiting = by_shard.setdefault(index, ([], []))
            waiting.append(result)
            if record is not None:
                records.append(record)

    def _written(self, waiting: list[Any], error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in waiting:
                result.error_code, result.error_message = error, error.name
        self._one_done()

    def _one_done(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._answer(self._served.response(results=self._results))


def _initialize(
    shard: ShareCoordinatorShard, key: SharePartitionKey, wish: initialize.PartitionData, result: Any
) -> CoordinatorRecord | None:
    return shard.initialize(key, wish.state_epoch, wish.start_offset)


def _write(
    shard: ShareCoordinatorShard, key: SharePartitionKey, wish: write.PartitionData, result: Any
) -> CoordinatorRecord:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in wish.state_batches
    ]
    state = StateToWrite(
        wish.state_epoch, wish.leader_epoch, wish.start_offset, wish.delivery_complete_count, batches
    )
    return shard.write(key, state)


def _read(
    shard: ShareCoordinatorShard,
    key: SharePartitionKey,
    wish: read.PartitionData,
    result: read.PartitionResult,
) -> CoordinatorRecord | None:
    state, record = shard.read(key, wish.leader_epoch)
    result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
    result.state_batches = [read.StateBatch(*each) for each in state.batches]
    return record


def _read_summary(
    shard: ShareCoordinatorShard,
    key: SharePartitionKey,
    wish: summary.PartitionData,
    result: summary.PartitionResult,
) -> None:
    state = shard.read_summary(key, wish.leader_epoch)
    if state is None:
        result.start_offset = -1
        return
    result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
    result.start_offset = state.start_offset
    result.delivery_complete_count = state.delivery_complete_count


def _delete(
    shard: ShareCoordinatorShard, key: SharePartitionKey, wish: Any, result: Any
) -> CoordinatorRecord | None:
    return shard.delete(key)


_SERVED: dict[type[Any], _Served] = {
    initialize.InitializeShareGroupStateRequest: _Served(
        initialize.InitializeStateResult,
        initialize.PartitionResult,
        initialize.InitializeShareGroupStateResponse,
        _initialize,
        reads=True,  # one that is sent again waits for what the first one wrote
    ),
    write.WriteShareGroupStateRequest: _Served(
        write.WriteStateResult, write.PartitionResult, write.WriteShareGroupStateResponse, _write
    ),
    read.ReadShareGroupStateRequest: _Served(
        read.ReadStateResult, read.PartitionResult, read.ReadShareGroupStateResponse, _read, reads=True
    ),
    summary.ReadShareGroupStateSummaryRequest: _Served(
        summary.ReadStateSummaryResult,
        summary.PartitionResult,
        summary.ReadShareGroupStateSummaryResponse,
        _read_summary,
        reads=True,
    ),
    delete.DeleteShareGroupStateRequest: _Served(
        delete.DeleteStateResult, delete.PartitionResult, delete.DeleteShareGroupStateResponse, _delete
    ),
}
