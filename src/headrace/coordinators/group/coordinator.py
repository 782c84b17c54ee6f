"""The group coordinator of this node: finds a group's machine, keeps its timers running, follows leadership.

The machines think; this drives them: it owns the event loop's alarm, the periodic expiry of offsets, and
the mapping of a group's name to a partition of `__consumer_offsets`.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition, new_uuid, uuid_text
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.coordinators.group.classic_records import OffsetToCommit, offset_record
from headrace.coordinators.group.consumer.census import Census
from headrace.coordinators.group.consumer.settings_book import SettingsBook
from headrace.coordinators.group.machine import GroupLimits, GroupMachine
from headrace.coordinators.group.rebalances import ClassicLimits
from headrace.coordinators.java_hash import partition_for
from headrace.coordinators.runtime import CoordinatorRecord, Done, Runtime, TxnWriter
from headrace.coordinators.timers import Timers
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.replication.replicas import Replicas
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.record_frames import GROUP


def group_limits(config: BrokerConfig) -> GroupLimits:
    """What the broker's settings say about groups."""
    return GroupLimits(
        classic=ClassicLimits(
            session_timeout_ms_min=config.int("group.min.session.timeout.ms"),
            session_timeout_ms_max=config.int("group.max.session.timeout.ms"),
            size_max=config.int("group.max.size"),
            initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        ),
        offset_metadata_bytes_max=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
    )


class GroupCoordinator:
    """All groups whose partition this node leads."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        replicas: Replicas,
        image: ClusterImage,
    ) -> None:
        self.limits = group_limits(config)
        self._config = config
        self._clock = clock
        self._loop = loop
        self._rng = rng
        self._replicas = replicas
        self._image = image
        self.consumer_settings = SettingsBook(config, image)
        self._census = Census(clock, self._count_members)
        self._timers = Timers()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._stopped = False
        self.runtime: Runtime[GroupMachine] = Runtime(
            OFFSETS_TOPIC,
            GROUP,
            clock=clock,
            loop=loop,
            make_machine=self._make_machine,
            on_active=self.arm,
            wait_ms_max=config.int("offsets.commit.timeout.ms"),
        )

    def start(self) -> None:
        """Begin the periodic expiry of offsets."""
        delay_s = self._config.int("offsets.retention.check.interval.ms") / 1000
        self._expiry = self._loop.call_later(delay_s, self._expire)

    def stop(self) -> None:
        """Coordinate nothing any more: who waits is sent to look for another coordinator."""
        self._stopped = True
        self.runtime.drop_all()
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

    def machine_of(self, group_id: str) -> GroupMachine:
        """The machine that keeps this group; ApiError says why it is not here."""
        if self._image.topics_by_name.get(OFFSETS_TOPIC) is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.runtime.machine(self.partition_of(group_id))

    def commit_in_transaction(
        self, group_id: str, commits: Iterable[OffsetToCommit], writer: TxnWriter, done: Done
    ) -> None:
        """Write offsets that count when the writer's transaction is committed."""
        now_ms = self._clock.now_ms()
        records = [offset_record(group_id, commit, now_ms) for commit in commits]
        self.runtime.write(self.partition_of(group_id), records, done, writer=writer)

    def when_settled(self, group_id: str, done: Done) -> None:
        """Call `done` when all that was written of this group so far is replicated, and it is certain that
        no other coordinator has written more."""
        self.runtime.when_settled(self.partition_of(group_id), done, asks_followers=True)

    def apply(self, delta: Delta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        if self._stopped:
            return
        if delta.configs_changed:
            self.consumer_settings.forget()
        if delta.topics_changed or delta.topics_deleted or delta.brokers_changed:
            for machine in self.runtime.machines():
                machine.consumer.topics_changed()
        for topic in delta.topics_deleted:
            if topic.name == OFFSETS_TOPIC:
                for index in topic.partitions:
                    self.runtime.drop(index)
            for machine in self.runtime.machines():
                machine.drop_topic(topic.name)
        topic_now = self._image.topics_by_name.get(OFFSETS_TOPIC)
        if topic_now is None:
            return
        for index in delta.partitions_changed(topic_now.id):
            partition = self._replicas.get(TopicPartition(OFFSETS_TOPIC, index))
            if partition is not None:
                self.runtime.follow(partition)
        self.arm()

    # --- time ---------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def arm(self) -> None:
        """Set the alarm for the earliest deadline. Handlers call it after anything that may have set one."""
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None or (self._alarm is not None and self._alarm_ms <= deadline_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._alarm = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._timers.run_due(self._clock.monotonic_ms())
        self.arm()

    def _expire(self) -> None:
        for machine in self.runtime.machines():
            machine.expire()
        self.start()

    # --- machines -----------------------------------------------------------------------------------------

    def _make_machine(self, partition: int) -> GroupMachine:
        def write(records: Sequence[CoordinatorRecord], done: Done, replay: bool) -> None:
            self.runtime.write(partition, records, done, replay=replay)

        return GroupMachine(
            limits=self.limits,
            clock=self._clock,
            timers=self._timers,
            write=write,
            new_uuid=lambda: uuid_text(new_uuid(self._rng)),
            image=self._image,
            consumer_settings=self.consumer_settings.of,
            members_on_node=self._census.members,
        )

    def _count_members(self) -> int:
        return sum(
            len(group.members)
            for machine in self.runtime.machines()
            for group in machine.consumer.groups.values()
        )
