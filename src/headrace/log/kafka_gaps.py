"""Gaps between segments, as Apache Kafka's compaction leaves them where it drops the last batches of one.

Ours leaves none, so that behind the recovery point a gap tells of an end that was lost (`recovery`). A log
that Apache Kafka was killed over may have gaps there too: its cleaner's checkpoint comes when a round is
over, and its recovery point is written once a minute. Such a log can be told: while Kafka has it open, the
time index of its last segment has all the room that it may ever need, which Kafka cuts when it rolls or
closes the log and headrace never reserves. Once headrace has rolled the log the last segment is another.

A gap that is believed is closed with a batch that holds its place, durably: from then on the log is as one of
ours, and the next recovery needs no proof.
"""

from typing import TYPE_CHECKING

from headrace.log.file_names import TIME_INDEX
from headrace.log.segment import POSITION_MAX, RELATIVE_OFFSET_MAX, Segment
from headrace.log.time_index import ENTRY_BYTES
from headrace.records.batch import NO_TIMESTAMP, build_batch

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


def was_open_in_kafka(log: "PartitionLog") -> bool:
    """Whether Apache Kafka was the last that had the log open, and did not close it. To be asked before
    anything is done to it."""
    reserve = log.config.segment_index_bytes // ENTRY_BYTES * ENTRY_BYTES
    disk, path = log.storage.disk, log.segments.active.stem + TIME_INDEX
    if not reserve or not disk.exists(path) or disk.size(path) != reserve:
        return False
    last = disk.open(path, writable=False).read(reserve - ENTRY_BYTES, ENTRY_BYTES)
    return last == bytes(ENTRY_BYTES)


def close_gap(log: "PartitionLog", segment: Segment, end_offset: int, next_offset: int) -> None:
    """Have a recovered segment that ends at `end_offset` end where the next one begins, as far as its indexes
    can tell. Blocks for a sync."""
    last_offset = min(next_offset - 1, segment.base_offset + RELATIVE_OFFSET_MAX)
    place = build_batch(
        (),
        base_offset=end_offset,
        leader_epoch=log.epochs.latest,
        keep_offsets=True,
        last_offset_delta=last_offset - end_offset,
    )
    if last_offset >= end_offset and segment.size + len(place) <= POSITION_MAX:
        segment.append((place,))
        segment.note_batches(((len(place), last_offset, NO_TIMESTAMP),))
        segment.file.sync()
