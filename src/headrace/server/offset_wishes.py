"""What OffsetCommit and TxnOffsetCommit share: a partition's wish, and whether it is small enough."""

from typing import TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.coordinators.group.classic_records import OffsetToCommit
from headrace.metadata.topics import TopicImage
from headrace.wire.schemas.offset_commit import OffsetCommitRequestPartition, OffsetCommitResponsePartition
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
)

Wish = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
Result = TypeVar("Result", OffsetCommitResponsePartition, TxnOffsetCommitResponsePartition)


def offset_of(topic: TopicImage, wish: Wish) -> OffsetToCommit:
    """What is to be remembered for a partition of a topic that is known."""
    where = TopicPartition(topic.name, wish.partition_index)
    metadata = wish.committed_metadata or ""
    return OffsetToCommit(where, topic.id, wish.committed_offset, wish.committed_leader_epoch, metadata)


def small_enough(
    wanted: list[tuple[Result, OffsetToCommit]], metadata_bytes_max: int
) -> list[tuple[Result, OffsetToCommit]]:
    """Those whose metadata there is room for; the others' results say that there is none."""
    small = []
    for result, commit in wanted:
        if len(commit.metadata) > metadata_bytes_max:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            small.append((result, commit))
    return small
