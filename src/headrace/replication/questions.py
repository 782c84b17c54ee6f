"""What a follower asks besides records: where its leader's log starts, or its local part of it (ListOffsets),
and where an epoch ends in it (OffsetForLeaderEpoch).

Both name topics by name, while a fetcher knows partitions by id: an answer is matched with what was asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.replication.partition import Partition
from headrace.wire.schemas import list_offsets, offset_for_leader_epoch
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse
from headrace.wire.schemas.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

if TYPE_CHECKING:
    from headrace.replication.fetcher import Followed

Request: TypeAlias = FetchRequest | ListOffsetsRequest | OffsetForLeaderEpochRequest
Response: TypeAlias = FetchResponse | ListOffsetsResponse | OffsetForLeaderEpochResponse

EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
EARLIEST_PENDING_UPLOAD: Final = -6


class Need(Enum):
    """What a partition must be told before it can ask for records again."""

    LOG_START = "where the leader's log starts"
    EPOCH_END = "where its last epoch ends in the leader's log"
    LOCAL_START = "where the leader's log starts on its own disk"
    PENDING_UPLOAD = "where what is not in the remote store yet starts"
    EPOCH_BEFORE = "where the epoch before that of the leader's first local record ends"
    TAIL = "what the remote store has of the log's state there"  # asked of nobody but the store


_PLACES: Final = {
    Need.LOG_START: EARLIEST,
    Need.LOCAL_START: EARLIEST_LOCAL,
    Need.PENDING_UPLOAD: EARLIEST_PENDING_UPLOAD,
}


class Answer(NamedTuple):
    """`offset` is the start of the log, or the end of `epoch`; -1 where the leader does not know it."""

    error: ErrorCode
    offset: int
    epoch: int


def question(need: Need, about: Sequence["Followed"], *, node_id: int) -> Request:
    """Ask the same about several partitions."""
    topics: dict[str, list[Followed]] = {}
    for followed in about:
        topics.setdefault(followed.partition.topic_partition.topic, []).append(followed)
    if need in _PLACES:
        return ListOffsetsRequest(
            replica_id=node_id,
            topics=[
                list_offsets.ListOffsetsTopic(name, [_ask_place(each.partition, need) for each in found])
                for name, found in topics.items()
            ],
        )
    return OffsetForLeaderEpochRequest(
        replica_id=node_id,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(name, [_ask_epoch_end(each, need) for each in found])
            for name, found in topics.items()
        ],
    )


def _ask_place(partition: Partition, need: Need) -> list_offsets.ListOffsetsPartition:
    return list_offsets.ListOffsetsPartition(
        partition.topic_partition.partition, partition.leader_epoch, _PLACES[need]
    )


def _ask_epoch_end(followed: "Followed", need: Need) -> offset_for_leader_epoch.OffsetForLeaderPartition:
    partition = followed.partition
    if need is Need.EPOCH_BEFORE:
        epoch = followed.tail_epoch - 1
    else:
        epoch = -1 if partition.log is None else partition.log.epochs.latest
    return offset_for_leader_epoch.OffsetForLeaderPartition(
        partition.topic_partition.partition, partition.leader_epoch, epoch
    )


def answers_in(
    response: ListOffsetsResponse | OffsetForLeaderEpochResponse, about: Iterable["Followed"]
) -> Iterator[tuple["Followed", Answer]]:
    """What was said of each partition; one that is left out is answered with an error, to be asked again."""
    said: dict[tuple[str, int], Answer] = {}
    if isinstance(response, ListOffsetsResponse):
        for topic in response.topics:
            for start in topic.partitions:
                answer = Answer(ErrorCode(start.error_code), start.offset, start.leader_epoch)
                said[topic.name, start.partition_index] = answer
    else:
        for result in response.topics:
            for end in result.partitions:
                answer = Answer(ErrorCode(end.error_code), end.end_offset, end.leader_epoch)
                said[result.topic, end.partition] = answer
    nothing = Answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    for followed in about:
        yield followed, said.get(followed.partition.topic_partition, nothing)
