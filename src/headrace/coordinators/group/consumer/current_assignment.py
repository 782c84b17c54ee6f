"""Reconciliation: one step of a member's current assignment towards its target (Kafka's
CurrentAssignmentBuilder).

First it revokes what the target no longer has; until its client says so it stays in its epoch. Then it takes
what is free, moves on to the target's epoch, and waits for what others still hold. So a partition has
at most one reader at any time, and those that stay where they are never stop.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from headrace.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    PartitionId,
    Partitions,
    PartitionsWithEpochs,
)

IsFree = Callable[[PartitionId], bool]


def reconcile(
    member: ConsumerGroupMember,
    *,
    target_epoch: int,
    target: Partitions,
    is_free: IsFree,
    owned: Collection[PartitionId] | None,
) -> ConsumerGroupMember:
    """The member after this heartbeat. `owned` is what its client says it reads; None is no news.

    `is_free` tells whether nobody but this member owns a partition.
    """
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_revoked_partitions(owned, member.pending_revocation):
            return member
    elif member.is_reconciled_to(target_epoch):
        return member
    return _compute_next_assignment(member, target_epoch, target, is_free, owned)


def _compute_next_assignment(
    member: ConsumerGroupMember,
    target_epoch: int,
    target: Partitions,
    is_free: IsFree,
    owned: Collection[PartitionId] | None,
) -> ConsumerGroupMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    for topic_id, assigned in member.assigned.items():
        wanted = target.get(topic_id, frozenset[int]())
        for partition, epoch in assigned.items():
            part = kept if partition in wanted else revoked
            part.setdefault(topic_id, {})[partition] = epoch
    if revoked and _owns_revoked_partitions(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    waits = False
    for topic_id, wanted in target.items():
        for partition in sorted(wanted - kept.get(topic_id, {}).keys()):
            if is_free((topic_id, partition)):
                kept.setdefault(topic_id, {})[partition] = target_epoch
            else:
                waits = True
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        epoch=target_epoch,
        # A member that only waits does not forget the epoch it came from: its client may not know this one.
        previous_epoch=member.epoch if member.epoch != target_epoch else member.previous_epoch,
        assigned=kept,
        pending_revocation={},
    )


def _owns_revoked_partitions(
    owned: Collection[PartitionId] | None, pending_revocation: PartitionsWithEpochs
) -> bool:
    """A client that says nothing of its partitions has not revoked any."""
    if owned is None:
        return True
    return any(
        (topic_id, partition) in owned
        for topic_id, partitions in pending_revocation.items()
        for partition in partitions
    )
