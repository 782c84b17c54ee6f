"""What a follower does with its log at its leader's word: append, truncate, start again, or start behind what
is in
the remote store.

A follower's log is its leader's, byte for byte, up to where it ends. It is only ever cut where the two logs
part, by leader epochs (KIP-101, KIP-279): the leader names the largest epoch that both may have, and its end
there; the follower cuts to the least of that and of its own end of that epoch, and asks again until the
leader finds nothing to say. The high watermark has no part in that: what a follower knows of it is old, and
records above it may be committed.

A follower whose offset its leader does not have, or not on its own disk, looks up where to go on
(`fetch_offset_and_truncate`, Kafka's name; its TierStateMachine is part of it):

- Out of the leader's range: where does the leader's log start? Below that, start again there; else, where
does
  the follower's last epoch end in it? Cut there.
- Moved to the remote tier (KIP-405): where does the leader's local part start, and in which epoch? The remote
  segment that ends right before it tells the epochs and producers of everything before, and the follower's
  log starts behind it. Where the leader's first local record is the first of its epoch, the segment ends in
  an earlier one, which the leader is asked for. The records themselves are not copied: they are in the store.
- Empty, and `follower.fetch.last.tiered.offset.enable` is set (KIP-1023): the same, from behind what is in
  the store, though the leader may have more of it on its own disk.
"""

import logging
from collections.abc import Generator
from typing import Protocol

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.records.header import HEADER_BYTES, read_header
from headrace.replication.leader_endpoint import Lookup, LookupResult, PartitionFetchState
from headrace.replication.partition import Partition
from headrace.tiered.aux_state import RemoteLogAuxState
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata

logger = logging.getLogger(__name__)

Slices = Generator[None, None, None]
"""Work that is gone on with when its turn comes."""


def process_partition_data(
    partition: Partition, records: Buffer, *, high_watermark: int, log_start_offset: int, now_ms: int
) -> None:
    """Append what the leader sent, and take on its high watermark and its log's start. ApiError where the
    records cannot be appended.
    """
    if len(records) >= HEADER_BYTES:
        log = partition.local_log()
        _make_room_for(log, records, now_ms)
        log.append_as_follower(records, now_ms=now_ms)
        _note_appended(partition, len(records), now_ms)
    _take_leaders_word(partition, high_watermark, log_start_offset)


def process_large_partition_data(
    partition: Partition, records: Buffer, *, high_watermark: int, log_start_offset: int, now_ms: int
) -> Slices:
    """The same in slices, for more than can be written in no time. Who goes through them looks between any
    two whether the partition still follows."""
    log = partition.local_log()
    _make_room_for(log, records, now_ms)
    yield from log.append_as_follower_in_slices(records, now_ms=now_ms)
    _note_appended(partition, len(records), now_ms)
    _take_leaders_word(partition, high_watermark, log_start_offset)


def _note_appended(partition: Partition, size: int, now_ms: int) -> None:
    partition.appended_as_follower(now_ms)
    partition.metrics.replication_bytes_in += size


def _take_leaders_word(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    log = partition.local_log()
    moved = log.maybe_increment_high_watermark(high_watermark)
    if log_start_offset > log.log_start_offset:
        moved |= log.maybe_increment_log_start_offset(min(log_start_offset, log.high_watermark))
    if moved:
        partition.on_advance(partition.topic_partition)


def _make_room_for(log: UnifiedLog, records: Buffer, now_ms: int) -> None:
    """A log that starts inside of a batch begins with all of it: there is no half of a batch."""
    try:
        first = read_header(records)
    except InvalidBytesError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {error}") from None
    is_empty = log.log_start_offset == log.log_end_offset
    if is_empty and first.base_offset < log.log_end_offset <= first.last_offset:
        log.truncate_fully_and_start_at(first.base_offset, now_ms=now_ms)


def truncate_to_leader(partition: Partition, *, epoch: int, end_offset: int, now_ms: int) -> None:
    """The leader's log has `epoch`, up to `end_offset`, as the last that both may share."""
    log = partition.local_log()
    own_epoch, own_end = log.leader_epoch_cache.end_offset_for(epoch, log.log_end_offset)
    if own_epoch == NO_EPOCH:
        target = end_offset  # no epochs of its own to compare with
    elif own_epoch == epoch:
        target = min(own_end, end_offset)
    else:
        target = own_end  # the leader's epoch is not here: back to where both can agree, and ask again
    log.truncate_to(min(target, log.log_end_offset), now_ms=now_ms)
    partition.on_advance(partition.topic_partition)


def fetch_missing(partition: Partition, *, now_ms: int) -> None:
    """Cut a log that has lost records in the middle where they are missing: the leader has all from there on.
    Only for a replica that counts for nobody, being out of the in-sync set."""
    log = partition.local_log()
    assert log.missing_from is not None, "nothing is missing"
    logger.warning(
        "%s: its log, which ends at offset %d, is cut at offset %d, where records are missing. They are "
        "fetched again from the leader, node %d.",
        partition.topic_partition,
        log.log_end_offset,
        log.missing_from,
        partition.leader_id,
    )
    log.truncate_to(log.missing_from, now_ms=now_ms)
    log.missing_from = None
    partition.on_advance(partition.topic_partition)


def truncate_fully_and_start_at(partition: Partition, offset: int, *, now_ms: int) -> None:
    """The leader's log starts above this one's end: nothing here is of use to anybody."""
    partition.local_log().truncate_fully_and_start_at(offset, now_ms=now_ms)
    partition.on_advance(partition.topic_partition)


def start_behind_remote(
    partition: Partition, tail: RemoteLogAuxState, *, log_start_offset: int, now_ms: int
) -> None:
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


class TailFinder(Protocol):
    """Finds remote segments. By default there are none."""

    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteLogSegmentMetadata | None:
        """The one that holds the offset before `offset`, which this epoch wrote."""
        ...


class NoTails:
    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteLogSegmentMetadata | None:
        return None


def is_empty_and_tiered(partition: Partition) -> bool:
    log = partition.log
    return log is not None and log.config.remote_storage_enable and log.log_end_offset == 0


def fetch_offset_and_truncate(
    followed: PartitionFetchState, answer: LookupResult, tails: TailFinder, *, wall_ms: int
) -> None:
    """Take an answer in; `followed.lookup` is what must be asked next, if anything. ApiError: not now."""
    lookup, followed.lookup = followed.lookup, None
    log = followed.partition.local_log()
    if lookup is Lookup.PENDING_UPLOAD and answer.error is ErrorCode.UNSUPPORTED_VERSION:
        return  # a leader of an older release: fetch from the start, as without the setting
    if answer.error is not ErrorCode.NONE:
        followed.lookup = lookup
        raise ApiError(answer.error)
    if lookup is Lookup.LOG_START:
        followed.leader_start = answer.offset
        if log.log_end_offset < answer.offset or log.leader_epoch_cache.latest_epoch == NO_EPOCH:
            truncate_fully_and_start_at(followed.partition, answer.offset, now_ms=wall_ms)
        else:
            followed.lookup = Lookup.EPOCH_END
    elif lookup is Lookup.EPOCH_END:
        if answer.offset < 0:
            truncate_fully_and_start_at(followed.partition, followed.leader_start, now_ms=wall_ms)
        else:
            truncate_to_leader(
                followed.partition, epoch=answer.epoch, end_offset=answer.offset, now_ms=wall_ms
            )
    elif lookup is Lookup.EPOCH_BEFORE:
        _learn_epoch_before(followed, answer, tails)
    else:
        _learn_local_start(followed, answer, log, tails)


def _learn_local_start(
    followed: PartitionFetchState, answer: LookupResult, log: UnifiedLog, tails: TailFinder
) -> None:
    if answer.offset <= log.log_end_offset:
        return  # nothing is in the store; or this replica has come as far
    followed.tail_offset, followed.tail_epoch = answer.offset, answer.epoch
    followed.tail = _find(followed, tails)
    if followed.tail is not None:
        followed.lookup = Lookup.TAIL
    elif answer.epoch > 0:
        followed.lookup = Lookup.EPOCH_BEFORE
    else:
        _miss(followed)


def _learn_epoch_before(followed: PartitionFetchState, answer: LookupResult, tails: TailFinder) -> None:
    if answer.offset >= followed.tail_offset:
        followed.tail_epoch = answer.epoch
        followed.tail = _find(followed, tails)
    if followed.tail is None:
        _miss(followed)
    followed.lookup = Lookup.TAIL


def _find(followed: PartitionFetchState, tails: TailFinder) -> RemoteLogSegmentMetadata | None:
    partition = followed.partition
    return tails.find(
        partition.topic_id,
        partition.topic_partition,
        offset=followed.tail_offset,
        epoch=followed.tail_epoch,
    )


def _miss(followed: PartitionFetchState) -> None:
    """Its record may not have been read yet."""
    followed.lookup = Lookup.LOCAL_START
    raise ApiError(
        ErrorCode.REPLICA_NOT_AVAILABLE,
        f"no remote segment is known so far that ends before offset {followed.tail_offset}, "
        f"in epoch {followed.tail_epoch}",
    )
