"""How far each group has read: committed offsets by group, topic and partition.

Commits are records; this table only changes by replay. Offsets of a group that has been empty for
`offsets.retention.minutes` expire (KIP-211); those of a group without members of its own from the start (a
consumer that assigns its partitions itself) expire that long after their commit.
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


class Offsets:
    """Committed offsets of the groups of one coordinator partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        topic_partition = TopicPartition(key.topic, key.partition)
        if value is None:
            offsets = self._by_group.get(key.group)
            if offsets is not None:
                offsets.pop(topic_partition, None)
                if not offsets:
                    del self._by_group[key.group]
            return
        self._by_group.setdefault(key.group, {})[topic_partition] = CommittedOffset(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.topic_id
        )

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
