"""Topics and partitions as the metadata log has them.

A partition's picture is immutable: a change record makes a new one, so whoever holds an older picture can
compare the two, and a copy of the whole table is a copy of references. Two epochs guard it. `leader_epoch`
grows whenever a record names a leader, even the same one again: it fences clients and followers.
`partition_epoch` grows with every change: it fences AlterPartition.

In-sync replicas may all be gone while data is safe elsewhere: `elr` are replicas known to have everything
below the high watermark although they left the in-sync set, and `last_known_elr` remembers who led last
when nobody is left (KIP-966).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from headrace.base.ids import NO_LEADER, TopicId
from headrace.metadata.delta import Delta
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


@dataclass(frozen=True, slots=True)
class PartitionImage:
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

    def directory_of(self, broker_id: int) -> bytes | None:
        """The id of the directory that holds the replica on that broker; None where the broker has no
        replica.
        """
        if broker_id not in self.replicas or len(self.directories) != len(self.replicas):
            return None
        return self.directories[self.replicas.index(broker_id)]


@dataclass(slots=True)
class TopicImage:
    """A topic: its name, its id for life, and its partitions by number."""

    name: str
    id: TopicId
    partitions: dict[int, PartitionImage]


def image_of(record: PartitionRecord) -> PartitionImage:
    """The picture that a whole-partition record draws."""
    return PartitionImage(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=tuple(record.directories),
        adding_replicas=tuple(record.adding_replicas),
        removing_replicas=tuple(record.removing_replicas),
        leader_recovery_state=record.leader_recovery_state,
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


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


def changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change record: fields it leaves out stay as they are."""
    leads = record.leader != UNCHANGED_LEADER
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=_or_kept(record.replicas, partition.replicas),
        isr=_or_kept(record.isr, partition.isr),
        leader=record.leader if leads else partition.leader,
        leader_epoch=partition.leader_epoch + leads,
        partition_epoch=partition.partition_epoch + 1,
        directories=partition.directories if record.directories is None else tuple(record.directories),
        adding_replicas=_or_kept(record.adding_replicas, partition.adding_replicas),
        removing_replicas=_or_kept(record.removing_replicas, partition.removing_replicas),
        leader_recovery_state=partition.leader_recovery_state if recovery < 0 else recovery,
        elr=_or_kept(record.eligible_leader_replicas, partition.elr),
        last_known_elr=_or_kept(record.last_known_elr, partition.last_known_elr),
    )


def _or_kept(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


class Topics:
    """Both tables of topics, by name and by id, and what the topic records do to them."""

    __slots__ = ("by_folded_name", "by_id", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[TopicId, TopicImage] = {}
        self.by_folded_name: dict[str, list[str]] = {}

    def collides_with(self, name: str) -> str | None:
        """A topic whose metrics this name would share, for they do not tell '.' from '_'."""
        names = self.by_folded_name.get(folded(name) or "")
        return names[0] if names else None

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """Every partition of every topic."""
        for topic in self.by_name.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def copy(self) -> "Topics":
        """A copy that later replays do not touch; pictures of partitions are shared: they never change."""
        twin = Topics()
        for topic in self.by_name.values():
            twin._add(TopicImage(topic.name, topic.id, dict(topic.partitions)))
        return twin

    def replay_topic(self, record: TopicRecord, delta: Delta) -> None:
        topic = TopicImage(record.name, TopicId(record.topic_id), {})
        self._add(topic)
        delta.note_created(topic.id)

    def replay_partition(self, record: PartitionRecord, delta: Delta) -> None:
        topic = self.by_id[TopicId(record.topic_id)]
        topic.partitions[record.partition_id] = image_of(record)
        delta.note_partition(topic.id, record.partition_id)

    def replay_partition_change(self, record: PartitionChangeRecord, delta: Delta) -> None:
        topic = self.by_id[TopicId(record.topic_id)]
        topic.partitions[record.partition_id] = changed(topic.partitions[record.partition_id], record)
        delta.note_partition(topic.id, record.partition_id)

    def replay_remove_topic(self, record: RemoveTopicRecord, delta: Delta) -> None:
        topic = self.by_id.pop(TopicId(record.topic_id))
        del self.by_name[topic.name]
        alike = folded(topic.name)
        if alike is not None:
            self.by_folded_name[alike].remove(topic.name)
            if not self.by_folded_name[alike]:
                del self.by_folded_name[alike]
        delta.note_deleted(topic)

    def replay_clear_elr(self, record: ClearElrRecord, delta: Delta) -> None:
        """Forget the eligible leaders of one topic, or of all where no name is given; epochs stay as they
        are.
        """
        topics = [self.by_name[record.topic_name]] if record.topic_name else list(self.by_name.values())
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    topic.partitions[index] = replace(partition, elr=(), last_known_elr=())
                    delta.note_partition(topic.id, index)

    def _add(self, topic: TopicImage) -> None:
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        alike = folded(topic.name)
        if alike is not None:
            self.by_folded_name.setdefault(alike, []).append(topic.name)
