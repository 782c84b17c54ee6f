"""Who leads, for replies that tell a client so instead of letting it ask for metadata (KIP-951)."""

from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.metadata.image import ClusterImage

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


def leader_of(image: ClusterImage, topic: str, topic_id: bytes, partition: int) -> Leader | None:
    """The leader as this node knows it; None for a partition it does not know."""
    found = (
        image.topics_by_name.get(topic)
        if topic_id == NO_TOPIC_ID
        else image.topics_by_id.get(TopicId(topic_id))
    )
    known = found.partitions.get(partition) if found is not None else None
    return None if known is None else Leader(known.leader, known.leader_epoch)


def addresses(image: ClusterImage, ids: set[int], listener: str) -> list[NodeAddress]:
    """Where these nodes are, for clients that came through this listener."""
    found = []
    for node_id in sorted(ids):
        broker = image.brokers.get(node_id)
        endpoint = broker.endpoints.get(listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append(NodeAddress(node_id, endpoint.host, endpoint.port, broker.rack))
    return found
