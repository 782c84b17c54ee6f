"""The leader as its follower asks it about offsets, Kafka's LeaderEndPoint: where its log starts, or its
local part
of it (ListOffsets), and where an epoch ends in it (OffsetForLeaderEpoch).

Both name topics by name, while a fetcher knows partitions by id: an answer is matched with what was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.replication.partition import Partition
from headrace.replication.replica_fetch_session import Key
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata
from headrace.wire.schemas import list_offsets, offset_for_leader_epoch
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse
from headrace.wire.schemas.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

Request: TypeAlias = FetchRequest | ListOffsetsRequest | OffsetForLeaderEpochRequest
Response: TypeAlias = FetchResponse | ListOffsetsResponse | OffsetForLeaderEpochResponse

EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
EARLIEST_PENDING_UPLOAD: Final = -6


class Lookup(Enum):
    """What a partition must be told before it can ask for records again."""

    LOG_START = "where the leader's log starts"
    EPOCH_END = "where its last epoch ends in the leader's log"
    LOCAL_START = "where the leader's log starts on its own disk"
    PENDING_UPLOAD = "where what is not in the remote store yet starts"
    EPOCH_BEFORE = "where the epoch before that of the leader's first local record ends"
    TAIL = "what the remote store has of the log's state there"  # asked of nobody but the store


_PLACES: Final = {
    Lookup.LOG_START: EARLIEST,
    Lookup.LOCAL_START: EARLIEST_LOCAL,
    Lookup.PENDING_UPLOAD: EARLIEST_PENDING_UPLOAD,
}


class LookupResult(NamedTuple):
    """`offset` is the start of the log, or the end of `epoch`; -1 where the leader does not know it."""

    error: ErrorCode
    offset: int
    epoch: int


class PartitionFetchState:
    """A partition that follows the node, in one leader epoch: what it must look up first, and since when it
    rests.
    """

    __slots__ = (
        "failures",
        "key",
        "leader_epoch",
        "leader_start",
        "lookup",
        "not_before_ms",
        "partition",
        "tail",
        "tail_epoch",
        "tail_offset",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key = key_of(partition)
        self.leader_epoch = partition.leader_epoch
        self.leader_start = -1
        self.lookup: Lookup | None = None
        self.failures = 0
        self.not_before_ms = 0
        # Where to start behind the remote tier, the epoch of the record before, and the segment that has it.
        self.tail_offset = 0
        self.tail_epoch = -1
        self.tail: RemoteLogSegmentMetadata | None = None

    @property
    def is_current(self) -> bool:
        """Whether an answer in this epoch can still be taken."""
        log = self.partition.log
        return self.partition.leader_epoch == self.leader_epoch and log is not None and log.failure is None


def key_of(partition: Partition) -> Key:
    return partition.topic_id, partition.topic_partition.partition


def lookup_request(lookup: Lookup, about: Sequence[PartitionFetchState], *, node_id: int) -> Request:
    """Ask the same about several partitions."""
    topics: dict[str, list[PartitionFetchState]] = {}
    for followed in about:
        topics.setdefault(followed.partition.topic_partition.topic, []).append(followed)
    if lookup in _PLACES:
        return ListOffsetsRequest(
            replica_id=node_id,
            topics=[
                list_offsets.ListOffsetsTopic(name, [_ask_place(each.partition, lookup) for each in found])
                for name, found in topics.items()
            ],
        )
    return OffsetForLeaderEpochRequest(
        replica_id=node_id,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                name, [_ask_epoch_end(each, lookup) for each in found]
            )
            for name, found in topics.items()
        ],
    )


def _ask_place(partition: Partition, lookup: Lookup) -> list_offsets.ListOffsetsPartition:
    return list_offsets.ListOffsetsPartition(
        partition.topic_partition.partition, partition.leader_epoch, _PLACES[lookup]
    )


def _ask_epoch_end(
    followed: PartitionFetchState, lookup: Lookup
) -> offset_for_leader_epoch.OffsetForLeaderPartition:
    partition = followed.partition
    if lookup is Lookup.EPOCH_BEFORE:
        epoch = followed.tail_epoch - 1
    else:
        epoch = -1 if partition.log is None else partition.log.leader_epoch_cache.latest_epoch
    return offset_for_leader_epoch.OffsetForLeaderPartition(
        partition.topic_partition.partition, partition.leader_epoch, epoch
    )


def lookup_results(
    response: ListOffsetsResponse | OffsetForLeaderEpochResponse, about: Iterable[PartitionFetchState]
) -> Iterator[tuple[PartitionFetchState, LookupResult]]:
    """What was said of each partition; one that is left out is answered with an error, to be asked again."""
    said: dict[tuple[str, int], LookupResult] = {}
    if isinstance(response, ListOffsetsResponse):
        for topic in response.topics:
            for start in topic.partitions:
                answer = LookupResult(ErrorCode(start.error_code), start.offset, start.leader_epoch)
                said[topic.name, start.partition_index] = answer
    else:
        for result in response.topics:
            for end in result.partitions:
                answer = LookupResult(ErrorCode(end.error_code), end.end_offset, end.leader_epoch)
                said[result.topic, end.partition] = answer
    nothing = LookupResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    for followed in about:
        yield followed, said.get(followed.partition.topic_partition, nothing)
