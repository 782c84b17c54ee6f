"""What clients are told out of the image, by the listener that they came through (Kafka's MetadataCache).

Who leads a partition and where, also in replies that spare the client a Metadata request (KIP-951); what is
wrong with a partition, and which of its replicas not to count on.
"""

from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.metadata.directory_id import is_online
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage

LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""After these a client needs to know the leader."""


class Leader(NamedTuple):
    """A partition's leader and the epoch it leads in."""

    id: int
    epoch: int


class NodeAddress(NamedTuple):
    """Where a client reaches a node."""

    id: int
    host: str
    port: int
    rack: str | None


def leader_of(image: MetadataImage, topic: str, topic_id: bytes, partition: int) -> Leader | None:
    """The leader as this node knows it; None for a partition it does not know."""
    found = (
        image.topics_by_name.get(topic)
        if topic_id == NO_TOPIC_ID
        else image.topics_by_id.get(TopicId(topic_id))
    )
    known = found.partitions.get(partition) if found is not None else None
    return None if known is None else Leader(known.leader, known.leader_epoch)


def addresses(image: MetadataImage, ids: set[int], listener: str) -> list[NodeAddress]:
    """Where these nodes are, for clients that came through this listener."""
    found = []
    for node_id in sorted(ids):
        broker = image.brokers.get(node_id)
        endpoint = broker.endpoints.get(listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append(NodeAddress(node_id, endpoint.host, endpoint.port, broker.rack))
    return found


def partition_error(image: MetadataImage, partition: PartitionImage, listener: str) -> ErrorCode:
    """Whether clients of a listener can reach the leader."""
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if listener in leader.endpoints else ErrorCode.LISTENER_NOT_FOUND


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    """Replicas on brokers that are gone, fenced, not reachable by this listener, or in a failed directory."""
    return [replica for replica in partition.replicas if not _is_online(image, partition, replica, listener)]


def _is_online(image: MetadataImage, partition: PartitionImage, replica: int, listener: str) -> bool:
    broker = image.brokers.get(replica)
    if broker is None or broker.fenced or listener not in broker.endpoints:
        return False
    directory = partition.directory_of(replica)
    return directory is None or is_online(directory, broker.directories)
