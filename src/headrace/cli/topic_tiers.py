"""How a tiered topic is spread over its leaders' disks and the remote store, for `topic describe`."""

from typing import TYPE_CHECKING

from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.cli.topic_offsets import local_bytes
from headrace.clients import OffsetSpec, TopicDescription
from headrace.clients.remote_logs import ClusterRemoteLogs
from headrace.clients.tiered_partition import TieredPartition, TierOffsets, spread
from headrace.tiered.segment_metadata import TopicIdPartition

if TYPE_CHECKING:
    from headrace.clients import Admin


def tiers_of(
    admin: "Admin", remote: ClusterRemoteLogs, described: TopicDescription, *, segment_bytes: int
) -> list[TieredPartition]:
    """The partitions of a topic that have a leader."""
    led = {
        TopicPartition(described.name, each.number): each.leader
        for each in described.partitions
        if each.leader >= 0
    }
    if not led:
        return []
    starts, local_starts, tiered, ends = (
        {
            partition: found.offset
            for partition, found in admin.list_offsets(dict.fromkeys(led, place)).items()
        }
        for place in (
            OffsetSpec.EARLIEST,
            OffsetSpec.EARLIEST_LOCAL,
            OffsetSpec.LATEST_TIERED,
            OffsetSpec.LATEST,
        )
    )
    local = local_bytes(admin, led.values())
    topic_id = TopicId(uuid_bytes(described.topic_id))
    logs = remote.of(admin, [TopicIdPartition(topic_id, partition) for partition in led])
    return [
        spread(
            partition.partition,
            TierOffsets(
                starts[partition],
                local_starts[partition],
                max(tiered[partition] + 1, starts[partition]),
                ends[partition],
            ),
            logs[TopicIdPartition(topic_id, partition)],
            local_bytes=local.get((leader, partition)),
            segment_bytes=segment_bytes,
        )
        for partition, leader in sorted(led.items())
    ]
