"""The second round of a cooperative rebalance, without waiting for heartbeats.

Members of a cooperative group keep reading while they rebalance (KIP-429). So it takes two rounds to move a
partition: in the first its owner is told to give it up, in the second another one gets it. The owner begins
the second round, and all others hear of it with their next heartbeat, three seconds after the first.

Here those who have nothing to give up are kept in the first round: their JoinGroup stays unanswered, so they
have joined the second round before it begins. What they said in the first is still true in it, but for the
generation that they name (KIP-792): it becomes that of the first round, as if they had joined again. Who
brings the assignment of the first round cannot be kept: it should be one who has to join again anyway, and
those who own most have to give most. Where it has nothing to give up after all, its SyncGroup waits for the
second round, and is answered that one has begun; so it is for others who could not be kept. A second round
that does not begin soon is not waited for, and nobody is kept in it.

A member that is kept goes on as a member of the generation it knows.
"""

from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.coordinators.group.classic_group import ClassicGroup, Member
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

COOPERATIVE: Final = "cooperative-sticky"
GENERATION_SINCE: Final = 2
# Giving partitions up takes milliseconds unless the user's code, or the machine, takes longer. Who is kept
# cannot commit in some clients, as in any rebalance; with Apache Kafka that lasts as long as it takes all to
# send a heartbeat, which is this with their defaults.
KEPT_MS_MAX: Final = 3_000

Places = frozenset[tuple[str, int]]


def leader_of_first_round(group: ClassicGroup) -> str | None:
    """Who should bring the assignment of a first round: the one most likely to give something up, where the
    first of equals may keep more than the others. None where this is no first round, because members were
    kept in the last one, or because nobody owns anything that could move.
    """
    if group.protocol_type != "consumer" or group.protocol != COOPERATIVE:
        return None
    if any(member.knows is not None for member in group.members.values()):
        return None
    present = [member for member in group.members.values() if member.joining is not None]
    owned = {member.id: len(_owned(member)) for member in present}
    leader = max(owned, key=lambda member_id: (owned[member_id], member_id), default="")
    return leader if owned.get(leader) else None


def must_give_up(group: ClassicGroup, assignments: dict[str, bytes]) -> list[Member]:
    """Members that own what the assignment does not give them."""
    return [
        member
        for member in group.members.values()
        if _owned(member) - _assigned(assignments.get(member.id, b""))
    ]


def owes_second_round(group: ClassicGroup, member: Member) -> bool:
    """Whether others wait for what this member owned when it joined and does not have any more: when it has
    given that up it begins the second round. A process that takes its seat owns nothing, and would not.
    """
    return group.protocol == COOPERATIVE and bool(_owned(member) - _assigned(member.assignment))


def can_be_kept(member: Member) -> bool:
    """Whether its words can be made those of the next generation: not so where an assignor of an old version
    names the generation in bytes of its own.
    """
    metadata = member.metadata_for(COOPERATIVE)
    try:
        subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
        version = _version(metadata)
        if encode_versioned(subscription, version) != metadata:
            return False
    except InvalidBytesError:
        return False
    return version >= GENERATION_SINCE or not subscription.user_data


def name_generation(member: Member, generation: int) -> None:
    """Let what a member said when it joined count for a later generation."""
    member.protocols = tuple(
        (name, _with_generation(metadata, generation) if name == COOPERATIVE else metadata)
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


def _owned(member: Member) -> Places:
    metadata = member.metadata_for(COOPERATIVE)
    try:
        subscription = decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True)
    except InvalidBytesError:
        return frozenset()
    return _places(subscription.owned_partitions)


def _assigned(assignment: bytes) -> Places:
    try:
        decoded = decode_versioned(ConsumerProtocolAssignment, assignment, take_newer=True)
    except InvalidBytesError:
        return frozenset()
    return _places(decoded.assigned_partitions)


def _places(partitions: list[TopicPartition]) -> Places:
    return frozenset((each.topic, index) for each in partitions for index in each.partitions)
