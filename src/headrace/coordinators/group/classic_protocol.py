"""The classic group protocol: join, sync, heartbeat, leave, and what time does to a group.

A rebalance in one breath: members send JoinGroup and wait; when all have come (or the time is up) a
generation begins, everyone learns who leads, the leader sends the assignment with SyncGroup, it is written
to the log, and every waiting SyncGroup is answered with its share.

A pure machine: time comes in as `now_ms` (monotonic), deadlines go into `Timers`, answers go to the
callbacks that came with the requests, and `persist` writes a group's state to the log and says how that went.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.timers import Timers
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.schemas.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

NO_GENERATION: Final = -1

Assignments = dict[str, bytes]
Persist = Callable[[ClassicGroup, Assignments, Callable[[ErrorCode], None]], None]
AnswerJoin = Callable[[JoinGroupResponse], None]
AnswerSync = Callable[[SyncGroupResponse], None]


@dataclass(frozen=True, slots=True)
class ClassicLimits:
    """The broker's settings for classic groups; see `group.*` in the settings room."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class JoinFeatures:
    """What the version of a JoinGroup request can do."""

    member_id_required: bool  # v4, KIP-394
    can_skip_assignment: bool  # v9, KIP-814


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
            answer(_join_error(request.member_id, error))
            return
        if self._is_full(group, request.member_id):
            group.pending_ids.discard(request.member_id)
            answer(_join_error(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        if not group.accepts(request.protocol_type, protocols):
            answer(_join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
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
        """A group that shrank its limit lets nobody new in, and in a rebalance only those who came first."""
        if member_id in group.members:
            if group.is_in(GroupState.PREPARING):
                waiting = sum(member.joining is not None for member in group.members.values())
                return group.members[member_id].joining is None and waiting >= self._limits.size_max
            return False
        return len(group.members) >= self._limits.size_max

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
                    lambda now: self._expire_pending(group, new_id, now),
                )
                answer(_join_error(new_id, ErrorCode.MEMBER_ID_REQUIRED))
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
            answer(_join_error(member.id, error))
            return
        seated = group.members[member.id]
        unchanged = seated.protocols == member.protocols
        stays = group.is_in(GroupState.STABLE) and not group.is_leader(member.id)
        if unchanged and (stays or group.is_in(GroupState.COMPLETING)):
            answer(_join_reply(group, seated))
        elif group.is_in(GroupState.EMPTY):
            answer(_join_error(member.id, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._renew(seated, member)
            self._wait_to_join(group, seated, answer)
            self._rebalance(group, now_ms)

    def _seat(
        self, group: ClassicGroup, member: Member, protocol_type: str, now_ms: int, answer: AnswerJoin
    ) -> None:
        self._timers.cancel(("pending", group.id, member.id))
        if not group.members:
            group.protocol_type = protocol_type
        member.is_new = True
        group.add(member)
        group.new_member_added = True
        # While it waits in a join it sends no heartbeats, but a client that died waiting must not stay for
        # ever.
        self._expect_heartbeat(group, member, now_ms, self._limits.new_member_join_timeout_ms)
        self._wait_to_join(group, member, answer)
        self._rebalance(group, now_ms)

    @staticmethod
    def _renew(seated: Member, member: Member) -> None:
        seated.protocols = member.protocols
        seated.rebalance_timeout_ms = member.rebalance_timeout_ms
        seated.session_timeout_ms = member.session_timeout_ms
        seated.client_id = member.client_id
        seated.client_host = member.client_host

    @staticmethod
    def _wait_to_join(group: ClassicGroup, member: Member, answer: AnswerJoin) -> None:
        if member.joining is not None:
            # The client asked again: only its newest request is answered with the outcome.
            member.joining(_join_error(member.id, ErrorCode.REBALANCE_IN_PROGRESS))
        member.joining = answer

    def _replace_static(
        self,
        group: ClassicGroup,
        member: Member,
        new_id: str,
        features: JoinFeatures,
        now_ms: int,
        answer: AnswerJoin,
    ) -> None:
        """A static member restarted: it takes its seat again, and where nothing else changed nobody
        rebalances.
        """
        seated = group.members[group.static_members[member.instance_id or ""]]
        old_id = seated.id
        unchanged = seated.protocols == member.protocols
        self._fence(group, seated)
        group.replace_static(seated, new_id)
        self._renew(seated, member)
        self._expect_heartbeat(group, seated, now_ms)
        if group.is_in(GroupState.STABLE) and unchanged:
            assignments = {each.id: each.assignment for each in group.members.values()}

            def written(error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    answer(_join_error(new_id, error))
                else:
                    answer(_returning_reply(group, seated, old_id, features))

            self._persist(group, assignments, written)
            return
        if group.is_in(GroupState.COMPLETING) and unchanged:
            answer(_join_reply(group, seated))
            return
        self._wait_to_join(group, seated, answer)
        self._rebalance(group, now_ms)

    def _fence(self, group: ClassicGroup, member: Member) -> None:
        self._timers.cancel(("heartbeat", group.id, member.id))
        if member.joining is not None:
            member.joining(_join_error(member.id, ErrorCode.FENCED_INSTANCE_ID))
            member.joining = None
        if member.syncing is not None:
            member.syncing(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
            member.syncing = None

    # --- the rebalance ------------------------------------------------------------------------------------

    def _rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance, or see whether the one under way can now complete."""
        if group.is_in(GroupState.PREPARING):
            if ("initial", group.id) not in self._timers:
                self._complete_join_if_all_here(group, now_ms)
            return
        if group.is_in(GroupState.COMPLETING):
            self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
            for member in group.members.values():
                member.assignment = b""
        was_empty = group.is_in(GroupState.EMPTY)
        group.pending_sync.clear()
        self._timers.cancel(("sync", group.id))
        group.move(GroupState.PREPARING)
        if was_empty and self._limits.initial_rebalance_delay_ms > 0:
            self._delay_first(group, now_ms, group.rebalance_timeout_ms())
            return
        self._timers.set(
            ("join", group.id),
            now_ms + group.rebalance_timeout_ms(),
            lambda now: self._complete_join(group, now),
        )
        self._complete_join_if_all_here(group, now_ms)

    def _delay_first(self, group: ClassicGroup, now_ms: int, left_ms: int) -> None:
        """An empty group waits a moment for more members, and again while they keep coming (KIP-134)."""
        delay_ms = min(self._limits.initial_rebalance_delay_ms, left_ms)
        group.new_member_added = False

        def look_again(now: int) -> None:
            if group.new_member_added and left_ms > delay_ms:
                self._delay_first(group, now, left_ms - delay_ms)
            else:
                self._complete_join(group, now)

        self._timers.set(("initial", group.id), now_ms + delay_ms, look_again)

    def _complete_join_if_all_here(self, group: ClassicGroup, now_ms: int) -> None:
        if group.all_joined():
            self._complete_join(group, now_ms)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        """The time is up or all are here: who did not come is out (static members keep their seat)."""
        self._timers.cancel(("join", group.id))
        self._timers.cancel(("initial", group.id))
        if not group.is_in(GroupState.PREPARING):
            return
        for member in [each for each in group.members.values() if each.joining is None]:
            if member.instance_id is None:
                self._unseat(group, member.id)
        if group.members and all(member.joining is None for member in group.members.values()):
            # Only absent static members are left: wait on, until one of them comes or its session ends.
            self._timers.set(
                ("join", group.id),
                now_ms + group.rebalance_timeout_ms(),
                lambda now: self._complete_join(group, now),
            )
            return
        group.generation += 1
        group.new_member_added = False
        if group.members:
            self._begin_generation(group, now_ms)
        else:
            self._become_empty(group)

    def _become_empty(self, group: ClassicGroup) -> None:
        group.move(GroupState.EMPTY)
        group.protocol = None
        group.leader_id = None
        self._persist(group, {}, lambda error: None)

    def _begin_generation(self, group: ClassicGroup, now_ms: int) -> None:
        if group.leader_id is None or group.members[group.leader_id].joining is None:
            group.leader_id = next(each.id for each in group.members.values() if each.joining is not None)
        group.protocol = group.choose_protocol()
        group.move(GroupState.COMPLETING)
        group.pending_sync = set(group.members)
        self._timers.set(
            ("sync", group.id),
            now_ms + group.rebalance_timeout_ms(),
            lambda now: self._expire_sync(group, now),
        )
        for member in list(group.members.values()):
            answer, member.joining = member.joining, None
            member.is_new = False
            self._expect_heartbeat(group, member, now_ms)
            if answer is not None:
                answer(_join_reply(group, member))

    # --- SyncGroup ----------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, *, now_ms: int, answer: AnswerSync) -> None:
        """Give a member its share; the leader's request brings the shares of all."""
        group = self.groups.get(request.group_id)
        error = self._check_sync(group, request)
        if group is None or error is not ErrorCode.NONE:
            answer(SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        self._expect_heartbeat(group, member, now_ms)
        group.pending_sync.discard(member.id)
        if group.is_in(GroupState.STABLE):
            answer(_sync_reply(group, member))
            return
        if member.syncing is not None:
            member.syncing(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = answer
        if not group.pending_sync:
            self._timers.cancel(("sync", group.id))
        if group.is_leader(member.id):
            self._take_assignment(group, request, now_ms)

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

    def _take_assignment(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def written(error: ErrorCode) -> None:
            if not group.is_in(GroupState.COMPLETING) or group.generation != generation:
                return  # another rebalance began while this was written: its members will ask again
            if error is not ErrorCode.NONE:
                self._answer_syncs(group, error)
                self._rebalance(group, now_ms)
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.id, b"")
            group.move(GroupState.STABLE)
            self._answer_syncs(group, ErrorCode.NONE)

        self._persist(group, assignments, written)

    @staticmethod
    def _answer_syncs(group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            answer, member.syncing = member.syncing, None
            if answer is not None:
                ok = error is ErrorCode.NONE
                answer(_sync_reply(group, member) if ok else SyncGroupResponse(error_code=error))

    def _expire_sync(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that joined and never asked for their share are out."""
        if not group.is_in(GroupState.COMPLETING, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            self._unseat(group, member_id)
        self._rebalance(group, now_ms)

    # --- Heartbeat ----------------------------------------------------------------------------------------

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
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._expect_heartbeat(group, group.members[request.member_id], now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.PREPARING) else ErrorCode.NONE

    def keep_alive(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """An offset commit proves life as well as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None:
            self._expect_heartbeat(group, member, now_ms)

    def expect_all(self, group: ClassicGroup, now_ms: int) -> None:
        """After loading: every member has one session time-out to show up."""
        for member in group.members.values():
            self._expect_heartbeat(group, member, now_ms)

    def _expect_heartbeat(
        self, group: ClassicGroup, member: Member, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        self._timers.set(
            ("heartbeat", group.id, member.id),
            now_ms + (timeout_ms or member.session_timeout_ms),
            lambda now: self._expire_member(group, member, now),
        )

    def _expire_member(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        if group.members.get(member.id) is not member:
            return
        if not member.is_new and (member.joining is not None or member.syncing is not None):
            # It waits for us, so its silence is ours.
            self._expect_heartbeat(group, member, now_ms)
            return
        self._unseat(group, member.id)
        self._after_leave(group, now_ms)

    def _expire_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        group.pending_ids.discard(member_id)
        self._after_leave(group, now_ms)

    # --- LeaveGroup ---------------------------------------------------------------------------------------

    def leave(self, request: LeaveGroupRequest, *, now_ms: int) -> LeaveGroupResponse:
        """Take members out at once, each with its own result (KIP-345)."""
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(request.group_id)
        members = request.members or [MemberIdentity(member_id=request.member_id)]
        results = [self._leave_one(group, each) for each in members]
        if group is not None and any(result.error_code == ErrorCode.NONE for result in results):
            self._after_leave(group, now_ms)
        error = ErrorCode.NONE if request.members else ErrorCode(results[0].error_code)
        return LeaveGroupResponse(error_code=error, members=results)

    def _leave_one(self, group: ClassicGroup | None, who: MemberIdentity) -> MemberResponse:
        def result(error: ErrorCode) -> MemberResponse:
            return MemberResponse(who.member_id, who.group_instance_id, error)

        if group is None:
            return result(ErrorCode.UNKNOWN_MEMBER_ID)
        if who.group_instance_id is None and who.member_id in group.pending_ids:
            self._timers.cancel(("pending", group.id, who.member_id))
            group.pending_ids.discard(who.member_id)
            return result(ErrorCode.NONE)
        member_id = who.member_id
        if who.group_instance_id is not None and not member_id:
            # An administrator names only the instance.
            member_id = group.static_members.get(who.group_instance_id, "")
        error = group.check_member(member_id, who.group_instance_id)
        if error is ErrorCode.NONE:
            self._unseat(group, member_id)
        return result(error)

    def _unseat(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("heartbeat", group.id, member_id))
        member = group.remove(member_id)
        if member is None:
            return
        if member.joining is not None:
            member.joining(_join_error(member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            member.joining = None
        if member.syncing is not None:
            member.syncing(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            member.syncing = None

    def _after_leave(self, group: ClassicGroup, now_ms: int) -> None:
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING):
            self._rebalance(group, now_ms)
        elif group.is_in(GroupState.PREPARING) and ("initial", group.id) not in self._timers:
            self._complete_join_if_all_here(group, now_ms)

    def forget(self, group: ClassicGroup) -> None:
        """The group is deleted, or its partition moved away: nobody waits for it any more."""
        self._timers.cancel(("join", group.id))
        self._timers.cancel(("initial", group.id))
        self._timers.cancel(("sync", group.id))
        for member_id in list(group.pending_ids):
            self._timers.cancel(("pending", group.id, member_id))
        for member in list(group.members.values()):
            self._timers.cancel(("heartbeat", group.id, member.id))
            if member.joining is not None:
                member.joining(_join_error(member.id, ErrorCode.NOT_COORDINATOR))
            if member.syncing is not None:
                member.syncing(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        group.move(GroupState.DEAD)
        self.groups.pop(group.id, None)


def _join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=member_id, generation_id=NO_GENERATION, protocol_name="", leader=""
    )


def _join_reply(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """Only the leader is told who the members are and what they subscribe to."""
    protocol = group.protocol or ""
    members = []
    if group.is_leader(member.id):
        members = [
            JoinGroupResponseMember(each.id, each.instance_id, each.metadata_for(protocol))
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader_id or "",
        member_id=member.id,
        members=members,
    )


def _returning_reply(
    group: ClassicGroup, member: Member, old_id: str, features: JoinFeatures
) -> JoinGroupResponse:
    """A static leader that comes back must not assign anew: it is told so, or, where its version has no
    word for that, that somebody else leads (KIP-814).
    """
    reply = _join_reply(group, member)
    if group.is_leader(member.id):
        if features.can_skip_assignment:
            reply.skip_assignment = True
        else:
            reply.leader = old_id
            reply.members = []
    return reply


def _sync_reply(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
