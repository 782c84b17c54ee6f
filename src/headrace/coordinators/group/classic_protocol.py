"""The classic group protocol: join, sync, heartbeat, leave, and what time does to a group.

A rebalance in one breath: members send JoinGroup and wait; when all have come (or the time is up) a
generation begins, everyone learns who leads, the leader sends the assignment with SyncGroup, it is written
to the log, and every waiting SyncGroup is answered with its share.

A pure machine: time comes in as `now_ms` (monotonic), deadlines go into `Timers`, answers go to the
callbacks that came with the requests, and `persist` writes a group's state to the log and says how that went.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.group.classic_replies import (
    JoinFeatures,
    join_error,
    join_reply,
    returning_reply,
    turn_away,
)
from headrace.coordinators.group.held_heartbeats import HeldHeartbeats, Patience
from headrace.coordinators.group.rebalances import ClassicLimits, Persist, Rebalances
from headrace.coordinators.group.second_rounds import owes_second_round
from headrace.coordinators.timers import Timers
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
AnswerBeat = Callable[[ErrorCode], None]
Release = Callable[[int, bool], None]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, for member ids and for what `describe` shows."""

    client_id: str
    host: str


class ClassicProtocol:
    """All classic groups of one coordinator partition."""

    def __init__(
        self, *, limits: ClassicLimits, timers: Timers, persist: Persist, new_uuid: Callable[[], str]
    ) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._limits = limits
        self._timers = timers
        self._persist = persist
        self._new_uuid = new_uuid
        self._rebalances = Rebalances(limits=limits, timers=timers, persist=persist)
        self._held = HeldHeartbeats(timers)

    # --- JoinGroup ----------------------------------------------------------------------------------------

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
            self._turn_away(group, request.member_id, now_ms)
            return
        # One that is named twice counts once: votes are counted by name.
        protocols = tuple({each.name: each.metadata for each in request.protocols}.items())
        if not group.accepts(request.protocol_type, protocols):
            answer(join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        member = Member(
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
        if group.is_in(GroupState.EMPTY):
            return False
        seated = group.members.get(member_id)
        if group.is_in(GroupState.PREPARING):
            waiting = sum(member.joining is not None for member in group.members.values())
            waits_already = seated is not None and seated.joining is not None
            return not waits_already and waiting >= self._limits.size_max
        return seated is None and len(group.members) >= self._limits.size_max

    def _turn_away(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A full group gives up the seat, or the id, of one who came too late."""
        if member_id in group.members or member_id in group.pending_ids:
            self._timers.cancel(("pending", group.id, member_id))
            self._rebalances.unseat(group, member_id)
            self._rebalances.after_leave(group, now_ms)

    def _join_new(
        self,
        group: ClassicGroup,
        member: Member,
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
                # KIP-394: an id first, a seat later, so that a client that retries leaves no ghost member.
                group.pending_ids.add(new_id)
                self._timers.set(
                    ("pending", group.id, new_id),
                    now_ms + member.session_timeout_ms,
                    lambda now: self._rebalances.expire_pending(group, new_id, now),
                )
                self._rebalances.expect_more(group, now_ms)
                answer(join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED))
                return
        member.id = new_id
        self._seat(group, member, protocol_type, now_ms, answer)

    def _join_known(
        self, group: ClassicGroup, member: Member, protocol_type: str, now_ms: int, answer: AnswerJoin
    ) -> None:
        if member.id in group.pending_ids:
            self._seat(group, member, protocol_type, now_ms, answer)
            return
        error = group.check_member(member.id, member.instance_id)
        if error is not ErrorCode.NONE:
            answer(join_error(member.id, error))
            return
        seated = group.members[member.id]
        self._answer_older(seated)
        unchanged = seated.protocols == member.protocols
        stays = group.is_in(GroupState.STABLE) and not group.is_leader(member.id)
        if unchanged and (stays or group.is_in(GroupState.COMPLETING)):
            seated.knows = None
            answer(join_reply(group, seated))
        elif group.is_in(GroupState.EMPTY):
            answer(join_error(member.id, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._renew(seated, member)
            seated.joining = answer
            self._rebalances.begin(group, now_ms)

    def _seat(
        self, group: ClassicGroup, member: Member, protocol_type: str, now_ms: int, answer: AnswerJoin
    ) -> None:
        self._timers.cancel(("pending", group.id, member.id))
        if not group.members:
            group.protocol_type = protocol_type
        member.is_new = True
        group.add(member)
        # While it waits in a join it sends no heartbeats, but a client that died waiting must not stay for
        # ever.
        self._rebalances.expect_heartbeat(group, member, now_ms, self._limits.new_member_join_timeout_ms)
        member.joining = answer
        self._rebalances.begin(group, now_ms, for_new_member=True)

    @staticmethod
    def _renew(seated: Member, member: Member) -> None:
        seated.protocols = member.protocols
        seated.rebalance_timeout_ms = member.rebalance_timeout_ms
        seated.session_timeout_ms = member.session_timeout_ms
        seated.client_id = member.client_id
        seated.client_host = member.client_host

    @staticmethod
    def _answer_older(member: Member) -> None:
        """The client asks again: only its newest request is answered with the outcome."""
        older = member.joining or member.kept
        member.joining = member.kept = None
        if older is not None:
            older(join_error(member.id, ErrorCode.REBALANCE_IN_PROGRESS))

    def _replace_static(
        self,
        group: ClassicGroup,
        member: Member,
        new_id: str,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        """A static member restarted: it takes its seat again, and where the group's protocol stays nobody
        rebalances, unless others wait for partitions that its predecessor was told to give up. What it
        subscribes to may have changed: its leader will see that with the next rebalance.
        """
        seated = group.members[group.static_members[member.instance_id or ""]]
        old_id = seated.id
        stays = group.is_in(GroupState.STABLE) and not owes_second_round(group, seated)
        self._rebalances.fence(group, seated)
        group.replace_static(seated, new_id)
        seated.knows = None
        self._renew(seated, member)
        self._rebalances.expect_heartbeat(group, seated, now_ms)
        if stays and group.choose_protocol() == group.protocol:
            assignments = {each.id: each.assignment for each in group.members.values()}

            def written(error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    answer(join_error(new_id, error))
                else:
                    answer(returning_reply(group, seated, old_id, features))

            self._persist(group, assignments, written)
            return
        # Also of a group whose assignment is due: its leader may have sent it to the seat's former owner.
        seated.joining = answer
        self._rebalances.begin(group, now_ms)

    # --- SyncGroup ---

    def sync(self, request: SyncGroupRequest, *, now_ms: int, answer: AnswerSync) -> None:
        """Give a member its share; the leader's request brings the shares of all."""
        group = self.groups.get(request.group_id)
        error = self._check_sync(group, request)
        if group is None or error is not ErrorCode.NONE:
            answer(SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        self._rebalances.expect_heartbeat(group, member, now_ms)
        group.pending_sync.discard(member.id)
        group.pending_givers.discard(member.id)
        if member.syncing is not None:
            member.syncing(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = answer
        if not group.pending_sync:
            self._timers.cancel(("sync", group.id))
        if group.is_in(GroupState.STABLE):
            self._rebalances.give_shares(group)
        elif group.is_leader(member.id):
            self._rebalances.take_assignment(group, request, now_ms)

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
        if group.is_in(GroupState.PREPARING):
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE if not group.is_in(GroupState.EMPTY) else ErrorCode.UNKNOWN_MEMBER_ID

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
            was_asked_for = request.generation_id == member.repeats
            return ErrorCode.NONE if was_asked_for else ErrorCode.ILLEGAL_GENERATION
        self._rebalances.expect_heartbeat(group, member, now_ms)
        rebalances = group.is_in(GroupState.PREPARING) or member.kept is not None
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def hold(
        self, request: HeartbeatRequest, patience: Patience, *, now_ms: int, answer: AnswerBeat
    ) -> Release | None:
        """Keep a heartbeat that was found good until there is news: see `HeldHeartbeats.hold`."""
        group = self.groups[request.group_id]
        member = group.members[request.member_id]
        return self._held.hold(group, member, patience, now_ms=now_ms, answer=answer)

    def keep_alive(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """An offset commit proves life as well as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.expect_heartbeat(group, member, now_ms)

    def expect_all(self, group: ClassicGroup, now_ms: int) -> None:
        """After loading: every member has one session time-out to show up. A group that is larger than it may
        be by now finds out who stays.
        """
        for member in group.members.values():
            self._rebalances.expect_heartbeat(group, member, now_ms)
        if len(group.members) > self._limits.size_max:
            self._rebalances.begin(group, now_ms)

    # --- LeaveGroup ---

    def leave(self, request: LeaveGroupRequest, *, now_ms: int) -> LeaveGroupResponse:
        """Take members out at once, each with its own result (KIP-345)."""
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(request.group_id)
        results = [self._leave_one(group, each) for each in request.members]
        if group is not None and any(result.error_code == ErrorCode.NONE for result in results):
            self._rebalances.after_leave(group, now_ms)
        return LeaveGroupResponse(members=results)

    def _leave_one(self, group: ClassicGroup | None, who: MemberIdentity) -> MemberResponse:
        def result(error: ErrorCode) -> MemberResponse:
            return MemberResponse(who.member_id, who.group_instance_id, error)

        if group is None:
            return result(ErrorCode.UNKNOWN_MEMBER_ID)
        if who.member_id in group.pending_ids:
            self._timers.cancel(("pending", group.id, who.member_id))
            group.pending_ids.discard(who.member_id)
            return result(ErrorCode.NONE)
        member_id = who.member_id
        if who.group_instance_id is not None and not member_id:
            # An administrator names only the instance.
            member_id = group.static_members.get(who.group_instance_id, "")
        error = group.check_member(member_id, who.group_instance_id)
        if error is ErrorCode.NONE:
            self._rebalances.unseat(group, member_id)
        return result(error)

    def rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """Have everybody join again."""
        self._rebalances.begin(group, now_ms)

    @staticmethod
    def send_back(group: ClassicGroup) -> None:
        """The group is about to change its protocol: who waits in it is told to join again."""
        for member in group.members.values():
            turn_away(member, ErrorCode.REBALANCE_IN_PROGRESS)

    def drop(self, group_id: str) -> None:
        """The group is deleted, or its partition moved away: nobody waits for it any more."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._rebalances.forget(group)
