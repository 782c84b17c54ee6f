"""The consumer protocol over one coordinator partition: heartbeats in, records and replies out, and time.

`heartbeat` decides what is written; this joins it to the log (a reply leaves when its records are in) and to
time: a member that stays silent for its session, or does not let go within its rebalance time-out, is out.
A heartbeat with nothing to say or to hear may be kept until there is news (`waiting`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, Pace, Slot
from headrace.coordinators.group.consumer.deadlines import Deadlines
from headrace.coordinators.group.consumer.heartbeat import (
    Draft,
    aim,
    refresh,
    seat,
    seated_anew,
    step,
    take_out,
)
from headrace.coordinators.group.consumer.member import (
    JOINING,
    LEAVING,
    STATIC_LEAVING,
    ConsumerMember,
    MemberState,
    Owned,
)
from headrace.coordinators.group.consumer.membership import check_room, check_seat, find_sender, held_slots
from headrace.coordinators.group.consumer.records import ConsumerGroups, Records, progress_record
from headrace.coordinators.group.consumer.said import as_described, is_full, is_idle
from headrace.coordinators.group.consumer.settings import (
    QUICK_MS_MIN,
    ConsumerSettings,
    calm_interval_ms,
    quick_interval_ms,
)
from headrace.coordinators.group.consumer.waiting import Beat, Release, Waiting
from headrace.coordinators.runtime import CoordinatorRecord, Done
from headrace.coordinators.timers import Timers
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# A heartbeat is kept for a part of the session at most, whatever interval was chosen.
PARTS_OF_SESSION: Final = 4
Write = Callable[[Sequence[CoordinatorRecord], Done, bool], None]


class ConsumerProtocol:
    """All consumer groups of one coordinator partition.

    `settings_of` gives what holds for a group; `members_on_node` how many members share this node's time.
    `after_loss` is called with a group's id when a member is gone or has changed its protocol.
    """

    def __init__(
        self,
        *,
        image: ClusterImage,
        clock: Clock,
        timers: Timers,
        write: Write,
        new_uuid: Callable[[], str],
        settings_of: Callable[[str], ConsumerSettings],
        members_on_node: Callable[[], int],
        after_loss: Callable[[str], None],
    ) -> None:
        self.table = ConsumerGroups()
        self._image = image
        self._clock = clock
        self._append = write
        self._new_uuid = new_uuid
        self.settings_of = settings_of
        self._members_on_node = members_on_node
        self._after_loss = after_loss
        self.deadlines = Deadlines(
            timers=timers, clock=clock, settings_of=settings_of, find=self._find, expire=self._expire
        )
        self._waiting = Waiting(
            timers=timers,
            clock=clock,
            news_at_ms=self._news_at_ms,
            go_on=lambda beat: self.heartbeat(replace(beat, margin_ms=None), []),
        )

    @property
    def groups(self) -> dict[str, ConsumerGroup]:
        return self.table.by_id

    # --- ConsumerGroupHeartbeat ---

    def heartbeat(self, beat: Beat, prelude: Records) -> Release | None:
        """Decide, write, answer a request that `validation` let through. `prelude` is written first: it ends
        what the group was before. Returns what ends the wait of one that is kept.
        """
        request = beat.request
        try:
            group = self.groups.get(request.group_id)
            if group is None:
                if request.member_epoch != JOINING:
                    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} is not known")
                group = ConsumerGroup(request.group_id)
            if request.member_epoch not in (LEAVING, STATIC_LEAVING):
                return self._stay(group, beat, prelude)
            self._leave(group, beat)
        except ApiError as error:
            beat.answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
        return None

    def _stay(self, group: ConsumerGroup, beat: Beat, prelude: Records) -> Release | None:
        request = beat.request
        settings = self.settings_of(group.id)
        member_id = request.member_id or self._new_uuid()
        check_room(group, member_id, settings.size_max)
        known = find_sender(group, request, member_id)
        if known is not None and is_idle(group, known, request, beat.client_id, beat.client_host):
            self.deadlines.expect_heartbeat(group.id, known)
            pace = group.paces.setdefault(known.id, Pace())
            wait_ms_max = settings.session_timeout_ms // PARTS_OF_SESSION
            release = self._waiting.keep(beat, pace, wait_ms_max=wait_ms_max)
            if release is None:
                beat.answer(self._reply(group, known))
            return release
        before = ConsumerMember(member_id) if known is None else known
        if before.id != member_id:
            before = seated_anew(before, member_id)

        def done(error: ErrorCode, after: ConsumerMember) -> None:
            if error is not ErrorCode.NONE:
                beat.answer(ConsumerGroupHeartbeatResponse(error_code=error))
                return
            reply = self._reply(self.groups.get(group.id, group), after)
            is_news = known is None or not _same_partitions(before.assigned, after.assigned)
            if is_news or is_full(request):
                reply.assignment = _assignment_to_wire(after.assigned)
            beat.answer(reply)

        described = as_described(before, request, beat.client_id, beat.client_host)
        self.advance(group, known, before, described, held_slots(request), done, prelude)
        return None

    def _reply(self, group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        interval_ms = self._interval_ms(group, member)
        if member.id in group.members:  # it may have gone while its answer waited for the log
            group.paces.setdefault(member.id, Pace()).told_ms = interval_ms
        return ConsumerGroupHeartbeatResponse(
            member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=interval_ms
        )

    def advance(
        self,
        group: ConsumerGroup,
        known: ConsumerMember | None,
        before: ConsumerMember,
        described: ConsumerMember,
        held: Collection[Slot] | None,
        done: Callable[[ErrorCode, ConsumerMember], None],
        prelude: Sequence[CoordinatorRecord] = (),
    ) -> None:
        """Take a member in as it describes itself, and one step further. `known` is how it was seated, if it
        was, and `before` the same under its present id.
        """
        settings = self.settings_of(group.id)
        wall_ms = self._clock.now_ms()
        draft = Draft.of(group)
        draft.records += prelude
        seat(draft, known, described)
        refresh(draft, self._image, wall_ms=wall_ms)
        assigned_at_ms = group.assigned_at_ms
        if draft.epoch > draft.assignment_epoch and self.may_assign(group):
            aim(draft, self._image, default_assignor=settings.assignors[0], wall_ms=wall_ms)
            assigned_at_ms = self._clock.monotonic_ms()
        after = step(draft, described.id, held)
        self.deadlines.expect_heartbeat(group.id, after)
        if not before.is_as_far_as(after):
            self.deadlines.expect_release(group.id, after)
        if draft.replaced_id is not None:
            self.deadlines.forget(group.id, draft.replaced_id)
        self._write_and_note(draft.records, group.id, assigned_at_ms, lambda error: done(error, after))
        if draft.replaced_id is not None:
            self._after_loss(group.id)

    def _write_and_note(
        self, records: Records, group_id: str, assigned_at_ms: int | None, done: Done
    ) -> None:
        """Write, and once that is replayed note what the log does not: that we looked, when we assigned."""

        def note() -> None:
            if (group := self.groups.get(group_id)) is not None:
                group.is_stale = False
                group.assigned_at_ms = assigned_at_ms

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                note()
            elif (group := self.groups.get(group_id)) is not None:
                group.is_stale = True
            done(error)

        if not records:
            written(ErrorCode.NONE)
            return
        version = self.table.version
        self._write(group_id, records, written)
        if self.table.version != version:
            note()  # the answer waits for other replicas: until then, too, we have looked

    def _write(self, group_id: str, records: Records, done: Done) -> None:
        self._append(records, done, True)
        self._waiting.stir(group_id)

    def may_assign(self, group: ConsumerGroup) -> bool:
        """One target at a time: changes that come close together are answered with one."""
        return self._clock.monotonic_ms() >= self._assignable_at_ms(group)

    def _assignable_at_ms(self, group: ConsumerGroup) -> int:
        if group.assigned_at_ms is None:
            return 0  # and not the time of now, which goes on while two of them are compared
        return group.assigned_at_ms + self.settings_of(group.id).assignment_interval_ms

    def _news_at_ms(self, group_id: str, epoch: int) -> int | None:
        """When there is news for members that have all of this epoch."""
        group, now_ms = self.groups.get(group_id), self._clock.monotonic_ms()
        if group is None or group.epoch == group.assignment_epoch:
            return None if group is not None and group.epoch == epoch else now_ms
        return max(now_ms, self._assignable_at_ms(group))

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        settings = self.settings_of(group.id)
        calm_ms = calm_interval_ms(settings, self._members_on_node())
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms if group.assigned_at_ms is None else group.assigned_at_ms
        if group.epoch > group.assignment_epoch:
            due_ms = since_ms + settings.assignment_interval_ms
            return min(calm_ms, max(QUICK_MS_MIN, due_ms - now_ms))
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return quick_interval_ms(settings, unsettled_for_ms=now_ms - since_ms, calm_ms=calm_ms)
        return calm_ms  # who has to let go comes back by itself when that is done

    # --- leaving, by request or by silence ---

    def _leave(self, group: ConsumerGroup, beat: Beat) -> None:
        request, answer = beat.request, beat.answer
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
            check_seat(request.instance_id, request.member_id, member)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id} is not a member of group {group.id}"
            )
        left = member
        reply = ConsumerGroupHeartbeatResponse(member_id=left.id, member_epoch=request.member_epoch)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                answer(reply)
            else:
                answer(ConsumerGroupHeartbeatResponse(error_code=error))

        if request.member_epoch == STATIC_LEAVING:
            gone = replace(left, epoch=STATIC_LEAVING, state=MemberState.STABLE, revoking={})
            self.deadlines.expect_release(group.id, gone)
            self._write(group.id, [progress_record(group.id, gone)], written)
        else:
            self.remove(group, [left.id], written)

    def remove(self, group: ConsumerGroup, member_ids: Sequence[str], done: Done) -> None:
        """Take members out, as an administrator or time asks."""
        for member_id in member_ids:
            self.deadlines.forget(group.id, member_id)

        def written(error: ErrorCode) -> None:
            for member_id in member_ids:
                if error is not ErrorCode.NONE and (member := self._find(group.id, member_id)) is not None:
                    self.deadlines.expect_heartbeat(group.id, member)  # the log would not take it
            done(error)

        records = take_out(group, member_ids, self._image, wall_ms=self._clock.now_ms())
        self._write(group.id, records, written)
        self._after_loss(group.id)

    def _expire(self, group_id: str, member_id: str) -> None:
        group, member = self.groups.get(group_id), self._find(group_id, member_id)
        if group is None or member is None:
            return

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and self.groups.get(group_id) is not None:
                self.deadlines.expect_heartbeat(
                    group_id, member
                )  # the log would not take it: try again later

        self.remove(group, [member_id], written)

    # --- time ---

    def loaded(self) -> None:
        """Every member has one session to show up, and one rebalance time-out to let go."""
        for group in list(self.groups.values()):
            self.watch(group)
            self._after_loss(group.id)

    def watch(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            self.deadlines.expect_heartbeat(group.id, member)
            self.deadlines.expect_release(group.id, member)

    def unloaded(self) -> None:
        self._waiting.drop_all()
        for group in self.groups.values():
            for member_id in group.members:
                self.deadlines.forget(group.id, member_id)

    def topics_changed(self) -> None:
        """Topics came, went or grew: every group looks again with its next heartbeat."""
        for group in self.groups.values():
            group.is_stale = True

    def _find(self, group_id: str, member_id: str) -> ConsumerMember | None:
        group = self.groups.get(group_id)
        return None if group is None else group.members.get(member_id)


def _same_partitions(one: Owned, other: Owned) -> bool:
    return one.keys() == other.keys() and all(one[each].keys() == other[each].keys() for each in one)


def _assignment_to_wire(owned: Owned) -> Assignment:
    return Assignment([TopicPartitions(each, sorted(owned[each])) for each in sorted(owned)])
