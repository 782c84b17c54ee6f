"""Where a record goes that names no partition.

`StickyPartitioner` is Kafka's default (KIP-480, KIP-794): a key always goes to the partition that every Kafka
producer chooses for it (murmur2); records without one stay with a partition until a batch's worth of bytes
went there, then move on by chance. Adaptive: partitions with fewer waiting batches are likelier.
"""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

from headrace.records.kernels.choice import partition_for_key

Loads = Callable[[str, int], Sequence[int]]
"""How many batches wait for each partition of a topic."""


class Partitioner(Protocol):
    """Chooses partitions. Called under the producer's lock, for every record without a partition."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, count: int, size: int) -> int:
        """A number from 0 to `count` - 1; `size` is about what the record takes."""
        ...


class StickyPartitioner:
    """By key; without one, uniform and sticky."""

    def __init__(
        self,
        rng: random.Random,
        *,
        batch_bytes: int,
        loads: Loads | None = None,
        ignores_keys: bool = False,
    ) -> None:
        self._rng = rng
        self._batch_bytes = max(1, batch_bytes)
        self._loads = loads
        self._ignores_keys = ignores_keys
        self._current: dict[str, list[int]] = {}  # topic -> [partition, bytes left]

    def partition(self, topic: str, key: bytes | None, value: bytes | None, count: int, size: int) -> int:
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, count)
        current = self._current.get(topic)
        if current is None or current[1] <= 0 or current[0] >= count:
            current = self._current[topic] = [self._choose(topic, count), self._batch_bytes]
        current[1] -= size
        return current[0]

    def count(self, topic: str, size: int) -> None:
        """More went to where the topic's records without a key go now."""
        self._current[topic][1] -= size

    def _choose(self, topic: str, count: int) -> int:
        if self._loads is None or count == 1:
            return self._rng.randrange(count)
        loads = self._loads(topic, count)
        most = max(loads) + 1
        return self._rng.choices(range(count), cum_weights=list(accumulate(most - load for load in loads)))[0]


class RoundRobinPartitioner:
    """To each partition in turn, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, value: bytes | None, count: int, size: int) -> int:
        chosen = self._next.get(topic, 0) % count
        self._next[topic] = chosen + 1
        return chosen
