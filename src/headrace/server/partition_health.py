"""What clients are told of a partition: its error, and which of its replicas they should not count on."""

from headrace.base.error_codes import ErrorCode
from headrace.metadata.directories import is_online
from headrace.metadata.image import ClusterImage
from headrace.metadata.topics import PartitionImage


def partition_error(image: ClusterImage, partition: PartitionImage, listener: str) -> ErrorCode:
    """Whether clients of a listener can reach the leader."""
    leader = image.brokers.get(partition.leader)
    if leader is None or leader.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if listener in leader.endpoints else ErrorCode.LISTENER_NOT_FOUND


def offline_replicas(image: ClusterImage, partition: PartitionImage, listener: str) -> list[int]:
    """Replicas on brokers that are gone, fenced, not reachable by this listener, or in a failed directory."""
    return [replica for replica in partition.replicas if not _is_online(image, partition, replica, listener)]


def _is_online(image: ClusterImage, partition: PartitionImage, replica: int, listener: str) -> bool:
    broker = image.brokers.get(replica)
    if broker is None or broker.fenced or listener not in broker.endpoints:
        return False
    directory = partition.directory_of(replica)
    return directory is None or is_online(directory, broker.directories)
