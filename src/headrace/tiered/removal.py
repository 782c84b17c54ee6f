"""Which remote segments have to go, and how they go.

A removal is announced, done, and told to be done (`remove`), so that a crash in between is finished by
whoever leads next. What has to go (`Removals.of`):

- what lies below the log's start: deleted records, or older than `retention.ms` or beyond `retention.bytes`,
  which hold for both tiers together. The announcement says where the log starts from then on, and there it
  starts as soon as that is read: nobody is sent to what is going, and no crash brings it back;
- copies of a lineage that lost: a leader elected uncleanly has other records at those offsets. Where it has
  none, its own epochs are in doubt (`lineage`), and nothing goes;
- copies whose place another has taken;
- everything, once tiering is turned off; the last ones first. Turned on again before all are gone, those
  that are left reach up to some offset without a hole, and copying goes on from there;
- what is left of copies that were not finished and of removals that were not finished. A copy of another
  leader is given up first, so that it cannot be finished meanwhile (see `remote_log`).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from headrace.base.ids import uuid_text
from headrace.log.partition_log import PartitionLog
from headrace.tiered import lineage
from headrace.tiered.custom_metadata import store_of
from headrace.tiered.remote_log import RemoteLog, lineage_end
from headrace.tiered.remote_segment import RemoteSegment, SegmentState, segment_id_in
from headrace.tiered.segment_mark import start_mark
from headrace.tiered.steps import Steps, Teller
from headrace.tiered.store import RemoteStore


def remove(segment: RemoteSegment, store: RemoteStore, teller: Teller, mark: bytes | None = None) -> Steps:
    """Remove a segment that nobody may read or finish any more. `mark` tells where the log starts then."""
    is_told = segment.state is SegmentState.DELETE_STARTED or (
        yield teller.update(segment, SegmentState.DELETE_STARTED, mark)
    )
    if not is_told:
        return False
    yield partial(delete_objects, store, segment)
    return bool((yield teller.update(segment, SegmentState.DELETE_FINISHED)))


def give_up(segment: RemoteSegment, remote: RemoteLog, store: RemoteStore, teller: Teller) -> Steps:
    """Remove what is left of a copy, unless it turns out to be finished."""
    if not remote.is_given_up(segment):
        if not (yield teller.give_up(segment)):
            return False
        if not remote.is_given_up(segment):
            return True
    return (yield from remove(segment, store, teller))


def delete_objects(store: RemoteStore, segment: RemoteSegment) -> int:
    store_of(store, segment).delete(segment.object_names())
    return 0


@dataclass(frozen=True, slots=True)
class Removals:
    """Where the log is to start, and what has to go then."""

    log_start: int
    segments: tuple[RemoteSegment, ...] = ()

    @property
    def tells_start(self) -> bool:
        """Whether a segment goes because the log starts behind it: its announcement tells that."""
        return any(
            segment.state is SegmentState.COPY_FINISHED and segment.end_offset < self.log_start
            for segment in self.segments
        )

    def mark(self, log: PartitionLog) -> bytes | None:
        """What the announcements tell of the log's start."""
        if not log.config.remote_storage_enable or log.epochs.epoch_at(self.log_start - 1) < 0:
            return None
        return start_mark(self.log_start, log.epochs.epoch_at(self.log_start - 1))

    @classmethod
    def of(
        cls, log: PartitionLog, remote: RemoteLog, *, now_ms: int, in_progress: Collection[bytes] = ()
    ) -> "Removals":
        """What the leader of a tiered partition has to do now. `in_progress` are ids of copies that it is at
        itself.
        """
        if not log.config.remote_storage_enable:
            doomed_all = _left_alone(remote, in_progress, lambda _: True)
            return cls(log.local_start_offset, tuple(reversed(doomed_all)))
        readable = [(segment, lineage_end(log.epochs, segment)) for segment in remote.readable(log.epochs)]
        start = first_there(log, remote)
        if log.config.deletes:
            start = _first_kept(log, readable, start, now_ms)
        doomed = {segment.segment_id for segment in remote.replaced()}
        doomed.update(segment.segment_id for segment, end in readable if end <= start)
        if lineage.is_known(log):
            latest = log.epochs.latest
            own = {segment.segment_id for segment, _ in readable}
            doomed.update(
                other.segment_id
                for other in remote.finished()
                if other.segment_id not in own
                and other.epochs[-1][0] <= latest  # else of a leader that this one does not know of yet
                and not lineage.is_missed(log, remote, other)
            )
        return cls(start, tuple(_left_alone(remote, in_progress, doomed.__contains__)))


Readable = list[tuple[RemoteSegment, int]]
"""Segments of the log's lineage, by start offset, and where each of them ends in it."""


def _left_alone(
    remote: RemoteLog, in_progress: Collection[bytes], is_doomed: Callable[[bytes], bool]
) -> list[RemoteSegment]:
    """Doomed copies, and everything that was begun and is nobody's work now; by offset."""
    found = [
        segment
        for segment in remote
        if segment.segment_id not in in_progress
        and (segment.state is not SegmentState.COPY_FINISHED or is_doomed(segment.segment_id))
    ]
    return sorted(found, key=lambda segment: segment.start_offset)


def _first_kept(log: PartitionLog, readable: Readable, start: int, now_ms: int) -> int:
    """Where the log starts once what the settings no longer keep has gone."""
    config = log.config
    if config.retention_ms >= 0:
        for segment, end in readable:
            if now_ms - segment.max_timestamp <= config.retention_ms:
                break
            start = max(start, end)
    if config.retention_bytes >= 0:
        over_bytes = _bytes_in_both(log, readable, start) - config.retention_bytes
        for segment, end in readable:
            if end <= start:
                continue
            over_bytes -= segment.size
            if over_bytes < 0:
                break
            start = end
    return min(start, log.high_watermark)


def first_there(log: PartitionLog, remote: RemoteLog) -> int:
    """The log's start, or behind what is no longer anywhere: its leader of before has removed it, and a crash
    may have forgotten that the log moved on.
    """
    if not log.config.remote_storage_enable:
        return log.log_start_offset
    start, local = max(log.log_start_offset, _told_start(log, remote)), log.segments.first.base_offset
    return start if start >= local else max(start, min(first_remote(log, remote), local))


def _told_start(log: PartitionLog, remote: RemoteLog) -> int:
    """Where a leader of this lineage said that the log starts; 0 where none has."""
    if remote.told_start is None:
        return 0
    offset, epoch = remote.told_start
    return offset if log.epochs.epoch_at(offset - 1) == epoch else 0


def first_remote(log: PartitionLog, remote: RemoteLog) -> int:
    """The first offset from the log's start on that is in the remote store, or was not removed from there.
    Copies are made in order, so where a later one is known the earlier ones are gone. Where none is known,
    only a removal that is known tells that there was one. A copy of another lineage may be this one's.
    """
    if not lineage.is_known(log) or remote.holds(log.log_start_offset):
        return log.log_start_offset
    return first_of_lineage(log, remote)


def first_of_lineage(log: PartitionLog, remote: RemoteLog) -> int:
    """The same where the log's epochs are beyond doubt."""
    start = log.log_start_offset
    if remote.find(log.epochs, start) is not None:
        return start
    for segment in remote.readable(log.epochs):
        if segment.start_offset > start:
            return segment.start_offset
    return max(start, remote.removed_to)


def _bytes_in_both(log: PartitionLog, readable: Readable, start: int) -> int:
    """Remote bytes from `start` on, and local ones of what is not in the remote store."""
    tiered_to = max((end for _, end in readable), default=0)
    local = sum(segment.size for segment in log.segments if segment.base_offset >= tiered_to)
    return local + sum(segment.size for segment, end in readable if end > start)


def orphans(names: Iterable[str], remote: RemoteLog) -> list[str]:
    """Of the names of a partition's objects in the store, those that belong to no segment that is known.

    The records must have been read to their end after the names were listed: a copy is announced before its
    first object is put. So an object whose segment is not known was put by somebody who was slower than the
    removal of what it was at, and the records tell of that removal. Where they do not even mention the
    segment, they are not all there, and the object may be the only one that has its records: see
    `replication.tier_rounds`.
    """
    known = {uuid_text(segment.segment_id) for segment in remote}
    return [name for name in names if segment_id_in(name) not in known]
