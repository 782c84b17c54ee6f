"""A rebalance of a classic group: from the first member that joins to the assignment that everyone has.

    members join ─► all here, or time is up ─► a generation begins ─► the assignment is written ─► stable

It also has what may start one: a member that stops sending heartbeats, leaves, or never sends SyncGroup.
"""

from collections.abc import Callable, Collection

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group import (
    Assignments,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    fail_awaiting_requests,
    join_reply,
    sync_reply,
)
from headrace.coordinators.group.classic.cooperative_rebalance import (
    HELD_JOIN_MS_MAX,
    can_hold_join,
    leader_of_first_round,
    members_with_revocations,
    set_generation,
)
from headrace.coordinators.group.group_config_manager import ClassicGroupConfig
from headrace.coordinators.timer import CoordinatorTimer
from headrace.wire.schemas.join_group import JoinGroupResponse
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

Persist = Callable[[ClassicGroup, Assignments, Callable[[ErrorCode], None]], None]


class ClassicGroupRebalance:
    """Moves classic groups through their states."""

    def __init__(self, *, limits: ClassicGroupConfig, timer: CoordinatorTimer, persist: Persist) -> None:
        self._limits = limits
        self._timer = timer
        self._persist = persist

    def prepare(self, group: ClassicGroup, now_ms: int, *, for_new_member: bool = False) -> None:
        """Begin a rebalance, or see whether the one under way can now complete."""
        if group.is_in(ClassicGroupState.PREPARING):
            if not self._timer.is_scheduled(("initial", group.id)):
                self._complete_join_if_all_here(group, now_ms)
            elif for_new_member:
                self.extend_initial_rebalance(group, now_ms)
            return
        self._complete_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        if group.is_in(ClassicGroupState.COMPLETING):
            for member in group.members.values():
                member.assignment = b""
        was_empty = group.is_in(ClassicGroupState.EMPTY)
        group.pending_sync_members.clear()
        group.clear_revoking_members()
        self._timer.cancel(("sync", group.id))
        group.transition_to(ClassicGroupState.PREPARING)
        self._timer.cancel(("second", group.id))
        for member in group.members.values():
            member.answer_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
            if member.held_join is not None:
                member.awaiting_join, member.held_join = member.held_join, None
                set_generation(member, group.generation)
        if was_empty:
            # Its first members do not wait for ids that were given and never came back.
            if self._limits.initial_rebalance_delay_ms > 0:
                group.initial_rebalance_end_ms = now_ms + group.rebalance_timeout_ms()
                self._schedule_initial_rebalance(group, now_ms)
            else:
                self._complete_join(group, now_ms)
            return
        self._timer.schedule(
            ("join", group.id),
            now_ms + group.rebalance_timeout_ms(),
            lambda now: self._complete_join(group, now),
        )
        self._complete_join_if_all_here(group, now_ms)

    def extend_initial_rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """A member came, or asked for an id to come with: a group that waits for more members waits on."""
        if self._timer.is_scheduled(("initial", group.id)):
            self._schedule_initial_rebalance(group, now_ms)

    def _schedule_initial_rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """An empty group waits a moment for more members, and from each one on again (KIP-134). Kafka counts
        whole delays from the first member on, so that the last one waits for up to two.
        """
        until_ms = min(now_ms + self._limits.initial_rebalance_delay_ms, group.initial_rebalance_end_ms)
        self._timer.schedule(("initial", group.id), until_ms, lambda now: self._complete_join(group, now))

    def _complete_join_if_all_here(self, group: ClassicGroup, now_ms: int) -> None:
        if group.has_all_members_joined():
            self._complete_join(group, now_ms)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        """The time is up or all are here: remove members that did not come, but for static ones."""
        self._timer.cancel(("join", group.id))
        self._timer.cancel(("initial", group.id))
        if not group.is_in(ClassicGroupState.PREPARING):
            return
        for member in [each for each in group.members.values() if each.awaiting_join is None]:
            if member.instance_id is None:
                self.remove_member(group, member.id)
        if group.members and all(member.awaiting_join is None for member in group.members.values()):
            # Only absent static members are left: wait on, until one of them comes or its session ends.
            self._timer.schedule(
                ("join", group.id),
                now_ms + group.rebalance_timeout_ms(),
                lambda now: self._complete_join(group, now),
            )
            return
        group.generation += 1
        if group.members:
            self._init_next_generation(group, now_ms)
        else:
            self._transition_to_empty(group)

    def _transition_to_empty(self, group: ClassicGroup) -> None:
        group.transition_to(ClassicGroupState.EMPTY)
        group.protocol = None
        group.leader_id = None
        self._persist(group, {}, lambda error: None)

    def _init_next_generation(self, group: ClassicGroup, now_ms: int) -> None:
        if group.leader_id is None or group.members[group.leader_id].awaiting_join is None:
            group.leader_id = next(
                each.id for each in group.members.values() if each.awaiting_join is not None
            )
        group.protocol = group.select_protocol()
        first_round_leader = leader_of_first_round(group)
        group.leader_id = first_round_leader or group.leader_id
        group.transition_to(ClassicGroupState.COMPLETING)
        group.pending_sync_members = set(group.members)
        self._timer.schedule(
            ("sync", group.id),
            now_ms + group.rebalance_timeout_ms(),
            lambda now: self._expire_sync(group, now),
        )
        for member in list(group.members.values()):
            answer, member.awaiting_join = member.awaiting_join, None
            member.is_new = False
            may_hold = first_round_leader is not None and not group.is_leader(member.id)
            if may_hold and answer is not None and can_hold_join(member):
                member.held_join = answer
                member.known_generation = group.generation - 1
                self.reschedule_heartbeat(group, member, now_ms)
            else:
                self._complete_member_join(group, member, answer, now_ms)

    def _complete_member_join(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        answer: Callable[[JoinGroupResponse], None] | None,
        now_ms: int,
    ) -> None:
        member.known_generation = None
        member.good_answer_ms = now_ms
        self.reschedule_heartbeat(group, member, now_ms)
        if answer is not None:
            answer(join_reply(group, member))

    def store_assignment(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def written(error: ErrorCode) -> None:
            if not group.is_in(ClassicGroupState.COMPLETING) or group.generation != generation:
                return  # another rebalance began while this was written: its members will sync again
            if error is not ErrorCode.NONE:
                self._complete_syncs(group, error)
                self.prepare(group, now_ms)
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.id, b"")
            group.transition_to(ClassicGroupState.STABLE)
            self._hand_out_assignments(group, assignments, now_ms)

        self._persist(group, assignments, written)

    def _hand_out_assignments(self, group: ClassicGroup, assignments: Assignments, now_ms: int) -> None:
        """Answer SyncGroups; where a second round will follow, only those of members that begin it."""
        any_join_is_held = any(member.held_join is not None for member in group.members.values())
        revoking_members = members_with_revocations(group, assignments) if any_join_is_held else []
        if not revoking_members:
            self._release_joins(group, now_ms)
            return
        # All of them have their assignments before the first can begin the next round.
        group.revoking_members = {member.id for member in revoking_members}
        group.pending_revoking_members = {
            member.id for member in revoking_members if member.held_join is not None
        }
        self._timer.schedule(
            ("second", group.id), now_ms + HELD_JOIN_MS_MAX, lambda now: self._release_joins(group, now)
        )
        for member in revoking_members:
            self._release_join(group, member, now_ms)
        self.complete_syncs(group)

    def complete_syncs(self, group: ClassicGroup) -> None:
        """Answer waiting SyncGroups, once all members that revoke something have sent theirs. While a second
        round is expected, only those members are answered.
        """
        if not group.pending_revoking_members:
            self._complete_syncs(group, ErrorCode.NONE, group.revoking_members)

    def _release_joins(self, group: ClassicGroup, now_ms: int) -> None:
        group.clear_revoking_members()
        for member in list(group.members.values()):
            self._release_join(group, member, now_ms)
        self._complete_syncs(group, ErrorCode.NONE)

    def _release_join(self, group: ClassicGroup, member: ClassicGroupMember, now_ms: int) -> None:
        held_join, member.held_join = member.held_join, None
        if held_join is not None:
            self._complete_member_join(group, member, held_join, now_ms)

    @staticmethod
    def _complete_syncs(group: ClassicGroup, error: ErrorCode, only: Collection[str] = ()) -> None:
        for member in group.members.values():
            if only and member.id not in only:
                continue
            answer, member.awaiting_sync = member.awaiting_sync, None
            if answer is not None:
                ok = error is ErrorCode.NONE
                answer(sync_reply(group, member) if ok else SyncGroupResponse(error_code=error))

    def _expire_sync(self, group: ClassicGroup, now_ms: int) -> None:
        """Remove members that joined and never sent SyncGroup."""
        if (
            not group.is_in(ClassicGroupState.COMPLETING, ClassicGroupState.STABLE)
            or not group.pending_sync_members
        ):
            return
        for member_id in list(group.pending_sync_members):
            self.remove_member(group, member_id)
        self.prepare(group, now_ms)

    # --- members that come and go ---

    def reschedule_heartbeat(
        self, group: ClassicGroup, member: ClassicGroupMember, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        self._timer.schedule(
            ("heartbeat", group.id, member.id),
            now_ms + (timeout_ms or member.session_timeout_ms),
            lambda now: self._expire_member(group, member, now),
        )

    def _expire_member(self, group: ClassicGroup, member: ClassicGroupMember, now_ms: int) -> None:
        if group.members.get(member.id) is not member:
            return
        if not member.is_new and member.is_awaiting:
            # It waits for us, so its silence is ours.
            self.reschedule_heartbeat(group, member, now_ms)
            return
        self.remove_member(group, member.id)
        self.after_removal(group, now_ms)

    def expire_pending_member(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        group.pending_join_members.discard(member_id)
        self.after_removal(group, now_ms)

    def fence(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        self._timer.cancel(("heartbeat", group.id, member.id))
        fail_awaiting_requests(member, ErrorCode.FENCED_INSTANCE_ID)

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        self._timer.cancel(("heartbeat", group.id, member_id))
        member = group.remove(member_id)
        if member is not None:
            fail_awaiting_requests(member, ErrorCode.UNKNOWN_MEMBER_ID)

    def after_removal(self, group: ClassicGroup, now_ms: int) -> None:
        if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            self.prepare(group, now_ms)
        elif group.is_in(ClassicGroupState.PREPARING) and not self._timer.is_scheduled(("initial", group.id)):
            self._complete_join_if_all_here(group, now_ms)

    def close(self, group: ClassicGroup) -> None:
        """The group is deleted, or its partition moved away: answer all that waits in it."""
        self._timer.cancel(("join", group.id))
        self._timer.cancel(("initial", group.id))
        self._timer.cancel(("sync", group.id))
        self._timer.cancel(("second", group.id))
        for member_id in list(group.pending_join_members):
            self._timer.cancel(("pending", group.id, member_id))
        for member in list(group.members.values()):
            self._timer.cancel(("heartbeat", group.id, member.id))
            fail_awaiting_requests(member, ErrorCode.NOT_COORDINATOR)
        group.transition_to(ClassicGroupState.DEAD)
