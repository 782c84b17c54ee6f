"""A follower whose offset its leader does not have, or not on its own disk: what it is told, and where it
goes on. Part of the fetcher's core.

- Out of the leader's range: where does the leader's log start? Below that, start anew there; else, where does
  the follower's last epoch end in it? Cut there.
- Moved to the remote tier (KIP-405): where does the leader's local part start, and in which epoch? The remote
  segment that ends right before it tells the epochs and producers of everything before, and the follower's
  log starts behind it. Where the leader's first local record is the first of its epoch, the segment ends in
  an earlier one, which the leader is asked for. The records themselves are not copied: they are in the store.
  - Empty, and `follower.fetch.last.tiered.offset.enable` is set (KIP-1023): the same, from behind what is in
  the store, though the leader may have more of it on its own disk.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.log.partition_log import PartitionLog
from headrace.replication.following import cut_back, start_anew
from headrace.replication.partition import Partition
from headrace.replication.questions import Answer, Need
from headrace.tiered.remote_segment import RemoteSegment

if TYPE_CHECKING:
    from headrace.replication.fetcher import Followed


class TailFinder(Protocol):
    """Finds remote segments. By default there are none."""

    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteSegment | None:
        """The one that holds the offset before `offset`, which this epoch wrote."""
        ...


class NoTails:
    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteSegment | None:
        return None


def is_empty_and_tiered(partition: Partition) -> bool:
    log = partition.log
    return log is not None and log.config.remote_storage_enable and log.log_end_offset == 0


def learn(followed: "Followed", answer: Answer, tails: TailFinder, *, wall_ms: int) -> None:
    """Take an answer in; `followed.need` is what must be asked next, if anything. ApiError: not now."""
    need, followed.need = followed.need, None
    log = followed.partition.local_log()
    if need is Need.PENDING_UPLOAD and answer.error is ErrorCode.UNSUPPORTED_VERSION:
        return  # a leader of an older release: fetch from the start, as without the setting
    if answer.error is not ErrorCode.NONE:
        followed.need = need
        raise ApiError(answer.error)
    if need is Need.LOG_START:
        followed.leader_start = answer.offset
        if log.log_end_offset < answer.offset or log.epochs.latest == NO_EPOCH:
            start_anew(followed.partition, answer.offset, now_ms=wall_ms)
        else:
            followed.need = Need.EPOCH_END
    elif need is Need.EPOCH_END:
        if answer.offset < 0:
            start_anew(followed.partition, followed.leader_start, now_ms=wall_ms)
        else:
            cut_back(followed.partition, epoch=answer.epoch, end_offset=answer.offset, now_ms=wall_ms)
    elif need is Need.EPOCH_BEFORE:
        _learn_epoch_before(followed, answer, tails)
    else:
        _learn_local_start(followed, answer, log, tails)


def _learn_local_start(followed: "Followed", answer: Answer, log: PartitionLog, tails: TailFinder) -> None:
    if answer.offset <= log.log_end_offset:
        return  # nothing is in the store; or this replica has come as far
    followed.tail_offset, followed.tail_epoch = answer.offset, answer.epoch
    followed.tail = _find(followed, tails)
    if followed.tail is not None:
        followed.need = Need.TAIL
    elif answer.epoch > 0:
        followed.need = Need.EPOCH_BEFORE
    else:
        _miss(followed)


def _learn_epoch_before(followed: "Followed", answer: Answer, tails: TailFinder) -> None:
    if answer.offset >= followed.tail_offset:
        followed.tail_epoch = answer.epoch
        followed.tail = _find(followed, tails)
    if followed.tail is None:
        _miss(followed)
    followed.need = Need.TAIL


def _find(followed: "Followed", tails: TailFinder) -> RemoteSegment | None:
    partition = followed.partition
    return tails.find(
        partition.topic_id,
        partition.topic_partition,
        offset=followed.tail_offset,
        epoch=followed.tail_epoch,
    )


def _miss(followed: "Followed") -> None:
    """Its record may not have been read yet."""
    followed.need = Need.LOCAL_START
    raise ApiError(
        ErrorCode.REPLICA_NOT_AVAILABLE,
        f"no remote segment is known so far that ends before offset {followed.tail_offset}, "
        f"in epoch {followed.tail_epoch}",
    )
