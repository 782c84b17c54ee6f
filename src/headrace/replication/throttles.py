"""Throttles of replication: what replicas that are being moved may take of the network (KIP-73).

A topic names the throttled ones (`leader.replication.throttled.replicas` and the follower's, as
PARTITION:BROKER, or * for all), a broker says how many bytes a second they share
(`leader.replication.throttled.rate` and the follower's). Replicas in sync are never held back: they are what
acks=all waits for. Where nothing is throttled, asking costs a look at an empty list.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headrace.replication.fetcher import Throttle
from headrace.replication.partition import Partition

ALL: Final = "*"
BURST_S: Final = 1.0
"""What was not used is kept for this long."""


def is_named(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a list of throttled replicas has this one."""
    return bool(replicas) and (ALL in replicas or f"{partition}:{broker_id}" in replicas)


class Allowance:
    """Bytes that may pass: they come at a rate, which may change, and are taken after the fact."""

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._rate = bytes_per_second
        self._left = 0.0
        self._at_ms: int | None = None

    def is_used_up(self, now_ms: int) -> bool:
        rate = self._rate()
        if self._at_ms is None:
            self._left = rate * BURST_S
        else:
            self._left = min(self._left + rate * (now_ms - self._at_ms) / 1000, rate * BURST_S)
        self._at_ms = now_ms
        return self._left <= 0

    def take(self, size: int) -> None:
        self._left -= size


class FollowerThrottle(Throttle):
    """Of what this node fetches."""

    def __init__(self, node_id: int, bytes_per_second: Callable[[], int]) -> None:
        self._node_id = node_id
        self._allowance = Allowance(bytes_per_second)

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


class LeaderThrottle:
    """Of what other nodes fetch from this one."""

    def __init__(self, node_id: int, bytes_per_second: Callable[[], int]) -> None:
        self._node_id = node_id
        self._allowance = Allowance(bytes_per_second)

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
