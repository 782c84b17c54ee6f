"""How a tiered topic is spread over its leaders' disks and the remote store, for `headrace topic describe`.

Offsets come from ListOffsets, local bytes from DescribeLogDirs of each leader, remote ones from the records
of `__remote_log_metadata`. No request tells where the active segment starts, which is never copied. It is no
larger than `segment.bytes`, so what is only on the disk beyond that is waiting to be copied: the copy lag is
at least that, as Kafka's RemoteCopyLagBytes counts it. `headrace log dump FOLDER` tells it to the byte.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.cli.topic_offsets import local_bytes
from headrace.clients import OffsetSpec, TopicDescription
from headrace.clients.remote_logs import ClusterRemoteLogs
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import TopicIdPartition

if TYPE_CHECKING:
    from headrace.clients import Admin


class TierOffsets(NamedTuple):
    """One partition's offsets [start, end), of which [local_start, end) lie on its leader's disk and
    [start, tiered_to) in the remote store.
    """

    start: int
    local_start: int
    tiered_to: int
    end: int


class TieredPartition(NamedTuple):
    """One partition. `only_local` are offsets that no copy has, those of the active segment among them;
    `copy_lag_bytes` are theirs beyond one segment.
    """

    partition: int
    start: int
    local_start: int
    tiered_to: int
    end: int
    local_bytes: int | None
    remote_bytes: int
    remote_segments: int
    only_local: int
    only_local_bytes: int | None
    copy_lag_bytes: int | None


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


def spread(
    partition: int,
    offsets: TierOffsets,
    remote: RemoteLogMetadataCache,
    *,
    local_bytes: int | None,
    segment_bytes: int,
) -> TieredPartition:
    """One partition's tiers. Copies whose place another has taken are on their way out, and do not count."""
    copies = remote.finished()
    only_local_bytes = copy_lag_bytes = None
    if local_bytes is not None:
        in_both = sum(each.size for each in copies if each.start_offset >= offsets.local_start)
        # Of a compacted topic the two tiers are cleaned at different times, and in_both is not quite known.
        only_local_bytes = max(0, local_bytes - in_both)
        copy_lag_bytes = max(0, only_local_bytes - segment_bytes)
    return TieredPartition(
        partition,
        *offsets,
        local_bytes=local_bytes,
        remote_bytes=sum(each.size for each in copies),
        remote_segments=len(copies),
        only_local=max(0, offsets.end - max(offsets.tiered_to, offsets.start)),
        only_local_bytes=only_local_bytes,
        copy_lag_bytes=copy_lag_bytes,
    )


def segment_bytes_of(settings: Mapping[str, str | None]) -> int:
    """Of a topic's settings, those of its own and those of the brokers'."""
    return int(settings.get("internal.segment.bytes") or settings.get("segment.bytes") or 0)
