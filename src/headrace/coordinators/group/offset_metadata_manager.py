"""OffsetMetadataManager: the committed offsets of groups, by group, topic and partition.

A request is checked against its group and becomes records; the table only changes by their replay. Offsets of
a group that has been empty for `offsets.retention.minutes` expire (KIP-211); those of a group without members
of its own from the start (a consumer that assigns its partitions itself) expire that long after their commit.

Offsets that were committed in a transaction are pending until its marker. They count as committed where they
were, so a later plain commit is not undone by the marker that comes behind it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.classic.classic_group import ClassicGroupState
from headrace.coordinators.group.consumer.consumer_group_manager import Write
from headrace.coordinators.group.consumer.member import PartitionId
from headrace.coordinators.group.group_metadata_manager import GroupMetadataManager
from headrace.metadata.topics import TopicImage
from headrace.wire.schemas.group_records import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.wire.schemas.offset_commit import OffsetCommitRequestPartition, OffsetCommitResponsePartition
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
)

# Former members are forgotten when there are this many more of them than members.
FORMER_MAX: Final = 100
# A batch costs as much as some ten records. So many stay below the largest message, with the longest names.
TOMBSTONES_IN_BATCH: Final = 200


class CommittedOffset(NamedTuple):
    """One commit. `metadata` is the client's own note."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    topic_id: bytes = NO_TOPIC_ID
    order: int = 0  # later commits have higher ones


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One partition of an OffsetCommit, its topic already known by name."""

    topic_partition: TopicPartition
    topic_id: TopicId
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""

    @classmethod
    def from_request(
        cls, topic: TopicImage, partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
    ) -> "OffsetToCommit":
        """What is to be committed for a partition of a topic that is known."""
        return cls(
            TopicPartition(topic.name, partition.partition_index),
            topic.id,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )


Result = TypeVar("Result", OffsetCommitResponsePartition, TxnOffsetCommitResponsePartition)


def within_metadata_limit(
    commits: list[tuple[Result, OffsetToCommit]], metadata_bytes_max: int
) -> list[tuple[Result, OffsetToCommit]]:
    """The commits whose metadata is not too large; the results of the others say so."""
    valid = []
    for result, commit in commits:
        if len(commit.metadata) > metadata_bytes_max:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            valid.append((result, commit))
    return valid


OFFSET_COMMIT_VERSION: Final = 4

OFFSET_RECORD_BYTES: Final = 40
"""An offset's record has more bytes than these and its names, however small its numbers are."""


def check_batch_size(
    group_id: str, commits: Sequence[tuple[object, OffsetToCommit]], batch_bytes_max: int
) -> None:
    """INVALID_COMMIT_OFFSET_SIZE where the log cannot take so many in one batch: before they are made into
    records, which takes longer than to count them."""
    least = OFFSET_RECORD_BYTES + len(group_id)
    if len(commits) * least <= batch_bytes_max:
        names = sum(len(each.topic_partition.topic) + len(each.metadata) for _, each in commits)
        if len(commits) * least + names <= batch_bytes_max:
            return
    raise ApiError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def offset_record(group_id: str, commit: OffsetToCommit, now_ms: int) -> CoordinatorRecord:
    topic, partition = commit.topic_partition
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=now_ms,
        topic_id=commit.topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return CoordinatorRecord(key, value, OFFSET_COMMIT_VERSION)


def offset_tombstone(group_id: str, topic_partition: TopicPartition) -> CoordinatorRecord:
    topic, partition = topic_partition
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


class CommitOrder:
    """Finds commits that come too late: sent over a connection that their member has given up since.

    A client whose request is not answered in time closes the connection and commits again, then further on,
    over a new one. What it sent first may still be under way: its kernel goes on sending it when the network
    is back. Nothing in such a commit tells that it is old, as member and generation are right, and Apache
    Kafka takes it: the group's committed offset goes back. Here a member's connections are known by when they
    were opened. A commit that would go back, over a connection older than one that its member has committed
    over, is not made.

    Going back as such is a member's right, and so is the use of several connections: only both together are
    suspect. The answer to an abandoned connection is its end; a client that does still use it repeats the
    commit over a new one, and is heard.
    """

    def __init__(self) -> None:
        self._opened: dict[str, dict[str, float]] = {}

    def is_overtaken(
        self,
        group_id: str,
        member_id: str,
        opened_at: float,
        commits: Iterable[OffsetToCommit],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> bool:
        """Whether a commit over a connection that was opened then is one of those."""
        if opened_at >= self._opened.get(group_id, {}).get(member_id, opened_at):
            return False
        return any(
            each.topic_partition in committed and each.offset < committed[each.topic_partition].offset
            for each in commits
        )

    def note(self, group_id: str, member_id: str, opened_at: float, members: Collection[str]) -> None:
        """A member commits over this connection; `members` are all there are."""
        opened = self._opened.setdefault(group_id, {})
        opened[member_id] = max(opened_at, opened.get(member_id, opened_at))
        if len(opened) > len(members) + FORMER_MAX:
            self._opened[group_id] = {each: at for each, at in opened.items() if each in members}

    def forget(self, group_id: str) -> None:
        """The group is no more."""
        self._opened.pop(group_id, None)


class OffsetMetadataManager:
    """Committed offsets of the groups of one coordinator partition: `write` appends to it."""

    def __init__(
        self,
        group_metadata_manager: GroupMetadataManager,
        *,
        clock: Clock,
        retention_ms: int,
        write: Write,
    ) -> None:
        self._groups = group_metadata_manager
        self._clock = clock
        self._retention_ms = retention_ms
        self._write = write
        self._commit_order = CommitOrder()
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        # By producer and group: what its open transaction has committed.
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        self._writers: dict[str, set[int]] = {}
        self._order = 0

    # --- replay ---

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

    def replay_transactional(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """A commit of an open transaction."""
        pending = self._pending.setdefault(producer_id, {}).setdefault(key.group, {})
        pending[TopicPartition(key.topic, key.partition)] = self._committed(value)
        self._writers.setdefault(key.group, set()).add(producer_id)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
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

    # --- what is committed ---

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

    # --- requests ---

    def validate_offset_commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        partitions: Iterable[PartitionId],
        transactional: bool = False,
    ) -> ErrorCode:
        """May this member commit to these partitions now? An empty group may be committed to from
        outside, and any group by a transaction that does not say for which member.
        """
        if transactional and generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        consumer = self._groups.consumer.groups.get(group_id)
        if consumer is not None:
            return consumer.validate_offset_commit(
                member_id=member_id,
                epoch=generation,
                api_version=api_version,
                partitions=partitions,
            )
        streams = self._groups.streams.groups.get(group_id)
        if streams is not None:
            return self._groups.streams.validate_offset_commit(
                streams,
                member_id=member_id,
                epoch=generation,
                api_version=api_version,
                partitions=list(partitions),
                transactional=transactional,
            )
        group = self._groups.classic.groups.get(group_id)
        if group is None:
            if generation < 0:
                return ErrorCode.NONE
            # A group that is only offsets is an empty one.
            is_known = bool(self.of(group_id))
            return ErrorCode.UNKNOWN_MEMBER_ID if is_known else ErrorCode.ILLEGAL_GENERATION
        if generation < 0 and group.is_in(ClassicGroupState.EMPTY):
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if not group.is_generation_of(member_id, generation):
            return ErrorCode.ILLEGAL_GENERATION
        if group.is_in(ClassicGroupState.COMPLETING) and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._groups.classic.keep_alive(group, member_id, self._clock.monotonic_ms())
        return ErrorCode.NONE

    def is_overtaken(
        self, group_id: str, member_id: str, opened_at: float, commits: Sequence[OffsetToCommit]
    ) -> bool:
        """Whether a commit that a member may make comes too late, over a connection that was opened then: see
        `CommitOrder`.
        """
        if not member_id:
            return False
        if self._commit_order.is_overtaken(group_id, member_id, opened_at, commits, self.of(group_id)):
            return True
        groups = self._groups
        kinds = groups.consumer.groups, groups.streams.groups, groups.classic.groups
        group = next((each[group_id] for each in kinds if group_id in each), None)
        self._commit_order.note(group_id, member_id, opened_at, group.members if group is not None else ())
        return False

    def validate_offset_fetch(self, group_id: str, *, member_id: str | None, epoch: int) -> ErrorCode:
        """May this member read the group's offsets? Classic members do not say who they are."""
        group = self._groups.consumer.groups.get(group_id) or self._groups.streams.groups.get(group_id)
        if group is None:
            return ErrorCode.NONE
        return group.validate_offset_fetch(member_id=member_id, epoch=epoch)

    def commit(self, group_id: str, commits: Iterable[OffsetToCommit], done: Done) -> None:
        now_ms = self._clock.now_ms()
        records = [offset_record(group_id, commit, now_ms) for commit in commits]
        if not records:
            done(ErrorCode.NONE)
            return

        def written(error: ErrorCode) -> None:
            too_large = error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
            done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE if too_large else error)

        self._write(records, written, True)

    def delete_offsets(self, group_id: str, topic_partitions: Iterable[TopicPartition], done: Done) -> None:
        records = [offset_tombstone(group_id, each) for each in topic_partitions]
        if records:
            self._write(records, done, True)
        else:
            done(ErrorCode.NONE)

    def on_topic_deleted(self, topic: str) -> None:
        """The topic was deleted: delete its committed offsets, those of many groups in one batch."""
        records = [
            offset_tombstone(group_id, each)
            for group_id in self.groups()
            for each in self.of(group_id)
            if each.topic == topic
        ]
        for start in range(0, len(records), TOMBSTONES_IN_BATCH):
            self._write(records[start : start + TOMBSTONES_IN_BATCH], lambda error: None, True)

    # --- expiry ---

    def cleanup_expired_offsets(self, group_id: str, records: list[CoordinatorRecord]) -> bool:
        """Add tombstones for the group's offsets that are older than `offsets.retention.minutes` to the
        records; whether none of its offsets is left then.
        """
        if not self._groups.may_expire_offsets(group_id) or self.has_pending(group_id):
            return False
        in_use = self._groups.subscribed_topics(group_id)
        if in_use is None:
            return False
        expired = [each for each in self._expired(group_id) if each.topic not in in_use]
        records += [offset_tombstone(group_id, each) for each in expired]
        return len(expired) == len(self.of(group_id))

    def _expired(self, group_id: str) -> Iterator[TopicPartition]:
        """Partitions whose offset is too old: since its commit, and since the group is empty."""
        group = self._groups.classic.groups.get(group_id)
        empty_since_ms = 0
        if group is not None and self._groups.is_empty(group_id):
            empty_since_ms = group.current_state_timestamp_ms
        now_ms = self._clock.now_ms()
        for topic_partition, committed in self.of(group_id).items():
            if now_ms - max(empty_since_ms, committed.commit_ms) >= self._retention_ms:
                yield topic_partition

    def forget(self, group_id: str) -> None:
        """The group is deleted, with its offsets."""
        self._commit_order.forget(group_id)
