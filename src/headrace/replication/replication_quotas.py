"""Replication quotas: what replicas that are being moved may take of the network (KIP-73), Kafka's
ReplicationQuotaManager.

A topic names the throttled ones (`leader.replication.throttled.replicas` and the follower's, as
PARTITION:BROKER, or * for all), a broker says how many bytes a second they share
(`leader.replication.throttled.rate` and the follower's). Replicas in sync are never held back: they are what
acks=all waits for. Where nothing is throttled, asking costs a look at an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.log.throttler import Throttler
from headrace.replication.partition import Partition

ALL: Final = "*"


def is_named(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a list of throttled replicas has this one."""
    return bool(replicas) and (ALL in replicas or f"{partition}:{broker_id}" in replicas)


class ReplicaQuota:
    """What bounds the fetcher besides its limits: by default nothing."""

    def allows(self, partition: Partition, now_ms: int) -> bool:
        """Whether more of this partition may be fetched now."""
        return True

    def note(self, partition: Partition, size: int, now_ms: int) -> None:
        """So many bytes of it came."""


class FollowerReplicationQuota(ReplicaQuota):
    """Of what this node fetches."""

    def __init__(self, node_id: int, bytes_per_second: Callable[[], int]) -> None:
        self._node_id = node_id
        self._allowance = Throttler(bytes_per_second)

    def _holds(self, partition: Partition) -> bool:
        log = partition.log
        if log is None or not log.config.follower_replication_throttled_replicas:
            return False
        names = log.config.follower_replication_throttled_replicas
        return is_named(
            names, partition.topic_partition.partition, self._node_id
        ) and not partition.is_in_sync(self._node_id)

    def allows(self, partition: Partition, now_ms: int) -> bool:
        return not self._holds(partition) or not self._allowance.is_used_up(now_ms)

    def note(self, partition: Partition, size: int, now_ms: int) -> None:
        if self._holds(partition):
            self._allowance.take(size)


class LeaderReplicationQuota:
    """Of what other nodes fetch from this one."""

    def __init__(self, node_id: int, bytes_per_second: Callable[[], int]) -> None:
        self._node_id = node_id
        self._allowance = Throttler(bytes_per_second)

    def holds(self, partition: Partition, follower: int) -> bool:
        """Whether this follower's share of the partition is throttled at all."""
        log = partition.log
        if log is None or not log.config.leader_replication_throttled_replicas:
            return False
        names = log.config.leader_replication_throttled_replicas
        return is_named(
            names, partition.topic_partition.partition, self._node_id
        ) and not partition.is_in_sync(follower)

    def is_used_up(self, now_ms: int) -> bool:
        return self._allowance.is_used_up(now_ms)

    def note(self, size: int) -> None:
        self._allowance.take(size)
