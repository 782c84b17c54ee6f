"""What members of the classic protocol say of themselves, and what they are told, in their own bytes.

Their subscription comes inside JoinGroup and their assignment goes out inside SyncGroup, both with topics by
name; a consumer group keeps topic ids.
"""

from collections.abc import Iterable, Mapping

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId
from headrace.coordinators.group.consumer.consumer_group import Slot
from headrace.coordinators.group.consumer.member import ConsumerMember
from headrace.metadata.image import ClusterImage
from headrace.wire.notation import schema_of
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

CONSUMER_TYPE = "consumer"
"""The protocol type of classic groups that can become consumer groups."""


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """None where the bytes follow a protocol of the client's own."""
    try:
        return decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True)
    except InvalidBytesError:
        return None


def read_assignment(assignment: bytes, image: ClusterImage) -> dict[bytes, set[int]]:
    """Partitions by topic id; topics that are gone are left out. Empty where there is no assignment yet."""
    if not assignment:
        return {}
    try:
        decoded = decode_versioned(ConsumerProtocolAssignment, assignment, take_newer=True)
    except InvalidBytesError:
        return {}
    return by_id(decoded.assigned_partitions, image)


def by_id(partitions: Iterable[TopicPartition], image: ClusterImage) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for each in partitions:
        topic = image.topics_by_name.get(each.topic)
        if topic is not None:
            found.setdefault(topic.id, set()).update(each.partitions)
    return found


def owned_slots(subscription: ConsumerProtocolSubscription, image: ClusterImage) -> frozenset[Slot]:
    """What a member that joins still reads: a client that rebalances eagerly has let go of everything."""
    owned = by_id(subscription.owned_partitions, image)
    return frozenset((topic_id, index) for topic_id, indexes in owned.items() for index in indexes)


def write_assignment(member: ConsumerMember, image: ClusterImage) -> bytes:
    """A member's partitions, in the version that its own subscription has."""
    partitions = [
        TopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(member.assigned.items())
        if (topic := image.topics_by_id.get(TopicId(topic_id))) is not None
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=partitions), _version_of(member))


def _version_of(member: ConsumerMember) -> int:
    protocols = member.classic.supported_protocols if member.classic is not None else []
    newest = schema_of(ConsumerProtocolAssignment).versions[-1]
    if not protocols or len(protocols[0].metadata) < 2:
        return 0
    return min(newest, max(0, int.from_bytes(protocols[0].metadata[:2], "big", signed=True)))


def common_protocols(protocols: Iterable[Mapping[str, bytes]]) -> set[str]:
    """Names that all members support."""
    names = [set(each) for each in protocols]
    return set.intersection(*names) if names else set()
