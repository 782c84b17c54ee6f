"""ShareGroupManager: serves ShareGroupHeartbeat (KIP-932): join, stay in and leave a share group.

    find the member ─► new group epoch? ─► state to begin? ─► new target assignment? ─► write ─► answer

Partitions that nobody has read in this group have no state yet. The share coordinator is asked to begin it,
and the answer waits for that, so that a first member has its partitions with its first heartbeat. A member
that sends no heartbeat for its session timeout is removed.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.consumer.subscription import metadata_hash
from headrace.coordinators.group.group_config_manager import QUICK_MS_MIN, calm_interval_ms
from headrace.coordinators.group.share.records import (
    Records,
    ShareGroups,
    current_assignment_record,
    group_epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    state_partition_record,
    target_assignment_epoch_record,
    target_assignment_record,
)
from headrace.coordinators.group.share.share_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    PartitionId,
    Partitions,
    ShareGroup,
    ShareGroupMember,
    TopicWithState,
)
from headrace.coordinators.group.share.share_group_config import ShareGroupConfig
from headrace.coordinators.group.share.simple_assignor import assign_simply
from headrace.coordinators.share.share_coordinator_shard import UNINITIALIZED, SharePartitionKey
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

SESSION: Final = "share session"

Write = Callable[[Sequence[CoordinatorRecord], Done, bool], None]
Answer = Callable[[ShareGroupHeartbeatResponse], None]
Outcomes = Mapping[SharePartitionKey, object]


class SharePersister(Protocol):
    """The way to the share coordinator; see `coordinators/drivers/persister.py`."""

    def initialize_at(
        self, offsets: Mapping[SharePartitionKey, int], state_epoch: int, done: Callable[[Outcomes], None]
    ) -> None: ...

    def delete(self, keys: Sequence[SharePartitionKey], done: Callable[[Outcomes], None]) -> None: ...


class _Heartbeat(NamedTuple):
    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    answer: Answer


class ShareGroupManager:
    """All share groups of one coordinator partition. `is_taken` says that a group id belongs to a group of
    another kind."""

    def __init__(
        self,
        *,
        image: MetadataImage,
        clock: Clock,
        timer: CoordinatorTimer,
        write: Write,
        group_config: Callable[[str], ShareGroupConfig],
        members_on_node: Callable[[], int],
        is_taken: Callable[[str], bool],
        persister: SharePersister | None,
    ) -> None:
        self.table = ShareGroups()
        self.persister = persister
        self._image = image
        self._clock = clock
        self._timer = timer
        self._write = write
        self.group_config = group_config
        self._members_on_node = members_on_node
        self._is_taken = is_taken
        self.beginning: set[SharePartitionKey] = set()
        """Whose state is being begun, from the decision to the share coordinator's answer."""

    @property
    def groups(self) -> dict[str, ShareGroup]:
        return self.table.by_id

    def members(self) -> int:
        """Of all groups."""
        return sum(len(group.members) for group in self.groups.values())

    def find(self, group_id: str, *, may_make: bool = False, what: str = "Share group") -> ShareGroup:
        """The group, or a new one that nobody has heard of yet; ApiError says `what` there is not."""
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if self._is_taken(group_id):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not may_make:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
        return ShareGroup(group_id)

    # --- ShareGroupHeartbeat ---

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, *, client_id: str, client_host: str, answer: Answer
    ) -> None:
        """Serve a request that `validate_heartbeat` lets pass."""
        try:
            if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
                self._leave(request, answer)
            else:
                self._join_or_stay(_Heartbeat(request, client_id, client_host, answer))
        except ApiError as error:
            answer(ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message))

    def _join_or_stay(self, heartbeat: _Heartbeat) -> None:
        request = heartbeat.request
        group = self.find(request.group_id, may_make=request.member_epoch == JOIN_GROUP_MEMBER_EPOCH)
        known = _find_member(group, request, self.group_config(group.id).size_max)
        updated = _updated_member(known or ShareGroupMember(request.member_id), heartbeat)
        told = known is not None and request.subscribed_topic_names is None
        had: Partitions | None = known.assigned if known is not None and told else None
        if known is not None and known.epoch != request.member_epoch:
            had = None  # the answer before was lost: say it all again
        self._update(group, known, updated, had, heartbeat.answer)

    def _update(
        self,
        group: ShareGroup,
        known: ShareGroupMember | None,
        updated: ShareGroupMember,
        had: Partitions | None,
        answer: Answer,
        *,
        may_initialize: bool = True,
    ) -> None:
        """Write what is new of a member and answer it; `had` is what it knows of its partitions."""
        update = _Update(group, self._image)
        update.put_member(known, updated)
        begun = self._begin_state(update) if may_initialize else []
        assigned_at_ms = group.assigned_at_ms
        if update.must_assign() and self._may_assign(group):
            update.assign(self._clock.now_ms())
            if any(update.target.values()):
                assigned_at_ms = self._clock.monotonic_ms()
        after = update.reconcile(updated.id)
        self._schedule_session_timeout(group.id, after.id)

        def begun_or_not(error: ErrorCode) -> None:
            self._go_on(group.id, after.id, had, answer, error)

        def written(error: ErrorCode) -> None:
            now = self.groups.get(group.id)
            if error is not ErrorCode.NONE or now is None:
                self.beginning.difference_update(keys_of(group.id, begun))
            if error is not ErrorCode.NONE:
                if now is not None:
                    now.needs_metadata_refresh = True
                answer(ShareGroupHeartbeatResponse(error_code=error, error_message=error.name))
            elif begun and now is not None:
                self._initialize(now, begun, update.epoch, begun_or_not)
            else:
                answer(self._reply(now or group, after, had))

        group.needs_metadata_refresh = False
        if not update.records:
            written(ErrorCode.NONE)
            return
        self._write(update.records, written, True)
        if (now := self.groups.get(group.id)) is not None and now.assignment_epoch == update.assignment_epoch:
            now.assigned_at_ms = assigned_at_ms

    def _go_on(
        self, group_id: str, member_id: str, had: Partitions | None, answer: Answer, error: ErrorCode
    ) -> None:
        """State was begun, or could not be: give the member what there is now."""
        if error is not ErrorCode.NONE:
            answer(ShareGroupHeartbeatResponse(error_code=error, error_message=error.name))
            return
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            answer(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._update(group, member, member, had, answer, may_initialize=False)

    def _reply(
        self, group: ShareGroup, member: ShareGroupMember, had: Partitions | None
    ) -> ShareGroupHeartbeatResponse:
        reply = ShareGroupHeartbeatResponse(
            member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=self._interval_ms(group)
        )
        if member.assigned != had:
            reply.assignment = Assignment(
                [
                    TopicPartitions(topic_id, sorted(indexes))
                    for topic_id, indexes in sorted(member.assigned.items())
                ]
            )
        return reply

    def _interval_ms(self, group: ShareGroup) -> int:
        """Members come back soon where something is to be assigned yet."""
        config = self.group_config(group.id)
        calm_ms = calm_interval_ms(config, self._members_on_node())
        if not _Update(group, self._image).must_assign():
            return calm_ms
        due_ms = self._assignable_at_ms(group) - self._clock.monotonic_ms()
        return min(calm_ms, max(QUICK_MS_MIN, due_ms))

    def _may_assign(self, group: ShareGroup) -> bool:
        """Whether the assignment interval is over: changes that come close together make one target. A member
        that is alone waits for nobody."""
        return len(group.members) <= 1 or self._clock.monotonic_ms() >= self._assignable_at_ms(group)

    def _assignable_at_ms(self, group: ShareGroup) -> int:
        if group.assigned_at_ms is None:
            return 0
        return group.assigned_at_ms + self.group_config(group.id).assignment_interval_ms

    # --- the state of share partitions ---

    def _begin_state(self, update: "_Update") -> list[PartitionId]:
        """The partitions that need state now. What was asked for and did not come is asked for again, but not
        before that is known: a request that came later would begin anew what is read already."""
        group, now_ms = update.group, self._clock.monotonic_ms()
        since_ms = group.initializing_since_ms
        is_late = since_ms is None or now_ms >= since_ms + self.group_config(group.id).initialize_retry_ms
        wanted = [
            each
            for each in update.without_state(or_initializing=is_late)
            if SharePartitionKey(group.id, *each) not in self.beginning
        ]
        if not wanted or self.persister is None:
            return []
        update.note_initializing(wanted)
        self.beginning.update(keys_of(group.id, wanted))
        return wanted

    def _initialize(
        self, group: ShareGroup, partitions: Sequence[PartitionId], epoch: int, done: Done
    ) -> None:
        group_id = group.id
        group.initializing_since_ms = self._clock.monotonic_ms()
        keys = keys_of(group_id, partitions)

        def heard(outcomes: Outcomes) -> None:
            self.beginning.difference_update(keys)
            begun = [
                (TopicId(key.topic_id), key.partition) for key in outcomes if outcomes[key] is ErrorCode.NONE
            ]
            if len(begun) < len(keys):
                logger.warning(
                    "share group %s: the state of %d partitions could not be begun; it is tried again",
                    group_id,
                    len(keys) - len(begun),
                )
            self.note_initialized(group_id, begun, done)

        assert self.persister is not None
        self.persister.initialize_at(dict.fromkeys(keys, UNINITIALIZED), epoch, heard)

    def note_initialized(self, group_id: str, begun: Sequence[PartitionId], done: Done) -> None:
        """Share partitions have their state: they can be given out from now on."""
        group = self.groups.get(group_id)
        if group is None or not begun:
            done(ErrorCode.NONE if group is not None else ErrorCode.GROUP_ID_NOT_FOUND)
            return
        group.initializing_since_ms = None
        initializing, initialized = dict(group.initializing), dict(group.initialized)
        for topic_id, index in begun:
            topic = self._image.topics_by_id.get(topic_id)
            before = initialized.get(topic_id)
            name = topic.name if topic is not None else before.name if before is not None else ""
            old = frozenset() if before is None else before.partitions
            initialized[topic_id] = TopicWithState(name, old | {index})
            if (waiting := initializing.pop(topic_id, None)) is not None and waiting.partitions - {index}:
                initializing[topic_id] = replace(waiting, partitions=waiting.partitions - {index})
        record = state_partition_record(
            group_id, initializing=initializing, initialized=initialized, deleting=group.deleting
        )
        self._write([record], done, True)

    def forget_topics(self, topic_ids: set[TopicId]) -> None:
        """Topics are gone, and the state of their share partitions with them."""
        for group in list(self.groups.values()):
            known = group.initializing.keys() | group.initialized.keys() | group.deleting.keys()
            if known & topic_ids:
                record = state_partition_record(
                    group.id,
                    initializing={k: v for k, v in group.initializing.items() if k not in topic_ids},
                    initialized={k: v for k, v in group.initialized.items() if k not in topic_ids},
                    deleting={k: v for k, v in group.deleting.items() if k not in topic_ids},
                )
                self._write([record], lambda error: None, True)

    # --- leaving, by request or by timeout; deleting ---

    def _leave(self, request: ShareGroupHeartbeatRequest, answer: Answer) -> None:
        group = self.find(request.group_id, what="Group")
        if request.member_id not in group.members:
            raise _unknown_member(group.id, request.member_id)
        reply = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

        def written(error: ErrorCode) -> None:
            answer(reply if error is ErrorCode.NONE else ShareGroupHeartbeatResponse(error_code=error))

        self._remove(group, request.member_id, written)

    def _remove(self, group: ShareGroup, member_id: str, done: Done) -> None:
        self._timer.cancel((SESSION, group.id, member_id))

        def written(error: ErrorCode) -> None:
            now = self.groups.get(group.id)
            if error is not ErrorCode.NONE and now is not None and member_id in now.members:
                self._schedule_session_timeout(group.id, member_id)  # not written: try again later
            done(error)

        update = _Update(group, self._image)
        update.remove_member(member_id)
        self._write(update.records, written, True)

    def _expire(self, group_id: str, member_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and member_id in group.members:
            logger.info("share group %s: member %s sent no heartbeat, and is removed", group_id, member_id)
            self._remove(group, member_id, lambda error: None)

    def delete(self, group_id: str, done: Done) -> None:
        """Delete an empty group, and the state of its share partitions before."""
        group = self.groups[group_id]
        if group.members:
            done(ErrorCode.NON_EMPTY_GROUP)
            return

        def heard(outcomes: Outcomes) -> None:
            failed = [each for each in outcomes.values() if each is not ErrorCode.NONE]
            now = self.groups.get(group_id)
            if failed:
                assert isinstance(failed[0], ErrorCode)
                done(failed[0])
            elif now is None:
                done(ErrorCode.NONE)
            elif now.members:
                done(ErrorCode.NON_EMPTY_GROUP)
            else:
                self._write(group_tombstones(now), done, True)

        keys = [SharePartitionKey(group_id, *each) for each in group.with_state()]
        if self.persister is None or not keys:
            heard({})
        else:
            self.persister.delete(keys, heard)

    # --- time ---

    def _schedule_session_timeout(self, group_id: str, member_id: str) -> None:
        deadline_ms = self._clock.monotonic_ms() + self.group_config(group_id).session_timeout_ms
        self._timer.schedule(
            (SESSION, group_id, member_id), deadline_ms, lambda now_ms: self._expire(group_id, member_id)
        )

    def on_loaded(self) -> None:
        """Every member has one session timeout to show up."""
        for group in self.groups.values():
            for member_id in group.members:
                self._schedule_session_timeout(group.id, member_id)

    def on_unloaded(self) -> None:
        for group in self.groups.values():
            for member_id in group.members:
                self._timer.cancel((SESSION, group.id, member_id))

    def request_metadata_refresh(self) -> None:
        """Topics changed: every group looks at them again with its next heartbeat."""
        for group in self.groups.values():
            group.needs_metadata_refresh = True


def keys_of(group_id: str, partitions: Iterable[PartitionId]) -> list[SharePartitionKey]:
    return [SharePartitionKey(group_id, *each) for each in partitions]


class _Update:
    """What a heartbeat makes of a group, step by step, as records."""

    def __init__(self, group: ShareGroup, image: MetadataImage) -> None:
        self.group = group
        self.records: Records = []
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.target = dict(group.target_assignment)
        self._members = dict(group.members)
        self._image = image

    def put_member(self, known: ShareGroupMember | None, member: ShareGroupMember) -> None:
        self._members[member.id] = member
        if known is None or known != member:
            self.records.append(member_record(self.group.id, member))
        self._maybe_bump_epoch(is_changed=known is None or known.topics != member.topics)

    def remove_member(self, member_id: str) -> None:
        del self._members[member_id]
        self.records += member_tombstones(self.group.id, member_id)
        self._maybe_bump_epoch(is_changed=True)

    def _maybe_bump_epoch(self, *, is_changed: bool) -> None:
        group = self.group
        if not is_changed and not group.needs_metadata_refresh:
            return
        hash_now = metadata_hash(self._image, self._subscribed())
        if is_changed or hash_now != group.metadata_hash:
            self.epoch += 1
            record = group_epoch_record(group.id, epoch=self.epoch, metadata_hash=hash_now)
            self.records.append(record)

    def _subscribed(self) -> set[str]:
        return {name for member in self._members.values() for name in member.topics}

    def without_state(self, *, or_initializing: bool) -> list[PartitionId]:
        """Partitions that members subscribe to, and that have no state: nor are about to, unless that took
        too long."""
        initialized, initializing = self.group.initialized, self.group.initializing
        wanted: list[PartitionId] = []
        for name in sorted(self._subscribed()):
            topic = self._image.topics_by_name.get(name)
            if topic is None:
                continue
            has = initialized[topic.id].partitions if topic.id in initialized else frozenset()
            if not or_initializing and topic.id in initializing:
                has |= initializing[topic.id].partitions
            wanted += [(topic.id, index) for index in sorted(topic.partitions) if index not in has]
        return wanted

    def note_initializing(self, partitions: Sequence[PartitionId]) -> None:
        group = self.group
        initializing = dict(group.initializing)
        for topic_id, index in partitions:
            before = initializing.get(topic_id)
            old = frozenset() if before is None else before.partitions
            initializing[topic_id] = TopicWithState(self._image.topics_by_id[topic_id].name, old | {index})
        deleting = {each: name for each, name in group.deleting.items() if each not in initializing}
        record = state_partition_record(
            group.id, initializing=initializing, initialized=group.initialized, deleting=deleting
        )
        self.records.append(record)

    def must_assign(self) -> bool:
        """Whether the target is of an older epoch, or partitions have got their state since."""
        return self.epoch > self.assignment_epoch or not self._assigned() >= self._assignable_pairs()

    def _assigned(self) -> set[PartitionId]:
        return {
            (topic_id, index)
            for target in self.target.values()
            for topic_id, indexes in target.items()
            for index in indexes
        }

    def _assignable_pairs(self) -> set[PartitionId]:
        return {(topic_id, index) for topic_id, indexes in self._assignable().items() for index in indexes}

    def _assignable(self) -> dict[TopicId, frozenset[int]]:
        assignable = {}
        for name in self._subscribed():
            topic = self._image.topics_by_name.get(name)
            if topic is not None and topic.id in self.group.initialized:
                there = frozenset(topic.partitions)
                assignable[topic.id] = self.group.initialized[topic.id].partitions & there
        return assignable

    def assign(self, wall_ms: int) -> None:
        """Make the target assignment, and write what is different in it."""
        group_id = self.group.id
        if self.epoch == self.assignment_epoch:
            self.epoch += 1
            hash_now = metadata_hash(self._image, self._subscribed())
            self.records.append(group_epoch_record(group_id, epoch=self.epoch, metadata_hash=hash_now))
        names = self._image.topics_by_name
        subscriptions = {
            member.id: frozenset(names[name].id for name in member.topics if name in names)
            for member in self._members.values()
        }
        target = assign_simply(subscriptions, self._assignable(), self.target)
        for member_id, partitions in target.items():
            if self.target.get(member_id) != partitions:
                self.records.append(target_assignment_record(group_id, member_id, partitions))
        self.target = dict(target)
        self.assignment_epoch = self.epoch
        self.records.append(target_assignment_epoch_record(group_id, epoch=self.epoch, timestamp_ms=wall_ms))

    def reconcile(self, member_id: str) -> ShareGroupMember:
        """Take the member to its target."""
        member, target = self._members[member_id], self.target.get(member_id, {})
        if (member.epoch, member.assigned) == (self.assignment_epoch, target):
            return member
        after = replace(member, epoch=self.assignment_epoch, previous_epoch=member.epoch, assigned=target)
        self.records.append(current_assignment_record(self.group.id, after))
        return after


def validate_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """ApiError says what is wrong with a request that no client should send; the checks come in Kafka's
    order."""
    _refuse(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse(not request.group_id.strip(), "GroupId can't be empty.")
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        _refuse(not request.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    else:
        _refuse(request.member_epoch < LEAVE_GROUP_MEMBER_EPOCH, "MemberEpoch is invalid.")
    is_blank = request.rack_id is not None and not request.rack_id.strip()
    _refuse(is_blank, "RackId can't be empty.")


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _find_member(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, size_max: int
) -> ShareGroupMember | None:
    """The member that this heartbeat is from; None for a new one."""
    known = group.members.get(request.member_id)
    if known is None and len(group.members) >= size_max:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return known
    if known is None:
        raise _unknown_member(group.id, request.member_id)
    if request.member_epoch not in (known.epoch, known.previous_epoch):
        how = "greater" if request.member_epoch > known.epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {how} member epoch ({request.member_epoch}) than the one known by "
            f"the group coordinator ({known.epoch}). The member must abandon all its partitions and rejoin.",
        )
    return known


def _unknown_member(group_id: str, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def _updated_member(member: ShareGroupMember, heartbeat: _Heartbeat) -> ShareGroupMember:
    """The member with what is new in this request: a null field is no news."""
    request = heartbeat.request
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
    )
