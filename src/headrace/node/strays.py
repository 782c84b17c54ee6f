"""Logs on this node's disks that the cluster does not place here."""

import logging

from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.metadata.image import ClusterImage

logger = logging.getLogger(__name__)


def set_strays_aside(store: LogStore, image: ClusterImage, node_id: int) -> None:
    """Logs of topics that were deleted or moved while this node was down are not this node's any more.

    A log whose `partition.metadata` was lost to damage says no id, or one that chance cannot have made so
    like the topic's: its name decides, and the id is written anew.
    """
    for log in list(store.logs()):
        topic = image.topics_by_name.get(log.topic_partition.topic)
        try:
            if topic is None or not is_at_home(log, image, node_id):
                logger.warning("%s is not placed here by the cluster: set aside", log.topic_partition)
                store.mark_stray(log.topic_partition)
            elif log.topic_id != topic.id:
                log.assign_topic_id(topic.id)
        except ApiError as error:
            logger.error("the disk under %s failed: %s", log.topic_partition, error)


def is_at_home(log: PartitionLog, image: ClusterImage, node_id: int) -> bool:
    """Whether the cluster places this log on this node."""
    topic = image.topics_by_name.get(log.topic_partition.topic)
    if topic is None or not _is_or_was(log.topic_id, topic.id):
        return False
    partition = topic.partitions.get(log.topic_partition.partition)
    return partition is not None and node_id in partition.replicas


def _is_or_was(found: TopicId, topic_id: TopicId) -> bool:
    """Whether a log's id is the topic's, as it was written or as a damaged character left it.

    A character stands for six bits. Of two random ids so many bits agree less than once in 10^27.
    """
    unlike = int.from_bytes(found, "big") ^ int.from_bytes(topic_id, "big")
    return found == NO_TOPIC_ID or unlike.bit_count() <= 6
