"""The consumer protocol over one coordinator partition: heartbeats in, records and replies out, and time.

`heartbeat` decides what is written; this joins it to the log (a reply leaves when its records are in) and to
time: a member that stays silent for its session, or does not let go within its rebalance time-out, is out.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
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
from headrace.coordinators.group.consumer.validation import check_heartbeat
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
    ) -> None:
        self.table = ConsumerGroups()
        self._image = image
        self._clock = clock
        self._timers = timers
        self._write = write
        self._new_uuid = new_uuid
        self._settings_of = settings_of
        self._members_on_node = members_on_node

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
        api_version: int,
        prelude: Records,
        answer: AnswerHeartbeat,
    ) -> None:
        """Decide, write, answer. `prelude` is written first: it ends what the group was before."""
        try:
            check_heartbeat(
                request,
                api_version=api_version,
                assignors=self._settings_of(request.group_id).assignors,
            )
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
        settings = self._settings_of(group.id)
        member_id = request.member_id or self._new_uuid()
        check_room(group, member_id, settings.size_max)
        known = find_sender(group, request, member_id)
        if known is not None and _is_idle(group, known, request, client_id, client_host):
            self.expect_heartbeat(group.id, known)
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
        member = _as_described(before, request, client_id, client_host)
        draft = Draft.of(group)
        draft.records += prelude
        seat(draft, known, member)
        refresh(draft, self._image, wall_ms=self._clock.now_ms())
        is_aimed = draft.epoch > draft.assignment_epoch and self._may_assign(group, settings)
        if is_aimed:
            aim(
                draft,
                self._image,
                default_assignor=settings.assignors[0],
                wall_ms=self._clock.now_ms(),
            )
        member = step(draft, member_id, held_slots(request))
        reply = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=member.epoch)
        if _is_full(request) or known is None or not _same_partitions(before.assigned, member.assigned):
            reply.assignment = _assignment_to_wire(member.assigned)
        self._finish(draft, before, member, is_aimed, reply, answer)

    def _finish(
        self,
        draft: Draft,
        before: ConsumerMember,
        member: ConsumerMember,
        is_aimed: bool,
        reply: ConsumerGroupHeartbeatResponse,
        answer: AnswerHeartbeat,
    ) -> None:
        group_id = draft.group.id
        after = replace(
            draft.group, epoch=draft.epoch, assignment_epoch=draft.assignment_epoch, is_stale=False
        )
        if is_aimed:
            after.assigned_at_ms = self._clock.monotonic_ms()
        reply.heartbeat_interval_ms = self._interval_ms(after, member)
        self.expect_heartbeat(group_id, member)
        if not before.is_as_far_as(member):
            self.expect_release(group_id, member)
        if draft.replaced_id is not None:
            self._forget_member(group_id, draft.replaced_id)

        def written(error: ErrorCode) -> None:
            ok = error is ErrorCode.NONE
            if not ok and (group := self.groups.get(group_id)) is not None:
                group.is_stale = True
            answer(reply if ok else ConsumerGroupHeartbeatResponse(error_code=error))

        self._write_and_note(draft.records, after, written)

    def _write_and_note(self, records: Records, after: ConsumerGroup, done: Done) -> None:
        """Write, and once that is replayed keep what the log does not: when we last looked and assigned."""

        def note() -> None:
            if (group := self.groups.get(after.id)) is not None:
                group.is_stale = after.is_stale
                group.assigned_at_ms = after.assigned_at_ms

        if not records:
            note()
            done(ErrorCode.NONE)
            return
        version = self.table.version
        self._write(records, done, True)
        if self.table.version != version:
            note()

    def _may_assign(self, group: ConsumerGroup, settings: ConsumerSettings) -> bool:
        """One target at a time: changes that come close together are answered with one."""
        if group.assigned_at_ms is None:
            return True
        return self._clock.monotonic_ms() >= group.assigned_at_ms + settings.assignment_interval_ms

    def _interval_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        settings = self._settings_of(group.id)
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
            self._timers.cancel(_release_timer(group.id, left.id))
            self._write([progress_record(group.id, gone)], written, True)
        else:
            self._forget_member(group.id, left.id)
            self._write(self._records_without(group, [left.id]), written, True)

    def remove(self, group: ConsumerGroup, member_ids: Sequence[str], done: Done) -> None:
        """Take members out, as an administrator or time asks."""
        for member_id in member_ids:
            self._forget_member(group.id, member_id)
        self._write(self._records_without(group, member_ids), done, True)

    def _records_without(self, group: ConsumerGroup, member_ids: Sequence[str]) -> Records:
        return take_out(group, member_ids, self._image, wall_ms=self._clock.now_ms())

    def _expire(self, group_id: str, member_id: str) -> None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and self.groups.get(group_id) is not None:
                self.expect_heartbeat(group_id, member)  # the log would not take it: try again later

        self.remove(group, [member_id], written)

    # --- time ---

    def loaded(self) -> None:
        """Every member has one session to show up, and one rebalance time-out to let go."""
        for group in self.groups.values():
            for member in group.members.values():
                self.expect_heartbeat(group.id, member)
                self.expect_release(group.id, member)

    def unloaded(self) -> None:
        for group in self.groups.values():
            for member_id in group.members:
                self._forget_member(group.id, member_id)

    def topics_changed(self) -> None:
        """Topics came, went or grew: every group looks again with its next heartbeat."""
        for group in self.groups.values():
            group.is_stale = True

    def expect_heartbeat(self, group_id: str, member: ConsumerMember) -> None:
        timeout_ms = self._settings_of(group_id).session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._timers.set(
            _session_timer(group_id, member.id),
            self._clock.monotonic_ms() + timeout_ms,
            lambda now_ms: self._expire(group_id, member.id),
        )

    def expect_release(self, group_id: str, member: ConsumerMember) -> None:
        """A member that has to let go of partitions has its rebalance time-out for that."""
        key = _release_timer(group_id, member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return

        def look(now_ms: int) -> None:
            group = self.groups.get(group_id)
            current = None if group is None else group.members.get(member.id)
            if current is not None and current.epoch == member.epoch and current.state is member.state:
                self._expire(group_id, member.id)

        self._timers.set(key, self._clock.monotonic_ms() + member.rebalance_timeout_ms, look)

    def _forget_member(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_session_timer(group_id, member_id))
        self._timers.cancel(_release_timer(group_id, member_id))


def _session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("consumer session", group_id, member_id)


def _release_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("consumer release", group_id, member_id)


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
        and _as_described(member, request, client_id, client_host) == member
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
