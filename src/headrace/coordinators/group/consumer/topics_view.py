"""What a group must know of the topics it reads: how many partitions, and in which racks their replicas are.

A hash of that stands for all of it in the group's record (KIP-1101): when it changes, so must the assignment.
"""

from collections.abc import Iterable
from hashlib import blake2b

from headrace.metadata.image import ClusterImage
from headrace.metadata.topics import TopicImage

Racks = tuple[frozenset[str], ...]


def racks_of(image: ClusterImage, topic: TopicImage) -> Racks:
    """The racks that hold a replica, for each partition in order; none where brokers have no racks."""
    racks = {node_id: broker.rack for node_id, broker in image.brokers.items() if broker.rack}
    if not racks:
        return (frozenset(),) * len(topic.partitions)
    return tuple(
        frozenset(racks[node_id] for node_id in topic.partitions[index].replicas if node_id in racks)
        for index in sorted(topic.partitions)
    )


def metadata_hash(image: ClusterImage, names: Iterable[str]) -> int:
    """A signed 64-bit number that differs when ids, partitions or racks of these topics do; 0 without any."""
    there = [(name, image.topics_by_name[name]) for name in sorted(names) if name in image.topics_by_name]
    if not there:
        return 0
    digest = blake2b(digest_size=8)
    for name, topic in there:
        digest.update(b"%b\0%b%d\0" % (name.encode(), topic.id, len(topic.partitions)))
        for racks in racks_of(image, topic):
            digest.update("\1".join(sorted(racks)).encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True)
