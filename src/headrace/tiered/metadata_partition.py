"""Which partition of `__remote_log_metadata` holds a partition's records, as Apache Kafka chooses it: murmur2
of what Java's `Objects.hash` makes of the topic's id, not its name, and the partition's number.
"""

from headrace.records.kernel_choice import partition_for_key
from headrace.tiered.remote_segment import TopicIdPartition


def metadata_partition_of(partition: TopicIdPartition, count: int) -> int:
    most, least = (int.from_bytes(partition.topic_id[at : at + 8], "big") for at in (0, 8))
    mixed = 1
    for part in (least ^ (least >> 32), most ^ (most >> 32), partition.topic_partition.partition):
        mixed = (31 * mixed + part) & 0xFFFFFFFF
    return partition_for_key(mixed.to_bytes(4, "big"), count)
