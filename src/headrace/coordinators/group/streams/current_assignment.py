"""Reconciliation: one step of a member's current tasks towards its target (Kafka's CurrentAssignmentBuilder).

First it closes what the target no longer has; until its client says so it stays in its epoch. Then it takes
what is free, moves on to the target's epoch, and waits for what others still hold. An active task is free
when nobody runs it; and no task is free for a process that holds it already in another way, since its
threads share one directory for the state of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.streams.member import StreamsGroupMember, StreamsMemberState
from headrace.coordinators.group.streams.tasks import (
    TaskId,
    Tasks,
    TasksTuple,
    TasksTupleWithEpochs,
    have_common,
)

IsFree = Callable[[TaskId], bool]


@dataclass(frozen=True, slots=True)
class FreeTasks:
    """What a member may take now, as an active task or as a copy of its state."""

    active: IsFree
    standby: IsFree


def reconcile(
    member: StreamsGroupMember,
    *,
    target_epoch: int,
    target: TasksTuple,
    free: FreeTasks,
    owned: TasksTuple | None,
) -> StreamsGroupMember:
    """The member after this heartbeat. `owned` is what its client says it has; None is no news."""
    if member.is_reconciled_to(target_epoch):
        return member
    epoch = member.epoch
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if owned is None or have_common(owned, member.pending_revocation.without_epochs()):
            return member
        epoch += 1
    elif member.state is StreamsMemberState.UNKNOWN:
        if owned is None or owned:
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. "
                "The member must abandon all its tasks and rejoin.",
            )
        epoch = target_epoch
    return _next(member, epoch, target_epoch, target, free, owned)


def _next(
    member: StreamsGroupMember,
    epoch: int,
    target_epoch: int,
    target: TasksTuple,
    free: FreeTasks,
    owned: TasksTuple | None,
) -> StreamsGroupMember:
    had = member.assigned
    active = _compare({k: frozenset(v) for k, v in had.active.items()}, target.active, free.active)
    standby = _compare(had.standby, target.standby, free.standby)
    warmup = _compare(had.warmup, target.warmup, free.standby)
    revoked = TasksTuple(active.revoked, standby.revoked, warmup.revoked)
    if revoked and (owned is None or have_common(owned, revoked)):
        return replace(
            member,
            state=StreamsMemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=_with_epochs(had.active, active.kept, standby.kept, warmup.kept, target_epoch),
            pending_revocation=_with_epochs(
                had.active, active.revoked, standby.revoked, warmup.revoked, target_epoch
            ),
        )
    waits = active.waits or standby.waits or warmup.waits
    return replace(
        member,
        state=StreamsMemberState.UNRELEASED_TASKS if waits else StreamsMemberState.STABLE,
        epoch=target_epoch,
        # A member that only waits does not forget the epoch it came from: its client may not know this one.
        previous_epoch=member.epoch if member.epoch != target_epoch else member.previous_epoch,
        assigned=_with_epochs(had.active, active.taken, standby.taken, warmup.taken, target_epoch),
        pending_revocation=TasksTupleWithEpochs(),
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a member has in one way, against what it is to have."""

    kept: Tasks
    revoked: Tasks
    taken: Tasks  # what it keeps, and what is free of the rest of its target
    waits: bool


def _compare(had: Tasks, target: Tasks, is_free: IsFree) -> _Comparison:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    taken: dict[str, frozenset[int]] = {}
    waits = False
    for subtopology_id in sorted(had.keys() | target.keys()):
        has = had.get(subtopology_id, frozenset())
        wanted = target.get(subtopology_id, frozenset())
        free = frozenset(each for each in wanted - has if is_free(TaskId(subtopology_id, each)))
        waits |= free != wanted - has
        for part, tasks in ((kept, has & wanted), (revoked, has - wanted), (taken, has & wanted | free)):
            if tasks:
                part[subtopology_id] = tasks
    return _Comparison(kept, revoked, taken, waits)


def _with_epochs(
    since: Mapping[str, Mapping[int, int]], active: Tasks, standby: Tasks, warmup: Tasks, epoch: int
) -> TasksTupleWithEpochs:
    """Tasks with the epochs they had, or this one."""
    epochs = {
        subtopology_id: {each: since.get(subtopology_id, {}).get(each, epoch) for each in sorted(partitions)}
        for subtopology_id, partitions in active.items()
    }
    return TasksTupleWithEpochs(epochs, standby, warmup)
