"""How far each group has read: committed offsets by group, topic and partition.

Commits are records; this table only changes by replay. Offsets of a group that has been empty for
`offsets.retention.minutes` expire (KIP-211); those of a group without members of its own from the start (a
consumer that assigns its partitions itself) expire that long after their commit.

Offsets that were committed in a transaction are pending until its marker. They count as committed where they
were, so a later plain commit is not undone by the marker that comes behind it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.wire.schemas.group_records import OffsetCommitKey, OffsetCommitValue


class CommittedOffset(NamedTuple):
    """One commit. `metadata` is the client's own note."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    topic_id: bytes = NO_TOPIC_ID
    order: int = 0  # later commits have higher ones


class Offsets:
    """Committed offsets of the groups of one coordinator partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        # By producer and group: what its open transaction has committed.
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        self._writers: dict[str, set[int]] = {}
        self._order = 0

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        topic_partition = TopicPartition(key.topic, key.partition)
        if value is None:
            offsets = self._by_group.get(key.group)
            if offsets is not None:
                offsets.pop(topic_partition, None)
                if not offsets:
                    del self._by_group[key.group]
            return
        self._by_group.setdefault(key.group, {})[topic_partition] = self._committed(value)

    def replay_pending(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """A commit of an open transaction."""
        pending = self._pending.setdefault(producer_id, {}).setdefault(key.group, {})
        pending[TopicPartition(key.topic, key.partition)] = self._committed(value)
        self._writers.setdefault(key.group, set()).add(producer_id)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction has ended."""
        for group_id, pending in self._pending.pop(producer_id, {}).items():
            writers = self._writers[group_id]
            writers.discard(producer_id)
            if not writers:
                del self._writers[group_id]
            if committed:
                offsets = self._by_group.setdefault(group_id, {})
                for topic_partition, commit in pending.items():
                    before = offsets.get(topic_partition)
                    if before is None or before.order < commit.order:
                        offsets[topic_partition] = commit

    def _committed(self, value: OffsetCommitValue) -> CommittedOffset:
        self._order += 1
        return CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.topic_id,
            self._order,
        )

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has committed to the group."""
        return group_id in self._writers

    def pending(self, group_id: str) -> set[TopicPartition]:
        """Partitions whose committed offset an open transaction may change."""
        return {
            topic_partition
            for producer_id in self._writers.get(group_id, ())
            for topic_partition in self._pending[producer_id][group_id]
        }

    def groups(self) -> list[str]:
        return list(self._by_group)

    def of(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, {})

    def expired(
        self, group_id: str, *, empty_since_ms: int | None, retention_ms: int, now_ms: int
    ) -> Iterator[TopicPartition]:
        """Partitions whose offset is too old. `empty_since_ms` is None for a group that never had members."""
        for topic_partition, committed in self.of(group_id).items():
            since_ms = (
                committed.commit_ms if empty_since_ms is None else max(empty_since_ms, committed.commit_ms)
            )
            if now_ms - since_ms >= retention_ms:
                yield topic_partition
