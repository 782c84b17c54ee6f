"""What a follower asks besides records: where its leader's log starts (ListOffsets), and where an epoch ends
in it (OffsetForLeaderEpoch).

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

EARLIEST_LOCAL: Final = -4
"""Where the log on the leader's own disk starts."""


class Need(Enum):
    """What a partition must be told before it can ask for records again."""

    LOG_START = "where the leader's log starts"
    EPOCH_END = "where its last epoch ends in the leader's log"


class Answer(NamedTuple):
    """`offset` is the start of the log, or the end of `epoch`; -1 where the leader does not know it."""

    error: ErrorCode
    offset: int
    epoch: int


def question(need: Need, partitions: Sequence[Partition], *, node_id: int) -> Request:
    """Ask the same about several partitions."""
    topics: dict[str, list[Partition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic_partition.topic, []).append(partition)
    if need is Need.LOG_START:
        return ListOffsetsRequest(
            replica_id=node_id,
            topics=[
                list_offsets.ListOffsetsTopic(name, [_ask_start(each) for each in found])
                for name, found in topics.items()
            ],
        )
    return OffsetForLeaderEpochRequest(
        replica_id=node_id,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(name, [_ask_epoch_end(each) for each in found])
            for name, found in topics.items()
        ],
    )


def _ask_start(partition: Partition) -> list_offsets.ListOffsetsPartition:
    return list_offsets.ListOffsetsPartition(
        partition.topic_partition.partition, partition.leader_epoch, EARLIEST_LOCAL
    )


def _ask_epoch_end(partition: Partition) -> offset_for_leader_epoch.OffsetForLeaderPartition:
    log = partition.log
    last_epoch = -1 if log is None else log.epochs.latest
    return offset_for_leader_epoch.OffsetForLeaderPartition(
        partition.topic_partition.partition, partition.leader_epoch, last_epoch
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
