"""How a tiered topic is spread over its leaders' disks and the remote store, for `headrace topic describe`.

Offsets come from ListOffsets, local bytes from DescribeLogDirs of each leader, remote ones from the records
of `__remote_log_metadata`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.clients.administering.topics import TopicDescription
from headrace.clients.places import Place
from headrace.clients.remote_logs import ClusterRemoteLogs
from headrace.tiered.remote_segment import SegmentState, TopicIdPartition

if TYPE_CHECKING:
    from headrace.clients import Admin


class Tiers(NamedTuple):
    """One partition: its offsets [start, end), of which [local_start, end) lie on its leader's disk and
    [start, tiered_to) in the remote store.
    """

    partition: int
    start: int
    local_start: int
    tiered_to: int
    end: int
    local_bytes: int | None
    remote_bytes: int
    remote_segments: int

    @property
    def copy_lag(self) -> int:
        """Offsets that are only on the brokers' disks; those of the active segment always are."""
        return self.end - max(self.tiered_to, self.start)


def tiers_of(admin: "Admin", remote: ClusterRemoteLogs, described: TopicDescription) -> list[Tiers]:
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
            for partition, found in admin.find_offsets(dict.fromkeys(led, place)).items()
        }
        for place in (Place.EARLIEST, Place.EARLIEST_LOCAL, Place.LATEST_TIERED, Place.LATEST)
    )
    local = _local_bytes(admin, led.values())
    topic_id = TopicId(uuid_bytes(described.topic_id))
    logs = remote.of(admin, [TopicIdPartition(topic_id, partition) for partition in led])
    found = []
    for partition, leader in sorted(led.items()):
        finished = logs[TopicIdPartition(topic_id, partition)].in_states(SegmentState.COPY_FINISHED)
        found.append(
            Tiers(
                partition=partition.partition,
                start=starts[partition],
                local_start=local_starts[partition],
                tiered_to=max(tiered[partition] + 1, starts[partition]),
                end=ends[partition],
                local_bytes=local.get((leader, partition)),
                remote_bytes=sum(each.size for each in finished),
                remote_segments=len(finished),
            )
        )
    return found


def _local_bytes(admin: "Admin", nodes: Iterable[int]) -> dict[tuple[int, TopicPartition], int]:
    return {
        (node, partition): size
        for node in sorted(set(nodes))
        for log_dir in admin.describe_log_dirs(node)
        for partition, size in log_dir.partitions.items()
    }
