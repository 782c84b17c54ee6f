"""Topics and partitions as the metadata log has them.

A partition's picture is immutable: a change record makes a new one, so whoever holds an older picture can
compare the two. There may be millions of them, so equal ones are one, and so are equal lists in others, also
between the controller's image and that of what is committed, which are told the same records one after the
other. A copy of the whole table shares a topic's partitions until one of the two changes.

Two epochs guard a partition. `leader_epoch` grows whenever a record names a leader, even the same one again:
it fences clients and followers. `partition_epoch` grows with every change: it fences AlterPartition.

In-sync replicas may all be gone while data is safe elsewhere: `elr` are replicas known to have everything
below the high watermark although they left the in-sync set, and `last_known_elr` remembers who led last
when nobody is left (KIP-966).
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headrace.base.ids import NO_LEADER, TopicId
from headrace.metadata.brokers_to_isrs import BrokersToIsrs
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.topic_names import folded
from headrace.wire.schemas.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

UNCHANGED_LEADER: Final = -2
"""The leader field of a PartitionChangeRecord that leaves leader and leader epoch as they are."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""A leader that was elected uncleanly recovers first; until then it alone may be in sync."""


SHARED_MAX: Final = 1 << 17
"""Pictures and lists remembered for sharing; where there are more, most are not seen twice."""

_NUMBERS: Final = tuple(range(1 << 12))
"""Partition numbers, of which every topic has the first: 32 bytes each if every topic had its own."""

Shared = TypeVar("Shared", bound=tuple[Any, ...])


class Share(Protocol):
    """Gives the tuple that stands for all that are equal to it."""

    def __call__(self, found: Shared, /) -> Shared: ...


class PartitionImage(NamedTuple):
    """One partition: who holds it, who is in sync, who leads. `directories` lines up with `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[bytes, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def shape(self) -> tuple[Any, ...]:
        """All but the epochs: partitions of equal shape fare alike whatever happens to a broker."""
        return self[:3] + self[5:]

    def directory_of(self, broker_id: int) -> bytes | None:
        """The id of the directory that holds the replica on that broker; None where the broker has no
        replica.
        """
        if broker_id not in self.replicas or len(self.directories) != len(self.replicas):
            return None
        return self.directories[self.replicas.index(broker_id)]


@dataclass(slots=True)
class TopicImage:
    """A topic: its name, its id for life, and its partitions by number.

    `is_shared` says that a copy of the image has the same table of partitions, which then must not change.
    """

    name: str
    id: TopicId
    partitions: dict[int, PartitionImage]
    is_shared: bool = field(default=False, compare=False, repr=False)


def _as_it_is(found: Shared, /) -> Shared:
    return found


def image_of(record: PartitionRecord, share: Share = _as_it_is) -> PartitionImage:
    """The picture that a whole-partition record draws."""
    replicas, isr = share(tuple(record.replicas)), tuple(record.isr)
    image = PartitionImage(
        replicas,
        replicas if isr == replicas else share(isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        share(tuple(record.directories)),
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        record.leader_recovery_state,
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
    )
    return share(image)


def record_of(topic_id: TopicId, index: int, partition: PartitionImage) -> PartitionRecord:
    """The reverse of `image_of`: what a snapshot, or a controller that makes the partition, writes.

    Empty lists of eligible leaders are left out, as Kafka leaves them out: absent and empty replay to the
    same picture.
    """
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def changed(old: PartitionImage, record: PartitionChangeRecord, share: Share = _as_it_is) -> PartitionImage:
    """The partition after a change record: fields it leaves out stay as they are."""
    leads = record.leader != UNCHANGED_LEADER
    recovery = record.leader_recovery_state
    image = PartitionImage(
        old.replicas if record.replicas is None else share(tuple(record.replicas)),
        old.isr if record.isr is None else share(tuple(record.isr)),
        record.leader if leads else old.leader,
        old.leader_epoch + leads,
        old.partition_epoch + 1,
        old.directories if record.directories is None else share(tuple(record.directories)),
        old.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
        old.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
        old.leader_recovery_state if recovery < 0 else recovery,
        old.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        old.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
    )
    return share(image)


class TopicsImage:
    """Both tables of topics, by name and by id, and what the topic records do to them. `indexed` keeps
    `holdings` as well, which only a controller needs. What is equal is shared with those of `like`. `changes`
    counts, so that who has looked at all of it knows whether that still holds.
    """

    __slots__ = ("_alike", "by_folded_name", "by_id", "by_name", "changes", "holdings")

    def __init__(self, *, indexed: bool = False, like: "TopicsImage | None" = None) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[TopicId, TopicImage] = {}
        self.by_folded_name: dict[str, list[str]] = {}
        self.holdings = BrokersToIsrs() if indexed else None
        self.changes = 0
        self._alike: dict[tuple[Any, ...], Any] = {} if like is None else like._alike

    def collides_with(self, name: str) -> str | None:
        """A topic whose metrics this name would share, for they do not tell '.' from '_'."""
        names = self.by_folded_name.get(folded(name) or "")
        return names[0] if names else None

    def copy(self, *, indexed: bool = False) -> "TopicsImage":
        """A copy that later replays do not touch, at the cost of a look at each topic, not each partition;
        the latter only for an index."""
        twin = TopicsImage(indexed=indexed, like=self)
        for topic in self.by_name.values():
            topic.is_shared = True
            twin._add(TopicImage(topic.name, topic.id, topic.partitions, is_shared=True))
            if twin.holdings is not None:
                twin.holdings.note_all(topic)
        return twin

    def take_over(self, other: "TopicsImage") -> None:
        """Have all of another, of which nobody wants to know any more; this one was cleared."""
        self.by_name.update(other.by_name)
        self.by_id.update(other.by_id)
        self.by_folded_name.update(other.by_folded_name)
        self.holdings = other.holdings
        self.changes += 1

    def clear(self) -> None:
        """Forget all; the tables stay the same objects. What is remembered for sharing stays: an image like
        this one may be about to take its place."""
        tables: tuple[dict[Any, Any], ...] = (self.by_name, self.by_id, self.by_folded_name)
        for table in tables:
            table.clear()
        self.changes += 1
        self.holdings = None if self.holdings is None else BrokersToIsrs()

    def replay_topic(self, record: TopicRecord, delta: MetadataDelta) -> None:
        topic = TopicImage(record.name, TopicId(record.topic_id), {})
        self._add(topic)
        delta.note_created(topic.id)

    def replay_partition(self, record: PartitionRecord, delta: MetadataDelta) -> None:
        topic = self.by_id[TopicId(record.topic_id)]
        self._put(topic, record.partition_id, image_of(record, self._share), delta)

    def replay_partition_change(self, record: PartitionChangeRecord, delta: MetadataDelta) -> None:
        topic = self.by_id[TopicId(record.topic_id)]
        old = topic.partitions[record.partition_id]
        self._put(topic, record.partition_id, changed(old, record, self._share), delta)

    def replay_remove_topic(self, record: RemoveTopicRecord, delta: MetadataDelta) -> None:
        topic = self.by_id.pop(TopicId(record.topic_id))
        del self.by_name[topic.name]
        self.changes += 1
        alike = folded(topic.name)
        if alike is not None:
            self.by_folded_name[alike].remove(topic.name)
            if not self.by_folded_name[alike]:
                del self.by_folded_name[alike]
        if self.holdings is not None:
            self.holdings.drop_topic(topic)
        delta.note_deleted(topic)

    def replay_clear_elr(self, record: ClearElrRecord, delta: MetadataDelta) -> None:
        """Forget the eligible leaders of one topic, or of all where no name is given; epochs stay as they
        are.
        """
        topics = [self.by_name[record.topic_name]] if record.topic_name else list(self.by_name.values())
        for topic in topics:
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    self._put(topic, index, partition._replace(elr=(), last_known_elr=()), delta)

    def _put(self, topic: TopicImage, index: int, image: PartitionImage, delta: MetadataDelta) -> None:
        if topic.is_shared:
            topic.partitions = dict(topic.partitions)
            topic.is_shared = False
        old = topic.partitions.get(index)
        self.changes += 1
        topic.partitions[_NUMBERS[index] if 0 <= index < len(_NUMBERS) else index] = image
        if self.holdings is not None:
            self.holdings.note(topic.id, index, old, image)
        delta.note_partition(topic.id, index)

    def _share(self, found: Shared, /) -> Shared:
        alike = self._alike
        if len(alike) >= SHARED_MAX:
            alike.clear()
        known: Shared = alike.setdefault(found, found)
        return known

    def _add(self, topic: TopicImage) -> None:
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        self.changes += 1
        if self.holdings is not None:
            self.holdings.add_topic(topic)
        alike = folded(topic.name)
        if alike is not None:
            self.by_folded_name.setdefault(alike, []).append(topic.name)
