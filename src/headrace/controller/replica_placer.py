"""Where the replicas of new partitions go.

Racks come first: replicas of a partition go round the racks, so that they share one only when there are
fewer racks than replicas. Within a rack brokers take turns. Each partition starts one rack and one broker
further than the one before, from a start drawn at random, so that leaders spread and, when a broker fails,
its leaders spread again. Where a rack's brokers are as many as the racks, or a multiple, the lead would come
to the same broker each time that it comes round to the rack (in Kafka it does): so after each round the
brokers are a step further. After as many partitions as there are live brokers, racks and brokers are
shuffled, lest the pattern repeat.

Fenced brokers may hold replicas when there are not enough others, but a leader is never put on one.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import count as numbers
from math import gcd

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.brokers import BrokerRegistration


def place(
    brokers: Iterable[BrokerRegistration], *, partitions: int, replication_factor: int, rng: random.Random
) -> list[list[int]]:
    """The replicas of each new partition, its first leader in front. INVALID_REPLICATION_FACTOR if
    impossible.
    """
    usable = [broker for broker in brokers if not broker.in_controlled_shutdown and not broker.is_cordoned]
    live = sum(not broker.fenced for broker in usable)
    if replication_factor <= 0:
        raise _impossible("Invalid replication factor: the replication factor must be positive.")
    if not live:
        raise _impossible("All brokers are currently fenced.")
    if replication_factor > len(usable):
        raise _impossible(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(usable, rng)
    return [racks.next_partition(replication_factor) for _ in range(partitions)]


def _impossible(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


class _Turns:
    """Brokers in turn: each partition's turn begins one broker later than the last."""

    def __init__(self, ids: Iterable[int], rng: random.Random) -> None:
        self.ids = sorted(ids)
        self.start = rng.randrange(len(self.ids)) if self.ids else 0

    def in_turn(self) -> Iterator[int]:
        """All brokers once, from where this partition begins."""
        count = len(self.ids)
        first = self.start
        self.start = (self.start + 1) % count if count else 0
        # Drawn one by one: a partition needs three of what may be hundreds.
        return (self.ids[(first + step) % count] for step in range(count))

    def end_round(self, racks: int) -> None:
        """Each rack has had the lead once: the next time it comes to another broker, and to each in turn."""
        if count := len(self.ids):
            more = next(step for step in numbers() if gcd(racks + step, count) == 1)
            self.start = (self.start + more) % count


class _Racks:
    def __init__(self, brokers: list[BrokerRegistration], rng: random.Random) -> None:
        self._rng = rng
        # A broker without a rack stands in one that sorts before all others.
        self._names = sorted({broker.rack or "" for broker in brokers})
        self._live = {name: _Turns(_ids(brokers, name, fenced=False), rng) for name in self._names}
        self._fenced = {name: _Turns(_ids(brokers, name, fenced=True), rng) for name in self._names}
        self._live_count = sum(not broker.fenced for broker in brokers)
        self._start = rng.randrange(len(self._names))
        self._placed = 0

    def next_partition(self, replication_factor: int) -> list[int]:
        if self._placed == self._live_count and self._live_count > 1:
            self._shuffle()
            self._placed = 0
        count = len(self._names)
        order = [self._names[(self._start + step) % count] for step in range(count)]
        self._start = (self._start + 1) % count
        self._placed += 1
        chosen = self._take(order, replication_factor)
        if self._placed % count == 0:
            for turns in self._live.values():
                turns.end_round(count)
        return chosen

    def _take(self, order: list[str], replication_factor: int) -> list[int]:
        live = {name: self._live[name].in_turn() for name in order}
        fenced = {name: self._fenced[name].in_turn() for name in order}
        chosen: list[int] = []
        leader_rack = next(name for name in order if self._live[name].ids)
        chosen.append(next(live[leader_rack]))
        # The leader's rack has had its turn in the first round.
        waiting = [name for name in order if name != leader_rack]
        while len(chosen) < replication_factor:
            for name in waiting:
                broker = next(live[name], None)
                if broker is None:
                    broker = next(fenced[name], None)
                if broker is not None and len(chosen) < replication_factor:
                    chosen.append(broker)
            waiting = order
        return chosen

    def _shuffle(self) -> None:
        self._rng.shuffle(self._names)
        for turns in (*self._live.values(), *self._fenced.values()):
            self._rng.shuffle(turns.ids)


def _ids(brokers: list[BrokerRegistration], rack: str, *, fenced: bool) -> list[int]:
    return [broker.id for broker in brokers if (broker.rack or "") == rack and broker.fenced == fenced]
