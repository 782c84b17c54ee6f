"""How a tiered partition is spread over its leader's disk and the remote store.

Offsets come from ListOffsets, local bytes from DescribeLogDirs of the leader, remote ones from the records of
`__remote_log_metadata`. No request tells where the active segment starts, which is never copied. It is no
larger than `segment.bytes`, so what is only on the disk beyond that is waiting to be copied: the copy lag is
at least that, as Kafka's RemoteCopyLagBytes counts it. `headrace log dump FOLDER` tells it to the byte.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.tiered.metadata_cache import RemoteLogMetadataCache


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
