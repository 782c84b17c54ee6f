"""GroupCoordinator: serves the groups whose partition of `__consumer_offsets` this node leads.

The shards decide; this drives them: it finds a group's shard, runs the CoordinatorTimer on the event loop,
expires offsets, and follows leadership.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition, new_uuid, uuid_text
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done, partition_for
from headrace.coordinators.drivers.coordinator_runtime import CoordinatorRuntime
from headrace.coordinators.group.group_config_manager import (
    GroupConfigManager,
    group_coordinator_config,
)
from headrace.coordinators.group.offset_metadata_manager import OffsetToCommit, offset_record
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.coordinators.group.share.share_group_config import ShareGroupConfigManager
from headrace.coordinators.group.share.share_group_manager import SharePersister
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfigManager
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from headrace.metadata.image import MetadataImage
from headrace.metadata.security import ACLS
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import GROUP

COUNTED_FOR_MS: Final = 1_000
# A write takes some 0.3 ms: others are served between two lots. After a restart the sessions of all members
# that did not come back end at once.
TIMEOUTS_AT_ONCE: Final = 20
GROUPS_AT_ONCE: Final = 20


class MemberCount:
    """How many members this node serves, from which heartbeat intervals follow. The count may be a second
    old, so that asking costs nothing.
    """

    def __init__(self, clock: Clock, count: Callable[[], int]) -> None:
        self._clock = clock
        self._count = count
        self._members = 0
        self._counted_ms: int | None = None

    def members(self) -> int:
        now_ms = self._clock.monotonic_ms()
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_FOR_MS:
            self._members, self._counted_ms = self._count(), now_ms
        return self._members


class GroupCoordinator:
    """All groups whose partition this node leads."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        replicas: ReplicaManager,
        image: MetadataImage,
        share_configs: ShareGroupConfigManager | None = None,
        share_persister: SharePersister | None = None,
    ) -> None:
        self.limits = group_coordinator_config(config)
        self._config = config
        self._clock = clock
        self._loop = loop
        self._rng = rng
        self._replicas = replicas
        self._image = image
        self.group_configs = GroupConfigManager(config, image)
        self.share_configs = share_configs or ShareGroupConfigManager(config, image)
        self.streams_configs = StreamsGroupConfigManager(config, image)
        self._share_persister = share_persister
        self._member_count = MemberCount(clock, self._count_members)
        self._timer = CoordinatorTimer()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._stopped = False
        self.runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            OFFSETS_TOPIC,
            GROUP,
            clock=clock,
            loop=loop,
            make_shard=self._make_shard,
            on_active=self.arm,
            write_timeout_ms=config.int("offsets.commit.timeout.ms"),
        )

    def start(self) -> None:
        """Begin the periodic expiry of offsets."""
        delay_s = self._config.int("offsets.retention.check.interval.ms") / 1000
        self._expiry = self._loop.call_later(delay_s, self._expire)

    def stop(self) -> None:
        """Serve nothing any more: waiting requests are told to look for another coordinator."""
        self._stopped = True
        self.runtime.unload_all()
        for handle in (self._alarm, self._expiry):
            if handle is not None:
                handle.cancel()
        self._alarm = self._expiry = None

    # --- where a group lives ------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The partition that is home to this group; ApiError until the topic exists."""
        topic = self._image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for(group_id, len(topic.partitions))

    def shard_for(self, group_id: str) -> GroupCoordinatorShard:
        """The shard that keeps this group; ApiError says why it is not here."""
        if self._image.topics_by_name.get(OFFSETS_TOPIC) is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.runtime.shard(self.partition_of(group_id))

    @property
    def consumer_protocol_enabled(self) -> bool:
        """Whether there are groups of the consumer protocol: this broker and the cluster offer it."""
        is_offered = "consumer" in self.limits.rebalance_protocols
        return is_offered and self._image.features.get(GROUP_VERSION, 0) >= 1

    @property
    def share_groups_enabled(self) -> bool:
        """Whether there are share groups: the cluster has agreed to have them."""
        return self._image.features.get(SHARE_VERSION, 0) >= 1

    @property
    def streams_groups_enabled(self) -> bool:
        """Whether there are streams groups: this broker and the cluster offer them."""
        is_offered = "streams" in self.limits.rebalance_protocols
        return is_offered and self._image.features.get(STREAMS_VERSION, 0) >= 1

    def commit_in_transaction(
        self, group_id: str, commits: Iterable[OffsetToCommit], writer: ProducerIdAndEpoch, done: Done
    ) -> None:
        """Write offsets that count when the writer's transaction is committed."""
        now_ms = self._clock.now_ms()
        records = [offset_record(group_id, commit, now_ms) for commit in commits]
        self.runtime.write(self.partition_of(group_id), records, done, writer=writer)

    def when_committed(self, group_id: str, done: Done) -> None:
        """Call `done` when all that was written of this group so far is replicated, and it is certain that
        no other coordinator has written more."""
        self.runtime.when_committed(self.partition_of(group_id), done, asks_followers=True)

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        if self._stopped:
            return
        if delta.configs_changed:
            self.group_configs.forget()
            self.share_configs.forget()
            self.streams_configs.forget()
        if delta.topics_changed or delta.topics_deleted or delta.brokers_changed:
            for shard in self.runtime.shards():
                shard.consumer.request_metadata_refresh()
                shard.share.request_metadata_refresh()
                shard.streams.request_metadata_refresh()
        if delta.topics_deleted:
            for shard in self.runtime.shards():
                shard.share.forget_topics({topic.id for topic in delta.topics_deleted})
        if ACLS in delta.security_changed:
            for shard in self.runtime.shards():
                shard.consumer.request_pattern_refresh()
        for topic in delta.topics_deleted:
            if topic.name == OFFSETS_TOPIC:
                for index in topic.partitions:
                    self.runtime.unload(index)
            for shard in self.runtime.shards():
                shard.offsets.on_topic_deleted(topic.name)
        topic_now = self._image.topics_by_name.get(OFFSETS_TOPIC)
        if topic_now is None:
            return
        for index in delta.partitions_changed(topic_now.id):
            partition = self._replicas.get(TopicPartition(OFFSETS_TOPIC, index))
            if partition is not None:
                self.runtime.on_leadership_change(partition)
        self.arm()

    # --- time ---------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def arm(self) -> None:
        """Set the alarm for the earliest timeout. Handlers call it after anything that may schedule one."""
        deadline_ms = self._timer.next_deadline_ms()
        if deadline_ms is None or (self._alarm is not None and self._alarm_ms <= deadline_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._alarm = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._timer.run_due(self._clock.monotonic_ms(), at_most=TIMEOUTS_AT_ONCE)
        self.arm()

    def _expire(self) -> None:
        todo = [
            (shard, group_ids[start : start + GROUPS_AT_ONCE])
            for shard in self.runtime.shards()
            if (group_ids := shard.group_ids())
            for start in range(0, len(group_ids), GROUPS_AT_ONCE)
        ]
        self._expire_some(todo)

    def _expire_some(self, todo: list[tuple[GroupCoordinatorShard, list[str]]]) -> None:
        """Some groups in each turn of the loop: a node may have thousands."""
        if self._stopped:
            return
        if not todo:
            self.start()
            return
        shard, group_ids = todo.pop()
        if shard in self.runtime.shards():  # and not of a leadership that is over
            shard.cleanup_expired_offsets(group_ids)
        self._expiry = self._loop.call_later(0, self._expire_some, todo)

    # --- shards ---

    def _make_shard(self, partition: int) -> GroupCoordinatorShard:
        def write(records: Sequence[CoordinatorRecord], done: Done, replay: bool) -> None:
            self.runtime.write(partition, records, done, replay=replay)

        return GroupCoordinatorShard(
            limits=self.limits,
            clock=self._clock,
            timer=self._timer,
            write=write,
            new_uuid=lambda: uuid_text(new_uuid(self._rng)),
            image=self._image,
            group_config=self.group_configs.of,
            members_on_node=self._member_count.members,
            share_config=self.share_configs.of,
            share_persister=self._share_persister,
            streams_config=self.streams_configs.of,
        )

    def _count_members(self) -> int:
        return sum(
            sum(len(group.members) for group in shard.consumer.groups.values())
            + shard.share.members()
            + shard.streams.members()
            for shard in self.runtime.shards()
        )
