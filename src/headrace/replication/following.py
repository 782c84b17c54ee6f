"""What a follower does with its leader's answers, for one partition: append, cut back, start anew, or start
behind what is in the remote store.

A follower's log is its leader's, byte for byte, up to where it ends. It is only ever cut where the two logs
part, by leader epochs (KIP-101, KIP-279): the leader names the largest epoch that both may have, and its end
there; the follower cuts to the least of that and of its own end of that epoch, and asks again until the
leader finds nothing to say. The high watermark has no part in that: what a follower knows of it is old, and
records above it may be committed.
"""

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_EPOCH
from headrace.log.partition_log import PartitionLog
from headrace.records.header import HEADER_BYTES, read_header
from headrace.replication.partition import Partition
from headrace.tiered.tails import Tail


def take_records(
    partition: Partition, records: Buffer, *, high_watermark: int, log_start_offset: int, now_ms: int
) -> None:
    """Append what the leader sent, and take on its high watermark and its log's start. ApiError where the
    records cannot be appended.
    """
    log = partition.local_log()
    if len(records) >= HEADER_BYTES:
        _make_room_for(log, records, now_ms)
        log.append_as_follower(records, now_ms=now_ms)
        partition.appended_as_follower(now_ms)
    moved = log.advance_high_watermark(high_watermark)
    if log_start_offset > log.log_start_offset:
        moved |= log.advance_log_start(min(log_start_offset, log.high_watermark))
    if moved:
        partition.on_advance(partition.topic_partition)


def _make_room_for(log: PartitionLog, records: Buffer, now_ms: int) -> None:
    """A log that starts inside of a batch begins with all of it: there is no half of a batch."""
    try:
        first = read_header(records)
    except InvalidBytesError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {error}") from None
    is_empty = log.log_start_offset == log.log_end_offset
    if is_empty and first.base_offset < log.log_end_offset <= first.last_offset:
        log.truncate_fully_and_start_at(first.base_offset, now_ms=now_ms)


def cut_back(partition: Partition, *, epoch: int, end_offset: int, now_ms: int) -> None:
    """The leader's log has `epoch`, up to `end_offset`, as the last that both may share."""
    log = partition.local_log()
    own_epoch, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
    if own_epoch == NO_EPOCH:
        target = end_offset  # no epochs of its own to compare with
    elif own_epoch == epoch:
        target = min(own_end, end_offset)
    else:
        target = own_end  # the leader's epoch is not here: back to where both can agree, and ask again
    log.truncate_to(min(target, log.log_end_offset), now_ms=now_ms)
    partition.on_advance(partition.topic_partition)


def start_anew(partition: Partition, offset: int, *, now_ms: int) -> None:
    """The leader's log starts above this one's end: nothing here is of use to anybody."""
    partition.local_log().truncate_fully_and_start_at(offset, now_ms=now_ms)
    partition.on_advance(partition.topic_partition)


def start_behind_remote(partition: Partition, tail: Tail, *, log_start_offset: int, now_ms: int) -> None:
    """What the leader does not have on its own disk any more is in the remote store, for this replica too."""
    first = tail.epochs[0][1] if tail.epochs else tail.next_offset
    partition.local_log().start_behind_remote(
        tail.next_offset,
        log_start_offset=min(log_start_offset if log_start_offset >= 0 else first, tail.next_offset),
        epochs=tail.epochs,
        producers=tail.producers,
        now_ms=now_ms,
    )
    partition.on_advance(partition.topic_partition)
