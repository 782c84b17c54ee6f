"""The groups of one partition of `__consumer_offsets`: classic and consumer groups, and committed offsets.

Offsets and consumer groups change only by replay. A classic group is live state (requests wait inside it), so
while it is alive its record in the log is written beside it and not replayed into it; after a restart or a
move the record brings it back. Requests reach both kinds through `protocols`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState
from headrace.coordinators.group.classic_protocol import ClassicProtocol
from headrace.coordinators.group.classic_records import (
    OffsetToCommit,
    group_of,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from headrace.coordinators.group.commit_order import CommitOrder
from headrace.coordinators.group.consumer import offset_checks
from headrace.coordinators.group.consumer.both_protocols import BothProtocols
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroupState, Slot
from headrace.coordinators.group.consumer.protocol import ConsumerProtocol
from headrace.coordinators.group.consumer.records import group_tombstones
from headrace.coordinators.group.consumer.settings import ConsumerSettings
from headrace.coordinators.group.offsets import Offsets
from headrace.coordinators.group.rebalances import Assignments, ClassicLimits
from headrace.coordinators.group.subscription import subscribed_topics
from headrace.coordinators.runtime import CoordinatorRecord, Done
from headrace.coordinators.timers import Timers
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

CONSUMERS: Final = "consumer"
"""The protocol type of groups whose members say which topics they read."""

Write = Callable[[Sequence[CoordinatorRecord], Done, bool], None]


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Broker settings that groups obey."""

    classic: ClassicLimits
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000


class GroupMachine:
    """Implements `runtime.Machine`."""

    def __init__(
        self,
        *,
        limits: GroupLimits,
        clock: Clock,
        timers: Timers,
        write: Write,
        new_uuid: Callable[[], str],
        image: ClusterImage,
        consumer_settings: Callable[[str], ConsumerSettings],
        members_on_node: Callable[[], int],
    ) -> None:
        self.limits = limits
        self.offsets = Offsets()
        self._order = CommitOrder()
        self.classic = ClassicProtocol(
            limits=limits.classic, timers=timers, persist=self._persist_classic, new_uuid=new_uuid
        )
        self.consumer = ConsumerProtocol(
            image=image,
            clock=clock,
            timers=timers,
            write=write,
            new_uuid=new_uuid,
            settings_of=consumer_settings,
            members_on_node=members_on_node,
            after_loss=lambda group_id: self.protocols.after_loss(group_id),
        )
        self.protocols = BothProtocols(
            self.classic,
            self.consumer,
            limits=limits.classic,
            image=image,
            clock=clock,
            write=write,
            new_uuid=new_uuid,
        )
        self._clock = clock
        self._write = write

    # --- Machine ------------------------------------------------------------------------------------------

    def replay(self, key: object, value: object | None) -> None:
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                self.classic.drop(key.group)
            else:
                self.classic.groups[key.group] = group_of(key.group, value)
        else:
            self.consumer.table.replay(key, value)

    def replay_pending(self, producer_id: int, key: object, value: object | None) -> None:
        """Transactions hold committed offsets, and nothing else of a group."""
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.offsets.replay_pending(producer_id, key, value)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.replay_end(producer_id, committed=committed)

    def loaded(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for group in self.classic.groups.values():
            self.classic.expect_all(group, now_ms)
        self.consumer.loaded()

    def unloaded(self) -> None:
        self.consumer.unloaded()
        for group_id in list(self.classic.groups):
            self.classic.drop(group_id)

    # --- offsets ------------------------------------------------------------------------------------------

    def check_commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        slots: Iterable[Slot],
        transactional: bool = False,
    ) -> ErrorCode:
        """May this member commit to these partitions now? An empty group may be committed to from
        outside, and any group by a transaction that does not say for which member.
        """
        if transactional and generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        consumer = self.consumer.groups.get(group_id)
        if consumer is not None:
            return offset_checks.check_commit(
                consumer, member_id=member_id, epoch=generation, api_version=api_version, slots=slots
            )
        group = self.classic.groups.get(group_id)
        if group is None:
            if generation < 0:
                return ErrorCode.NONE
            # A group that is only offsets is one without members.
            is_known = bool(self.offsets.of(group_id))
            return ErrorCode.UNKNOWN_MEMBER_ID if is_known else ErrorCode.ILLEGAL_GENERATION
        if generation < 0 and group.is_in(GroupState.EMPTY):
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if not group.is_generation_of(member_id, generation):
            return ErrorCode.ILLEGAL_GENERATION
        if group.is_in(GroupState.COMPLETING) and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.classic.keep_alive(group, member_id, self._clock.monotonic_ms())
        return ErrorCode.NONE

    def is_overtaken(
        self, group_id: str, member_id: str, opened_at: float, commits: Sequence[OffsetToCommit]
    ) -> bool:
        """Whether a commit that a member may make comes too late, over a connection that was opened then: see
        `commit_order`.
        """
        if not member_id:
            return False
        if self._order.is_overtaken(group_id, member_id, opened_at, commits, self.offsets.of(group_id)):
            return True
        group = self.consumer.groups.get(group_id) or self.classic.groups.get(group_id)
        self._order.note(group_id, member_id, opened_at, group.members if group is not None else ())
        return False

    def check_fetch(self, group_id: str, *, member_id: str | None, epoch: int) -> ErrorCode:
        """May who says to be this member read the group's offsets? Classic members are not asked."""
        group = self.consumer.groups.get(group_id)
        if group is None:
            return ErrorCode.NONE
        return offset_checks.check_fetch(group, member_id=member_id, epoch=epoch)

    def commit(self, group_id: str, commits: Iterable[OffsetToCommit], done: Done) -> None:
        now_ms = self._clock.now_ms()
        records = [offset_record(group_id, commit, now_ms) for commit in commits]
        if not records:
            done(ErrorCode.NONE)
            return

        def written(error: ErrorCode) -> None:
            too_large = error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
            done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE if too_large else error)

        self._write(records, written, True)

    def delete_offsets(self, group_id: str, topic_partitions: Iterable[TopicPartition], done: Done) -> None:
        records = [offset_tombstone(group_id, each) for each in topic_partitions]
        if records:
            self._write(records, done, True)
        else:
            done(ErrorCode.NONE)

    def drop_topic(self, topic: str) -> None:
        """The topic was deleted: nobody will read on from where its groups were."""
        for group_id in self.offsets.groups():
            doomed = [each for each in self.offsets.of(group_id) if each.topic == topic]
            self.delete_offsets(group_id, doomed, lambda error: None)

    def topics_in_use(self, group_id: str) -> set[str]:
        """The topics that members of the group read. ApiError for a group that does not exist, or whose
        members alone know what they read.
        """
        if not self.exists(group_id):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        consumer = self.consumer.groups.get(group_id)
        if consumer is not None:
            return set(consumer.subscribed_topics())
        group = self.classic.groups.get(group_id)
        if group is None or group.is_in(GroupState.EMPTY):
            return set()
        if group.protocol_type != CONSUMERS:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        protocol = group.protocol or ""
        return {
            topic
            for member in group.members.values()
            for topic in subscribed_topics(member.metadata_for(protocol))
        }

    # --- groups -------------------------------------------------------------------------------------------

    def exists(self, group_id: str) -> bool:
        is_group = group_id in self.classic.groups or group_id in self.consumer.groups
        return is_group or bool(self.offsets.of(group_id))

    def group_ids(self) -> list[str]:
        """Groups with members, a history of members, or committed offsets."""
        return list(dict.fromkeys([*self.classic.groups, *self.consumer.groups, *self.offsets.groups()]))

    def state_of(self, group_id: str) -> GroupState | ConsumerGroupState:
        consumer = self.consumer.groups.get(group_id)
        if consumer is not None:
            return consumer.state
        group = self.classic.groups.get(group_id)
        if group is not None:
            return group.state
        return GroupState.EMPTY if self.offsets.of(group_id) else GroupState.DEAD

    def is_empty(self, group_id: str) -> bool:
        return self.state_of(group_id) in (GroupState.EMPTY, ConsumerGroupState.EMPTY)

    def delete(self, group_id: str, done: Done) -> None:
        """Delete an empty group with its offsets."""
        if not self.exists(group_id):
            done(ErrorCode.GROUP_ID_NOT_FOUND)
        elif not self.is_empty(group_id):
            done(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._bury(group_id, list(self.offsets.of(group_id)), done)

    def expire(self) -> None:
        """Drop what `offsets.retention.minutes` says is too old."""
        for group_id in self.group_ids():
            if not self._may_expire(group_id) or self.offsets.has_pending(group_id):
                continue
            group = self.classic.groups.get(group_id)
            is_empty = self.is_empty(group_id)
            in_use = self.topics_in_use(group_id)
            expired = [
                each
                for each in self.offsets.expired(
                    group_id,
                    empty_since_ms=group.persisted_ms if group is not None and is_empty else None,
                    retention_ms=self.limits.offsets_retention_ms,
                    now_ms=self._clock.now_ms(),
                )
                if each.topic not in in_use
            ]
            if is_empty and len(expired) == len(self.offsets.of(group_id)):
                self._bury(group_id, expired, lambda error: None)
            else:
                self.delete_offsets(group_id, expired, lambda error: None)

    def _may_expire(self, group_id: str) -> bool:
        """A group with members keeps what they read; while they rebalance nobody knows what that is."""
        group = self.classic.groups.get(group_id)
        if group is None:
            return True
        if group.is_in(GroupState.EMPTY):
            return not group.pending_ids
        return group.is_in(GroupState.STABLE) and group.protocol_type == CONSUMERS

    def _bury(self, group_id: str, topic_partitions: list[TopicPartition], done: Done) -> None:
        self._order.forget(group_id)
        records = [offset_tombstone(group_id, each) for each in topic_partitions]
        group = self.classic.groups.get(group_id)
        if group is not None:
            records.append(group_tombstone(group_id))
        consumer = self.consumer.groups.get(group_id)
        if consumer is not None:
            records += group_tombstones(consumer)
        self._write(records, done, True)

    def _persist_classic(self, group: ClassicGroup, assignments: Assignments, done: Done) -> None:
        group.persisted_ms = self._clock.now_ms()
        self._write([group_record(group, assignments, now_ms=group.persisted_ms)], done, False)
