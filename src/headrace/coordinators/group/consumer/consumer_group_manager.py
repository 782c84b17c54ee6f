"""ConsumerGroupManager: serves ConsumerGroupHeartbeat (KIP-848), the one request of the consumer protocol.

    find the member ─► new group epoch? ─► new target assignment? ─► reconcile the member ─► write ─► answer

`heartbeat_request` reads the request, a TargetAssignmentBuilder collects what is written,
`current_assignment` reconciles the member; a reply leaves when its records are replicated. A member that
sends no heartbeat for its session timeout, or does not revoke within its rebalance timeout, is removed. A
heartbeat without news on either side may be held until there is some (`held_heartbeats`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, HeartbeatState
from headrace.coordinators.group.consumer.heartbeat_request import (
    changes_nothing,
    check_group_size,
    check_instance_id,
    find_member,
    is_full_request,
    owned_by_client,
    updated_member,
)
from headrace.coordinators.group.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
    MemberState,
    PartitionId,
    PartitionsWithEpochs,
)
from headrace.coordinators.group.consumer.records import ConsumerGroups, Records, current_assignment_record
from headrace.coordinators.group.consumer.subscription import MayDescribe
from headrace.coordinators.group.consumer.target_assignment import (
    TargetAssignmentBuilder,
    removal_records,
    replaced_static_member,
)
from headrace.coordinators.group.group_config_manager import (
    QUICK_MS_MIN,
    GroupConfig,
    calm_interval_ms,
    quick_interval_ms,
)
from headrace.coordinators.group.held_heartbeats import HeldConsumerHeartbeats, PendingHeartbeat, ReleaseHeld
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# A heartbeat is held for a part of the session at most, whatever interval was chosen.
PARTS_OF_SESSION: Final = 4
SESSION: Final = "consumer session"
REBALANCE: Final = "consumer rebalance"
JOIN: Final = "consumer join"
SYNC: Final = "consumer sync"

Write = Callable[[Sequence[CoordinatorRecord], Done, bool], None]


class ConsumerGroupManager:
    """All consumer groups of one coordinator partition.

    `group_config` gives a group's config; `members_on_node` how many members this node serves.
    `maybe_downgrade` is called with a group's id, and the epoch it had, when a member is gone or has changed
    its protocol.
    """

    def __init__(
        self,
        *,
        image: MetadataImage,
        clock: Clock,
        timer: CoordinatorTimer,
        write: Write,
        new_uuid: Callable[[], str],
        group_config: Callable[[str], GroupConfig],
        members_on_node: Callable[[], int],
        maybe_downgrade: Callable[[str, int], None],
    ) -> None:
        self.table = ConsumerGroups()
        self._image = image
        self._clock = clock
        self._append = write
        self._new_uuid = new_uuid
        self.group_config = group_config
        self._members_on_node = members_on_node
        self._maybe_downgrade = maybe_downgrade
        self.timeouts = MemberTimeouts(
            timer=timer, clock=clock, group_config=group_config, find=self._find, expire=self._expire
        )
        self._held = HeldConsumerHeartbeats(
            timer=timer,
            clock=clock,
            news_at_ms=self._news_at_ms,
            serve=lambda pending: self.heartbeat(replace(pending, margin_ms=None), []),
        )

    @property
    def groups(self) -> dict[str, ConsumerGroup]:
        return self.table.by_id

    # --- ConsumerGroupHeartbeat ---

    def heartbeat(self, pending: PendingHeartbeat, first_records: Records) -> ReleaseHeld | None:
        """Decide, write, answer a valid request. `first_records` are written before all others: they end what
        the group was before. Returns what releases a heartbeat that is held.
        """
        request = pending.request
        try:
            group = self.groups.get(request.group_id)
            if group is None:
                if request.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
                    what = "Group" if request.member_epoch < 0 else "Consumer group"
                    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {request.group_id} not found.")
                group = ConsumerGroup(request.group_id)
            if request.member_epoch not in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
                return self._join_or_stay(group, pending, first_records)
            self._leave(group, pending)
        except ApiError as error:
            pending.answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
        return None

    def _join_or_stay(
        self, group: ConsumerGroup, pending: PendingHeartbeat, first_records: Records
    ) -> ReleaseHeld | None:
        request = pending.request
        config = self.group_config(group.id)
        member_id = request.member_id or self._new_uuid()
        check_group_size(group, member_id, config.size_max)
        known = find_member(group, request, member_id)
        if known is not None and changes_nothing(
            group, known, request, pending.client_id, pending.client_host
        ):
            self.timeouts.schedule_session_timeout(group.id, known)
            state = group.heartbeat_states.setdefault(known.id, HeartbeatState())
            hold_ms_max = config.session_timeout_ms // PARTS_OF_SESSION
            release = self._held.hold(pending, state, hold_ms_max=hold_ms_max)
            if release is None:
                pending.answer(self._reply(group, known))
            return release
        before = ConsumerGroupMember(member_id) if known is None else known
        if before.id != member_id:
            before = replaced_static_member(before, member_id)

        def done(error: ErrorCode, after: ConsumerGroupMember) -> None:
            if error is not ErrorCode.NONE:
                pending.answer(ConsumerGroupHeartbeatResponse(error_code=error))
                return
            reply = self._reply(self.groups.get(group.id, group), after)
            is_news = known is None or not _same_partitions(before.assigned, after.assigned)
            if is_news or is_full_request(request):
                reply.assignment = _assignment_to_wire(after.assigned)
            pending.answer(reply)

        updated = updated_member(before, request, pending.client_id, pending.client_host)
        self.update_member(
            group,
            known,
            before,
            updated,
            owned_by_client(request),
            done,
            first_records,
            may_describe=pending.may_describe,
        )
        return None

    def _reply(self, group: ConsumerGroup, member: ConsumerGroupMember) -> ConsumerGroupHeartbeatResponse:
        interval_ms = self._interval_ms(group, member)
        if member.id in group.members:  # it may have gone while its answer waited for the log
            group.heartbeat_states.setdefault(member.id, HeartbeatState()).interval_ms = interval_ms
        return ConsumerGroupHeartbeatResponse(
            member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=interval_ms
        )

    def update_member(
        self,
        group: ConsumerGroup,
        known: ConsumerGroupMember | None,
        before: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        owned: Collection[PartitionId] | None,
        done: Callable[[ErrorCode, ConsumerGroupMember], None],
        first_records: Sequence[CoordinatorRecord] = (),
        *,
        may_describe: MayDescribe | None = None,
    ) -> None:
        """Add or update a member, bump the group epoch and compute the target assignment where that is due,
        reconcile the member, and write it all. `known` is the member so far, if any, and `before` the same
        under its present id. Patterns are looked at with the rights of whoever asks; without anybody they
        stay as they are, for the next heartbeat that has some.
        """
        config = self.group_config(group.id)
        wall_ms = self._clock.now_ms()
        builder = TargetAssignmentBuilder.of(group)
        builder.records += first_records
        builder.add_or_update_member(known, updated)
        builder.maybe_bump_group_epoch(self._image, wall_ms=wall_ms, may_describe=may_describe)
        assigned_at_ms = group.assigned_at_ms
        if builder.epoch > builder.assignment_epoch and self.may_assign(group):
            builder.build(self._image, default_assignor=config.assignors[0], wall_ms=wall_ms)
            assigned_at_ms = self._clock.monotonic_ms()
        after = builder.reconcile_member(updated.id, owned)
        self.timeouts.schedule_session_timeout(group.id, after)
        if not before.has_same_assignment(after):
            self.timeouts.schedule_rebalance_timeout(group.id, after)
        if builder.replaced_id is not None:
            self.timeouts.cancel(group.id, builder.replaced_id)
        epoch = group.epoch
        leaves_patterns = may_describe is None and bool(builder.regexes) and group.needs_metadata_refresh
        self._write_update(
            builder.records,
            group.id,
            assigned_at_ms,
            lambda error: done(error, after),
            needs_refresh=leaves_patterns,
        )
        if builder.replaced_id is not None:
            self._maybe_downgrade(group.id, epoch)

    def _write_update(
        self,
        records: Records,
        group_id: str,
        assigned_at_ms: int | None,
        done: Done,
        *,
        needs_refresh: bool,
    ) -> None:
        """Write, and once that is replayed set what the log does not hold: topics that change while the
        answer waits for other replicas are to be looked at again.
        """
        is_replayed = False

        def replayed() -> None:
            nonlocal is_replayed
            if not is_replayed and (group := self.groups.get(group_id)) is not None:
                is_replayed = True
                group.needs_metadata_refresh = needs_refresh
                group.assigned_at_ms = assigned_at_ms

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                replayed()
            elif (group := self.groups.get(group_id)) is not None:
                group.needs_metadata_refresh = True
            done(error)

        if not records:
            written(ErrorCode.NONE)
            return
        version = self.table.version
        self._write(group_id, records, written)
        if self.table.version != version:
            replayed()  # the answer still waits for other replicas

    def _write(self, group_id: str, records: Records, done: Done) -> None:
        self._append(records, done, True)
        self._held.on_group_change(group_id)

    def may_assign(self, group: ConsumerGroup) -> bool:
        """Whether the assignment interval is over: changes that come close together make one target."""
        return self._clock.monotonic_ms() >= self._assignable_at_ms(group)

    def _assignable_at_ms(self, group: ConsumerGroup) -> int:
        if group.assigned_at_ms is None:
            return 0  # and not the time of now, which goes on while two of them are compared
        return group.assigned_at_ms + self.group_config(group.id).assignment_interval_ms

    def _news_at_ms(self, group_id: str, epoch: int) -> int | None:
        """When there is news for members that have all of this epoch."""
        group, now_ms = self.groups.get(group_id), self._clock.monotonic_ms()
        if group is None or group.epoch == group.assignment_epoch:
            return None if group is not None and group.epoch == epoch else now_ms
        return max(now_ms, self._assignable_at_ms(group))

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
        config = self.group_config(group.id)
        calm_ms = calm_interval_ms(config, self._members_on_node())
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms if group.assigned_at_ms is None else group.assigned_at_ms
        if group.epoch > group.assignment_epoch:
            due_ms = since_ms + config.assignment_interval_ms
            return min(calm_ms, max(QUICK_MS_MIN, due_ms - now_ms))
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return quick_interval_ms(config, reconciling_for_ms=now_ms - since_ms, calm_ms=calm_ms)
        return calm_ms  # a member that has to revoke sends a heartbeat when it has

    # --- leaving, by request or by timeout ---

    def _leave(self, group: ConsumerGroup, pending: PendingHeartbeat) -> None:
        request, answer = pending.request, pending.answer
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
            check_instance_id(request.instance_id, request.member_id, member)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {request.member_id} is not a member of group {group.id}.",
            )
        left = member
        reply = ConsumerGroupHeartbeatResponse(member_id=left.id, member_epoch=request.member_epoch)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                answer(reply)
            else:
                answer(ConsumerGroupHeartbeatResponse(error_code=error))

        if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            gone = replace(
                left, epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, state=MemberState.STABLE, pending_revocation={}
            )
            self.timeouts.schedule_rebalance_timeout(group.id, gone)
            self._write(group.id, [current_assignment_record(group.id, gone)], written)
        else:
            self.remove(group, [left.id], written)

    def remove(self, group: ConsumerGroup, member_ids: Sequence[str], done: Done) -> None:
        """Remove members, and bump the group epoch for the others."""
        for member_id in member_ids:
            self.timeouts.cancel(group.id, member_id)

        def written(error: ErrorCode) -> None:
            for member_id in member_ids:
                if error is not ErrorCode.NONE and (member := self._find(group.id, member_id)) is not None:
                    self.timeouts.schedule_session_timeout(group.id, member)  # not written
            done(error)

        epoch = group.epoch
        records = removal_records(group, member_ids, self._image, wall_ms=self._clock.now_ms())
        self._write(group.id, records, written)
        self._maybe_downgrade(group.id, epoch)

    def _expire(self, group_id: str, member_id: str) -> None:
        group, member = self.groups.get(group_id), self._find(group_id, member_id)
        if group is None or member is None:
            return

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and self.groups.get(group_id) is not None:
                self.timeouts.schedule_session_timeout(group_id, member)  # not written: try again later

        self.remove(group, [member_id], written)

    # --- time ---

    def on_loaded(self) -> None:
        """Every member has one session timeout to show up, and one rebalance timeout to revoke."""
        for group in list(self.groups.values()):
            self.schedule_timeouts(group)
            self._maybe_downgrade(group.id, group.epoch)

    def schedule_timeouts(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            self.timeouts.schedule_session_timeout(group.id, member)
            self.timeouts.schedule_rebalance_timeout(group.id, member)

    def on_unloaded(self) -> None:
        self._held.fail_all()
        for group in self.groups.values():
            for member_id in group.members:
                self.timeouts.cancel(group.id, member_id)

    def request_metadata_refresh(self) -> None:
        """Topics changed: every group looks at them again with its next heartbeat."""
        for group in self.groups.values():
            group.needs_metadata_refresh = True

    def request_pattern_refresh(self) -> None:
        """Access rules changed: patterns may find other topics now."""
        for group in self.groups.values():
            if group.regexes:
                group.needs_metadata_refresh = True

    def _find(self, group_id: str, member_id: str) -> ConsumerGroupMember | None:
        group = self.groups.get(group_id)
        return None if group is None else group.members.get(member_id)


def _same_partitions(one: PartitionsWithEpochs, other: PartitionsWithEpochs) -> bool:
    return one.keys() == other.keys() and all(one[each].keys() == other[each].keys() for each in one)


def _assignment_to_wire(owned: PartitionsWithEpochs) -> Assignment:
    return Assignment([TopicPartitions(each, sorted(owned[each])) for each in sorted(owned)])


class MemberTimeouts:
    """The session and rebalance timeouts of members, and for classic ones also of their next join and sync.

    `expire` removes a member that missed one.
    """

    def __init__(
        self,
        *,
        timer: CoordinatorTimer,
        clock: Clock,
        group_config: Callable[[str], GroupConfig],
        find: Callable[[str, str], ConsumerGroupMember | None],
        expire: Callable[[str, str], None],
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._config_of = group_config
        self._find = find
        self._expire = expire

    def schedule_session_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        timeout_ms = (
            self._config_of(group_id).session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self._timer.schedule(
            (SESSION, group_id, member.id),
            self._clock.monotonic_ms() + timeout_ms,
            lambda now_ms: self._expire(group_id, member.id),
        )

    def schedule_rebalance_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        """A member that has to revoke partitions has its rebalance timeout for that."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._schedule(REBALANCE, group_id, member)
        else:
            self._timer.cancel((REBALANCE, group_id, member.id))

    def schedule_join_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        """A classic member was told to join again; being told twice gives it no more time."""
        if not self._timer.is_scheduled((JOIN, group_id, member.id)):
            self._schedule(JOIN, group_id, member)

    def schedule_sync_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        """A classic member has joined, and must send SyncGroup."""
        self._timer.cancel((JOIN, group_id, member.id))
        self._schedule(SYNC, group_id, member)

    def cancel_sync_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        self._timer.cancel((SYNC, group_id, member.id))

    def cancel(self, group_id: str, member_id: str) -> None:
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            self._timer.cancel((kind, group_id, member_id))

    def _schedule(self, kind: str, group_id: str, member: ConsumerGroupMember) -> None:
        """Remove the member unless it gets further within its rebalance timeout."""

        def look(now_ms: int) -> None:
            current = self._find(group_id, member.id)
            if current is not None and (current.epoch, current.state) == (member.epoch, member.state):
                self._expire(group_id, member.id)

        self._timer.schedule(
            (kind, group_id, member.id), self._clock.monotonic_ms() + member.rebalance_timeout_ms, look
        )
