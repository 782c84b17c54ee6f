"""A rebalance: from the first member that joins to the assignment that everyone has.

    members join ─► all here, or time is up ─► a generation begins ─► the assignment is written ─► stable

It also holds what may start one: a member that falls silent, leaves, or never asks for its share.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.group.classic_replies import join_reply, sync_reply, turn_away
from headrace.coordinators.group.second_rounds import (
    KEPT_MS_MAX,
    can_be_kept,
    leader_of_first_round,
    must_give_up,
    name_generation,
)
from headrace.coordinators.timers import Timers
from headrace.wire.schemas.join_group import JoinGroupResponse
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

Assignments = dict[str, bytes]
Persist = Callable[[ClassicGroup, Assignments, Callable[[ErrorCode], None]], None]


@dataclass(frozen=True, slots=True)
class ClassicLimits:
    """The broker's settings for classic groups; see `group.*` in the settings room."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000


class Rebalances:
    """Moves classic groups through their states."""

    def __init__(self, *, limits: ClassicLimits, timers: Timers, persist: Persist) -> None:
        self._limits = limits
        self._timers = timers
        self._persist = persist

    def begin(self, group: ClassicGroup, now_ms: int, *, for_new_member: bool = False) -> None:
        """Begin a rebalance, or see whether the one under way can now complete."""
        if group.is_in(GroupState.PREPARING):
            if ("initial", group.id) not in self._timers:
                self._complete_join_if_all_here(group, now_ms)
            elif for_new_member:
                self.expect_more(group, now_ms)
            return
        self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        if group.is_in(GroupState.COMPLETING):
            for member in group.members.values():
                member.assignment = b""
        was_empty = group.is_in(GroupState.EMPTY)
        group.pending_sync.clear()
        group.forget_givers()
        self._timers.cancel(("sync", group.id))
        group.move(GroupState.PREPARING)
        self._timers.cancel(("second", group.id))
        for member in group.members.values():
            member.tell(ErrorCode.REBALANCE_IN_PROGRESS)
            if member.kept is not None:
                member.joining, member.kept = member.kept, None
                name_generation(member, group.generation)
        if was_empty:
            # Its first members do not wait for ids that were given and never came back.
            if self._limits.initial_rebalance_delay_ms > 0:
                group.first_until_ms = now_ms + group.rebalance_timeout_ms()
                self._wait_for_more(group, now_ms)
            else:
                self._complete_join(group, now_ms)
            return
        self._timers.set(
            ("join", group.id),
            now_ms + group.rebalance_timeout_ms(),
            lambda now: self._complete_join(group, now),
        )
        self._complete_join_if_all_here(group, now_ms)

    def expect_more(self, group: ClassicGroup, now_ms: int) -> None:
        """A member came, or asked for an id to come with: a group that waits for more members waits on."""
        if ("initial", group.id) in self._timers:
            self._wait_for_more(group, now_ms)

    def _wait_for_more(self, group: ClassicGroup, now_ms: int) -> None:
        """An empty group waits a moment for more members, and from each one on again (KIP-134). Kafka counts
        whole delays from the first member on, so that the last one waits for up to two.
        """
        until_ms = min(now_ms + self._limits.initial_rebalance_delay_ms, group.first_until_ms)
        self._timers.set(("initial", group.id), until_ms, lambda now: self._complete_join(group, now))

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
                self.unseat(group, member.id)
        if group.members and all(member.joining is None for member in group.members.values()):
            # Only absent static members are left: wait on, until one of them comes or its session ends.
            self._timers.set(
                ("join", group.id),
                now_ms + group.rebalance_timeout_ms(),
                lambda now: self._complete_join(group, now),
            )
            return
        group.generation += 1
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
        first_leader = leader_of_first_round(group)
        group.leader_id = first_leader or group.leader_id
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
            may_keep = first_leader is not None and not group.is_leader(member.id)
            if may_keep and answer is not None and can_be_kept(member):
                member.kept = answer
                member.knows = group.generation - 1
                self.expect_heartbeat(group, member, now_ms)
            else:
                self._tell_generation(group, member, answer, now_ms)

    def _tell_generation(
        self,
        group: ClassicGroup,
        member: Member,
        answer: Callable[[JoinGroupResponse], None] | None,
        now_ms: int,
    ) -> None:
        member.knows = None
        member.assured_ms = now_ms
        self.expect_heartbeat(group, member, now_ms)
        if answer is not None:
            answer(join_reply(group, member))

    def take_assignment(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def written(error: ErrorCode) -> None:
            if not group.is_in(GroupState.COMPLETING) or group.generation != generation:
                return  # another rebalance began while this was written: its members will ask again
            if error is not ErrorCode.NONE:
                self._answer_syncs(group, error)
                self.begin(group, now_ms)
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.id, b"")
            group.move(GroupState.STABLE)
            self._give_out(group, assignments, now_ms)

        self._persist(group, assignments, written)

    def _give_out(self, group: ClassicGroup, assignments: Assignments, now_ms: int) -> None:
        """Let members have their shares; where a second round will follow, who it does not touch is kept."""
        anybody_is_kept = any(member.kept is not None for member in group.members.values())
        givers = must_give_up(group, assignments) if anybody_is_kept else []
        if not givers:
            self._let_go(group, now_ms)
            return
        # All of them have their shares before the first can begin the next round.
        group.givers = {member.id for member in givers}
        group.pending_givers = {member.id for member in givers if member.kept is not None}
        self._timers.set(("second", group.id), now_ms + KEPT_MS_MAX, lambda now: self._let_go(group, now))
        for member in givers:
            self._let_go_one(group, member, now_ms)
        self.give_shares(group)

    def give_shares(self, group: ClassicGroup) -> None:
        """Answer who has asked for a share of what is assigned, if all are here who must be. While a second
        round is waited for, only those have it who begin that.
        """
        if not group.pending_givers:
            self._answer_syncs(group, ErrorCode.NONE, group.givers)

    def _let_go(self, group: ClassicGroup, now_ms: int) -> None:
        group.forget_givers()
        for member in list(group.members.values()):
            self._let_go_one(group, member, now_ms)
        self._answer_syncs(group, ErrorCode.NONE)

    def _let_go_one(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        kept, member.kept = member.kept, None
        if kept is not None:
            self._tell_generation(group, member, kept, now_ms)

    @staticmethod
    def _answer_syncs(group: ClassicGroup, error: ErrorCode, only: Collection[str] = ()) -> None:
        for member in group.members.values():
            if only and member.id not in only:
                continue
            answer, member.syncing = member.syncing, None
            if answer is not None:
                ok = error is ErrorCode.NONE
                answer(sync_reply(group, member) if ok else SyncGroupResponse(error_code=error))

    def _expire_sync(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that joined and never asked for their share are out."""
        if not group.is_in(GroupState.COMPLETING, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            self.unseat(group, member_id)
        self.begin(group, now_ms)

    # --- members that come and go ---

    def expect_heartbeat(
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
        if not member.is_new and member.waits_for_others:
            # It waits for us, so its silence is ours.
            self.expect_heartbeat(group, member, now_ms)
            return
        self.unseat(group, member.id)
        self.after_leave(group, now_ms)

    def expire_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        group.pending_ids.discard(member_id)
        self.after_leave(group, now_ms)

    def fence(self, group: ClassicGroup, member: Member) -> None:
        self._timers.cancel(("heartbeat", group.id, member.id))
        turn_away(member, ErrorCode.FENCED_INSTANCE_ID)

    def unseat(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("heartbeat", group.id, member_id))
        member = group.remove(member_id)
        if member is not None:
            turn_away(member, ErrorCode.UNKNOWN_MEMBER_ID)

    def after_leave(self, group: ClassicGroup, now_ms: int) -> None:
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING):
            self.begin(group, now_ms)
        elif group.is_in(GroupState.PREPARING) and ("initial", group.id) not in self._timers:
            self._complete_join_if_all_here(group, now_ms)

    def forget(self, group: ClassicGroup) -> None:
        """The group is deleted, or its partition moved away: nobody waits for it any more."""
        self._timers.cancel(("join", group.id))
        self._timers.cancel(("initial", group.id))
        self._timers.cancel(("sync", group.id))
        self._timers.cancel(("second", group.id))
        for member_id in list(group.pending_ids):
            self._timers.cancel(("pending", group.id, member_id))
        for member in list(group.members.values()):
            self._timers.cancel(("heartbeat", group.id, member.id))
            turn_away(member, ErrorCode.NOT_COORDINATOR)
        group.move(GroupState.DEAD)
