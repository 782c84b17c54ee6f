"""ClassicGroupManager: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups, and their timeouts.

A rebalance in one breath: members send JoinGroup and wait; when all have come (or the time is up) a
generation begins, everyone learns who leads, the leader sends the assignment with SyncGroup, it is written
to the log, and every waiting SyncGroup is answered with its assignment.

A state machine without a clock: time comes in as `now_ms` (monotonic), deadlines go into `CoordinatorTimer`,
answers go to the callbacks that came with the requests, and `persist` writes a group's state to the log and
says how that went.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    JoinFeatures,
    fail_awaiting_requests,
    join_error,
    join_reply,
    static_member_join_reply,
)
from headrace.coordinators.group.classic.cooperative_rebalance import owes_second_round
from headrace.coordinators.group.classic.rebalance import ClassicGroupRebalance, Persist
from headrace.coordinators.group.group_config_manager import ClassicGroupConfig
from headrace.coordinators.group.held_heartbeats import HeartbeatHoldPolicy, HeldClassicHeartbeats
from headrace.coordinators.timer import CoordinatorTimer
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.wire.schemas.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

AnswerJoin = Callable[[JoinGroupResponse], None]
AnswerSync = Callable[[SyncGroupResponse], None]
AnswerHeartbeat = Callable[[ErrorCode], None]
Release = Callable[[int, bool], None]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request, for member ids and for DescribeGroups."""

    client_id: str
    host: str


class ClassicGroupManager:
    """All classic groups of one coordinator partition."""

    def __init__(
        self,
        *,
        limits: ClassicGroupConfig,
        timer: CoordinatorTimer,
        persist: Persist,
        new_uuid: Callable[[], str],
    ) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._limits = limits
        self._timer = timer
        self._persist = persist
        self._new_uuid = new_uuid
        self._rebalance = ClassicGroupRebalance(limits=limits, timer=timer, persist=persist)
        self._held = HeldClassicHeartbeats(timer)

    # --- JoinGroup ---

    def join(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        *,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        """Answer now, or keep `answer` in the member until the rebalance is through."""
        error = self._check_join(request)
        group = self.groups.get(request.group_id)
        if error is ErrorCode.NONE and group is None:
            if request.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        if error is not ErrorCode.NONE or group is None:
            answer(join_error(request.member_id, error))
            return
        if self._is_full(group, request.member_id):
            answer(join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
            self._reject_when_full(group, request.member_id, now_ms)
            return
        # One that is named twice counts once: votes are counted by name.
        protocols = tuple({each.name: each.metadata for each in request.protocols}.items())
        if not group.supports_protocols(request.protocol_type, protocols):
            answer(join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        member = ClassicGroupMember(
            request.member_id,
            request.group_instance_id,
            caller.client_id,
            caller.host,
            request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms,
            request.session_timeout_ms,
            protocols,
        )
        if request.member_id:
            self._join_known(group, member, request.protocol_type, now_ms, answer)
        else:
            self._join_new(group, member, request.protocol_type, features, now_ms, answer)

    def _check_join(self, request: JoinGroupRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        limits = self._limits
        if not limits.session_timeout_ms_min <= request.session_timeout_ms <= limits.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def _is_full(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether there is no room for this member. In a rebalance those have a place who come first, so a
        group above its limit loses the last ones to come.
        """
        if group.is_in(ClassicGroupState.EMPTY):
            return False
        known = group.members.get(member_id)
        if group.is_in(ClassicGroupState.PREPARING):
            waiting = sum(member.awaiting_join is not None for member in group.members.values())
            waits_already = known is not None and known.awaiting_join is not None
            return not waits_already and waiting >= self._limits.size_max
        return known is None and len(group.members) >= self._limits.size_max

    def _reject_when_full(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A full group removes a member, or the id that it was given, that came too late."""
        if member_id in group.members or member_id in group.pending_join_members:
            self._timer.cancel(("pending", group.id, member_id))
            self._rebalance.remove_member(group, member_id)
            self._rebalance.after_removal(group, now_ms)

    def _join_new(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        protocol_type: str,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        if member.instance_id is not None:
            new_id = f"{member.instance_id}-{self._new_uuid()}"
            if member.instance_id in group.static_members:
                self._replace_static(group, member, new_id, features, now_ms, answer)
                return
        else:
            new_id = f"{member.client_id}-{self._new_uuid()}"
            if features.member_id_required:
                # KIP-394: an id first, membership later, so that a client that retries leaves no ghost.
                group.pending_join_members.add(new_id)
                self._timer.schedule(
                    ("pending", group.id, new_id),
                    now_ms + member.session_timeout_ms,
                    lambda now: self._rebalance.expire_pending_member(group, new_id, now),
                )
                self._rebalance.extend_initial_rebalance(group, now_ms)
                answer(join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED))
                return
        member.id = new_id
        self._add_member(group, member, protocol_type, now_ms, answer)

    def _join_known(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        protocol_type: str,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        if member.id in group.pending_join_members:
            self._add_member(group, member, protocol_type, now_ms, answer)
            return
        error = group.check_member(member.id, member.instance_id)
        if error is not ErrorCode.NONE:
            answer(join_error(member.id, error))
            return
        known = group.members[member.id]
        self._fail_older_join(known)
        unchanged = known.protocols == member.protocols
        stays = group.is_in(ClassicGroupState.STABLE) and not group.is_leader(member.id)
        if unchanged and (stays or group.is_in(ClassicGroupState.COMPLETING)):
            known.known_generation = None
            answer(join_reply(group, known))
        elif group.is_in(ClassicGroupState.EMPTY):
            answer(join_error(member.id, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._update_member(known, member)
            known.awaiting_join = answer
            self._rebalance.prepare(group, now_ms)

    def _add_member(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        protocol_type: str,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        self._timer.cancel(("pending", group.id, member.id))
        if not group.members:
            group.protocol_type = protocol_type
        member.is_new = True
        group.add(member)
        # While it waits in a join it sends no heartbeats, but a client that died waiting must not stay for
        # ever.
        self._rebalance.reschedule_heartbeat(group, member, now_ms, self._limits.new_member_join_timeout_ms)
        member.awaiting_join = answer
        self._rebalance.prepare(group, now_ms, for_new_member=True)

    @staticmethod
    def _update_member(known: ClassicGroupMember, member: ClassicGroupMember) -> None:
        known.protocols = member.protocols
        known.rebalance_timeout_ms = member.rebalance_timeout_ms
        known.session_timeout_ms = member.session_timeout_ms
        known.client_id = member.client_id
        known.client_host = member.client_host

    @staticmethod
    def _fail_older_join(member: ClassicGroupMember) -> None:
        """The client joined again: only its newest request is answered with the outcome."""
        older = member.awaiting_join or member.held_join
        member.awaiting_join = member.held_join = None
        if older is not None:
            older(join_error(member.id, ErrorCode.REBALANCE_IN_PROGRESS))

    def _replace_static(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        new_id: str,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        """A static member restarted: it replaces the old one, and where the group's protocol stays nobody
        rebalances, unless others wait for partitions that its predecessor was told to give up. What it
        subscribes to may have changed: its leader will see that with the next rebalance.
        """
        known = group.members[group.static_members[member.instance_id or ""]]
        old_id = known.id
        stays = group.is_in(ClassicGroupState.STABLE) and not owes_second_round(group, known)
        self._rebalance.fence(group, known)
        group.replace_static(known, new_id)
        known.known_generation = None
        self._update_member(known, member)
        self._rebalance.reschedule_heartbeat(group, known, now_ms)
        if stays and group.select_protocol() == group.protocol:
            assignments = {each.id: each.assignment for each in group.members.values()}

            def written(error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    answer(join_error(new_id, error))
                else:
                    answer(static_member_join_reply(group, known, old_id, features))

            self._persist(group, assignments, written)
            return
        # Also of a group whose assignment is due: its leader may have sent it to the old member.
        known.awaiting_join = answer
        self._rebalance.prepare(group, now_ms)

    # --- SyncGroup ---

    def sync(self, request: SyncGroupRequest, *, now_ms: int, answer: AnswerSync) -> None:
        """Give a member its assignment; the leader's request brings those of all."""
        group = self.groups.get(request.group_id)
        error = self._check_sync(group, request)
        if group is None or error is not ErrorCode.NONE:
            answer(SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        self._rebalance.reschedule_heartbeat(group, member, now_ms)
        group.pending_sync_members.discard(member.id)
        group.pending_revoking_members.discard(member.id)
        if member.awaiting_sync is not None:
            member.awaiting_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = answer
        if not group.pending_sync_members:
            self._timer.cancel(("sync", group.id))
        if group.is_in(ClassicGroupState.STABLE):
            self._rebalance.complete_syncs(group)
        elif group.is_leader(member.id):
            self._rebalance.store_assignment(group, request, now_ms)

    def _check_sync(self, group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.is_in(ClassicGroupState.PREPARING):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE if not group.is_in(ClassicGroupState.EMPTY) else ErrorCode.UNKNOWN_MEMBER_ID

    # --- Heartbeat ---

    def heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> ErrorCode:
        """Keep a member alive, and tell it when it must join again."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        member = group.members[request.member_id]
        if not group.is_generation_of(request.member_id, request.generation_id):
            # librdkafka sends the same bytes again when it was asked to, though it may have joined meanwhile.
            was_asked_for = request.generation_id == member.repeats_generation
            return ErrorCode.NONE if was_asked_for else ErrorCode.ILLEGAL_GENERATION
        self._rebalance.reschedule_heartbeat(group, member, now_ms)
        rebalances = group.is_in(ClassicGroupState.PREPARING) or member.held_join is not None
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def hold_heartbeat(
        self, request: HeartbeatRequest, policy: HeartbeatHoldPolicy, *, now_ms: int, answer: AnswerHeartbeat
    ) -> Release | None:
        """Hold a heartbeat that was found good until there is news: see `HeldClassicHeartbeats.hold`."""
        group = self.groups[request.group_id]
        member = group.members[request.member_id]
        return self._held.hold(group, member, policy, now_ms=now_ms, answer=answer)

    def keep_alive(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """An offset commit proves life as well as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None:
            self._rebalance.reschedule_heartbeat(group, member, now_ms)

    def schedule_heartbeats(self, group: ClassicGroup, now_ms: int) -> None:
        """After loading: every member has one session time-out to show up. A group that is larger than it may
        be by now finds out who stays.
        """
        for member in group.members.values():
            self._rebalance.reschedule_heartbeat(group, member, now_ms)
        if len(group.members) > self._limits.size_max:
            self._rebalance.prepare(group, now_ms)

    # --- LeaveGroup ---

    def leave(self, request: LeaveGroupRequest, *, now_ms: int) -> LeaveGroupResponse:
        """Take members out at once, each with its own result (KIP-345)."""
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(request.group_id)
        results = [self._leave_one(group, each) for each in request.members]
        if group is not None and any(result.error_code == ErrorCode.NONE for result in results):
            self._rebalance.after_removal(group, now_ms)
        return LeaveGroupResponse(members=results)

    def _leave_one(self, group: ClassicGroup | None, who: MemberIdentity) -> MemberResponse:
        def result(error: ErrorCode) -> MemberResponse:
            return MemberResponse(who.member_id, who.group_instance_id, error)

        if group is None:
            return result(ErrorCode.UNKNOWN_MEMBER_ID)
        if who.member_id in group.pending_join_members:
            self._timer.cancel(("pending", group.id, who.member_id))
            group.pending_join_members.discard(who.member_id)
            return result(ErrorCode.NONE)
        member_id = who.member_id
        if who.group_instance_id is not None and not member_id:
            # An administrator names only the instance.
            member_id = group.static_members.get(who.group_instance_id, "")
        error = group.check_member(member_id, who.group_instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.remove_member(group, member_id)
        return result(error)

    def rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """Have everybody join again."""
        self._rebalance.prepare(group, now_ms)

    @staticmethod
    def fail_awaiting_members(group: ClassicGroup) -> None:
        """The group is about to change its protocol: waiting members are told to join again."""
        for member in group.members.values():
            fail_awaiting_requests(member, ErrorCode.REBALANCE_IN_PROGRESS)

    def drop(self, group_id: str) -> None:
        """The group is deleted, or its partition moved away: answer all that waits in it."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._rebalance.close(group)
