"""Which partitions a broker holds, and which have no leader, without a walk over all of them.

A controller asks this for every broker that comes or goes, and a cluster may have millions of partitions, so
the answer is kept: eight bytes a replica, a number made of the topic's and the partition's. An entry that no
longer holds is only counted, and goes when someone asks or when half of a broker's entries are such.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.base.ids import TopicId

if TYPE_CHECKING:
    from headrace.metadata.topics import PartitionImage, TopicImage

_INDEX_BITS = 32


def _holders(partition: "PartitionImage") -> tuple[int, ...]:
    """Brokers that matter to a partition. One that was removed may still be among the eligible leaders."""
    return partition.replicas + partition.elr if partition.elr else partition.replicas


class BrokersToIsrs:
    """Kept by `TopicsImage` as it replays; topics are numbered as they come."""

    __slots__ = ("_by_broker", "_leaderless", "_next", "_numbers", "_stale", "_topics")

    def __init__(self) -> None:
        self._next = 0
        self._numbers: dict[TopicId, int] = {}
        self._topics: dict[int, TopicImage] = {}
        self._by_broker: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._stale: defaultdict[int, int] = defaultdict(int)
        self._leaderless: set[int] = set()

    def of_broker(self, broker_id: int) -> "Iterator[tuple[TopicImage, int, PartitionImage]]":
        """Partitions with this broker among their replicas or eligible leaders."""
        if self._stale.get(broker_id):
            self._clean(broker_id)
        return self._look_up(self._by_broker.get(broker_id, ()))

    def without_leader(self) -> "Iterator[tuple[TopicImage, int, PartitionImage]]":
        return self._look_up(sorted(self._leaderless))

    def add_topic(self, topic: "TopicImage") -> None:
        number = self._next
        self._next += 1
        self._numbers[topic.id] = number
        self._topics[number] = topic

    def drop_topic(self, topic: "TopicImage") -> None:
        number = self._numbers.pop(topic.id)
        del self._topics[number]
        for index, partition in topic.partitions.items():
            if partition.leader < 0:
                self._leaderless.discard(number << _INDEX_BITS | index)
            for broker_id in _holders(partition):
                self._count_stale(broker_id)

    def note_all(self, topic: "TopicImage") -> None:
        """All partitions of a topic that was just added, in half the time that they take one by one: a
        controller that loses its office may have to note a million."""
        first = self._numbers[topic.id] << _INDEX_BITS
        by_broker = self._by_broker
        for index, partition in topic.partitions.items():
            key = first | index
            if partition.leader < 0:
                self._leaderless.add(key)
            for broker_id in set(_holders(partition)) if partition.elr else partition.replicas:
                by_broker[broker_id].append(key)

    def note(
        self, topic_id: TopicId, index: int, old: "PartitionImage | None", new: "PartitionImage"
    ) -> None:
        """A partition is new, or another than it was; to be told once its topic has the new picture."""
        before = () if old is None else _holders(old)
        after = _holders(new)
        key = self._numbers[topic_id] << _INDEX_BITS | index
        if new.leader < 0:
            self._leaderless.add(key)
        elif old is not None and old.leader < 0:
            self._leaderless.discard(key)
        if before is after:
            return
        for broker_id in set(after).difference(before):
            self._by_broker[broker_id].append(key)
        for broker_id in set(before).difference(after):
            self._count_stale(broker_id)

    def _look_up(self, keys: Iterable[int]) -> "Iterator[tuple[TopicImage, int, PartitionImage]]":
        mask = (1 << _INDEX_BITS) - 1
        for key in keys:
            topic = self._topics[key >> _INDEX_BITS]
            index = key & mask
            yield topic, index, topic.partitions[index]

    def _count_stale(self, broker_id: int) -> None:
        self._stale[broker_id] += 1
        if self._stale[broker_id] * 2 > len(self._by_broker[broker_id]):
            self._clean(broker_id)

    def _clean(self, broker_id: int) -> None:
        """A partition that left a broker and came back has two entries: one of them goes too."""
        kept = array("q")
        mask = (1 << _INDEX_BITS) - 1
        for key in dict.fromkeys(self._by_broker[broker_id]):
            topic = self._topics.get(key >> _INDEX_BITS)
            if topic is not None and broker_id in _holders(topic.partitions[key & mask]):
                kept.append(key)
        self._by_broker[broker_id] = kept
        self._stale[broker_id] = 0
