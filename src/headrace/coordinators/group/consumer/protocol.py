"""The consumer protocol over one coordinator partition: heartbeats in, records and replies out, and time.

`heartbeat` decides what is written; this joins it to the log (a reply leaves when its records are in) and to
time: a member that stays silent for its session, or does not let go within its rebalance time-out, is out.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, Slot
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
from headrace.coordinators.group.consumer.settings import (
    QUICK_MS_MIN,
    ConsumerSettings,
    calm_interval_ms,
    quick_interval_ms,
)
from headrace.coordinators.runtime import CoordinatorRecord, Done
from headrace.coordinators.timers import Timers
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

AnswerHeartbeat = Callable[[ConsumerGroupHeartbeatResponse], None]
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
        self._write = write
        self._new_uuid = new_uuid
        self.settings_of = settings_of
        self._members_on_node = members_on_node
        self._after_loss = after_loss
        self.deadlines = Deadlines(
            timers=timers, clock=clock, settings_of=settings_of, find=self._find, expire=self._expire
        )

    @property
    def groups(self) -> dict[str, ConsumerGroup]:
        return self.table.by_id

    # --- ConsumerGroupHeartbeat ---

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
        prelude: Records,
        answer: AnswerHeartbeat,
    ) -> None:
        """Decide, write, answer a request that `validation` let through. `prelude` is written first: it ends
        what the group was before.
        """
        try:
            group = self.groups.get(request.group_id)
            if group is None:
                if request.member_epoch != JOINING:
                    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} is not known")
                group = ConsumerGroup(request.group_id)
            if request.member_epoch in (LEAVING, STATIC_LEAVING):
                self._leave(group, request, answer)
            else:
                self._stay(group, request, client_id, client_host, prelude, answer)
        except ApiError as error:
            answer(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))

    def _stay(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        prelude: Records,
        answer: AnswerHeartbeat,
    ) -> None:
        settings = self.settings_of(group.id)
        member_id = request.member_id or self._new_uuid()
        check_room(group, member_id, settings.size_max)
        known = find_sender(group, request, member_id)
        if known is not None and _is_idle(group, known, request, client_id, client_host):
            self.deadlines.expect_heartbeat(group.id, known)
            answer(
                ConsumerGroupHeartbeatResponse(
                    member_id=known.id,
                    member_epoch=known.epoch,
                    heartbeat_interval_ms=self._interval_ms(group, known),
                )
            )
            return
        before = ConsumerMember(member_id) if known is None else known
        if before.id != member_id:
            before = seated_anew(before, member_id)

        def done(error: ErrorCode, after: ConsumerMember) -> None:
            if error is not ErrorCode.NONE:
                answer(ConsumerGroupHeartbeatResponse(error_code=error))
                return
            is_news = known is None or not _same_partitions(before.assigned, after.assigned)
            answer(
                ConsumerGroupHeartbeatResponse(
                    member_id=member_id,
                    member_epoch=after.epoch,
                    heartbeat_interval_ms=self._interval_ms(self.groups.get(group.id, group), after),
                    assignment=_assignment_to_wire(after.assigned) if is_news or _is_full(request) else None,
                )
            )

        described = _as_described(before, request, client_id, client_host)
        self.advance(group, known, before, described, held_slots(request), done, prelude)

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
        self._write(records, written, True)
        if self.table.version != version:
            note()  # the answer waits for other replicas: until then, too, we have looked

    def may_assign(self, group: ConsumerGroup) -> bool:
        """One target at a time: changes that come close together are answered with one."""
        if group.assigned_at_ms is None:
            return True
        interval_ms = self.settings_of(group.id).assignment_interval_ms
        return self._clock.monotonic_ms() >= group.assigned_at_ms + interval_ms

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

    def _leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, answer: AnswerHeartbeat
    ) -> None:
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
            self._write([progress_record(group.id, gone)], written, True)
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
        self._write(records, written, True)
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


def _as_described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerMember:
    """The member with what this request says anew: null is no news."""
    names, regex, assignor = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
    )
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if assignor is None else assignor,
        classic=None,
    )


def _is_idle(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
) -> bool:
    """Nothing new on either side: most heartbeats are that, so they are answered without a draft."""
    return (
        request.member_epoch == member.epoch == group.epoch == group.assignment_epoch
        and member.state is MemberState.STABLE
        and not group.is_stale
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id in (None, member.rack_id)
        and request.instance_id in (None, member.instance_id)
        and (client_id, client_host, member.classic) == (member.client_id, member.client_host, None)
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A client that is not sure what we know tells everything, and wants to hear everything."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    tells_all = subscribes and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
    return request.member_epoch == JOINING or tells_all


def _same_partitions(one: Owned, other: Owned) -> bool:
    return one.keys() == other.keys() and all(one[each].keys() == other[each].keys() for each in one)


def _assignment_to_wire(owned: Owned) -> Assignment:
    return Assignment([TopicPartitions(each, sorted(owned[each])) for each in sorted(owned)])
