"""The second round of a cooperative rebalance, without waiting for heartbeats.

Members of a cooperative group keep reading while they rebalance (KIP-429). So it takes two rounds to move a
partition: in the first its owner is told to give it up, in the second another one gets it. The owner begins
the second round, and all others hear of it with their next heartbeat, three seconds after the first.

Here the JoinGroup of members that have nothing to revoke is held in the first round, so they have joined the
second round before it begins. What they said in the first is still true in it, but for the generation that
they name (KIP-792): it becomes that of the first round, as if they had joined again. The leader of the first
round cannot be held, since it brings the assignment: it should be one that has to join again anyway, and
those that own most have to give most. Where it has nothing to revoke after all, its SyncGroup waits for the
second round, and is answered that one has begun; the same holds for others whose join could not be held.
Joins are held for a limited time, and not in a second round.

A member whose join is held remains a member of the generation it knows.
"""

from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.coordinators.group.classic.classic_group import ClassicGroup, ClassicGroupMember
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

COOPERATIVE_STICKY: Final = "cooperative-sticky"
GENERATION_SINCE: Final = 2
# Revoking takes milliseconds unless the user's code, or the machine, takes longer. A member whose join is
# held cannot commit in some clients, as in any rebalance; with Apache Kafka that lasts as long as it takes
# all to send a heartbeat, which is this with their defaults.
HELD_JOIN_MS_MAX: Final = 3_000

Partitions = frozenset[tuple[str, int]]


def leader_of_first_round(group: ClassicGroup) -> str | None:
    """The member that should lead a first round: the one most likely to revoke something, where the first of
    equals may keep more than the others. None where this is no first round, because joins were held in the
    last one, or because nobody owns anything that could move.
    """
    if group.protocol_type != "consumer" or group.protocol != COOPERATIVE_STICKY:
        return None
    if any(member.known_generation is not None for member in group.members.values()):
        return None
    present = [member for member in group.members.values() if member.awaiting_join is not None]
    owned = {member.id: len(_owned(member)) for member in present}
    leader = max(owned, key=lambda member_id: (owned[member_id], member_id), default="")
    return leader if owned.get(leader) else None


def members_with_revocations(group: ClassicGroup, assignments: dict[str, bytes]) -> list[ClassicGroupMember]:
    """Members that own what the assignment does not give them."""
    return [
        member
        for member in group.members.values()
        if _owned(member) - _assigned(assignments.get(member.id, b""))
    ]


def owes_second_round(group: ClassicGroup, member: ClassicGroupMember) -> bool:
    """Whether others wait for what this member owned when it joined and does not have any more: when it has
    revoked that it begins the second round. A process that replaces it owns nothing, and would not.
    """
    return group.protocol == COOPERATIVE_STICKY and bool(_owned(member) - _assigned(member.assignment))


def can_hold_join(member: ClassicGroupMember) -> bool:
    """Whether its subscription can be rewritten for the next generation: not so where an assignor of an old
    version names the generation in bytes of its own.
    """
    metadata = member.metadata_for(COOPERATIVE_STICKY)
    try:
        subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
        version = _version(metadata)
        if encode_versioned(subscription, version) != metadata:
            return False
    except InvalidBytesError:
        return False
    return version >= GENERATION_SINCE or not subscription.user_data


def set_generation(member: ClassicGroupMember, generation: int) -> None:
    """Let what a member said when it joined count for a later generation."""
    member.protocols = tuple(
        (name, _with_generation(metadata, generation) if name == COOPERATIVE_STICKY else metadata)
        for name, metadata in member.protocols
    )


def _with_generation(metadata: bytes, generation: int) -> bytes:
    version = _version(metadata)
    if version < GENERATION_SINCE:
        return metadata
    subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
    subscription.generation_id = generation
    return encode_versioned(subscription, version)


def _version(metadata: bytes) -> int:
    return int.from_bytes(metadata[:2], "big", signed=True)


def _owned(member: ClassicGroupMember) -> Partitions:
    metadata = member.metadata_for(COOPERATIVE_STICKY)
    try:
        subscription = decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True)
    except InvalidBytesError:
        return frozenset()
    return _partitions(subscription.owned_partitions)


def _assigned(assignment: bytes) -> Partitions:
    try:
        decoded = decode_versioned(ConsumerProtocolAssignment, assignment, take_newer=True)
    except InvalidBytesError:
        return frozenset()
    return _partitions(decoded.assigned_partitions)


def _partitions(partitions: list[TopicPartition]) -> Partitions:
    return frozenset((each.topic, index) for each in partitions for index in each.partitions)
