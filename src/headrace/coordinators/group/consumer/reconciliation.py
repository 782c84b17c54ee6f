"""One step of a member towards its target.

First it lets go of what the target no longer has; until its client says so it stays in its epoch. Then it
takes what is free, moves on to the target's epoch, and waits for what others still hold. So a partition has
at most one reader at any time, and those that stay where they are never stop.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from headrace.coordinators.group.consumer.consumer_group import Slot
from headrace.coordinators.group.consumer.member import ConsumerMember, MemberState, Owned, Partitions

IsFree = Callable[[Slot], bool]


def next_step(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Partitions,
    is_free: IsFree,
    held: Collection[Slot] | None,
) -> ConsumerMember:
    """The member after this heartbeat. `held` is what its client says it reads; None is no news.

    `is_free` tells whether nobody but this member owns a partition.
    """
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_holds(held, member.revoking):
            return member
    elif member.is_settled_at(target_epoch):
        return member
    return _towards(member, target_epoch, target, is_free, held)


def _towards(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    is_free: IsFree,
    held: Collection[Slot] | None,
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    for topic_id, owned in member.assigned.items():
        wanted = target.get(topic_id, frozenset[int]())
        for partition, epoch in owned.items():
            part = kept if partition in wanted else revoked
            part.setdefault(topic_id, {})[partition] = epoch
    if revoked and _still_holds(held, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoked,
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
        revoking={},
    )


def _still_holds(held: Collection[Slot] | None, revoking: Owned) -> bool:
    """A client that says nothing of its partitions has not let go."""
    if held is None:
        return True
    return any(
        (topic_id, partition) in held for topic_id, partitions in revoking.items() for partition in partitions
    )
