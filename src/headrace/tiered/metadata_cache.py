"""RemoteLogMetadataCache: what is known of remote segments, by the records of `__remote_log_metadata`.

State changes by records only, in the order of the topic, so every broker that has read as far knows the same,
and a restart reads it all again. Nothing goes back: a record that would (a late finish of a copy that was
removed since, a repeated announcement) is left out. Who writes repeats what was not acknowledged, and the
first try may come after all, long after a successor has removed that copy: the last removed ones are
remembered for it.

A leader that takes over finds copies that its predecessor began. Whether that one is still at it, nobody can
tell, and it must not finish a copy that is being removed. So the new leader gives the copy up first: it
repeats the announcement with a mark (`segment_metadata.GIVEN_UP`). From then on a finish does not count, and
one that came before is seen before anything is removed. To Apache Kafka an announcement that is repeated says
nothing new. Logs also have updates to COPY_STARTED, which told this once, and which Kafka's classes refuse.

Offsets do not tell whose records they are: a leader that lost an unclean election may have copied records
that the log no longer has. So whoever asks passes the lineage of leader epochs of the log it asks for, and a
copy counts as far as its epochs are the lineage's. Two logs that agree on (offset, epoch) agree on all before
(KIP-101), so that part is always a beginning of the segment: up to `lineage_end`. Where compaction has been,
the first batches of an epoch may be gone, in the one log and not yet in the other, and both say that it began
later than it did. What stays is the last batch of a segment. So a cleaned segment is of a lineage unless that
one has a later epoch there.

A finished copy takes the place of those finished before it that lie within its offsets, unless its own
records there are of an older epoch. That is how compaction replaces many segments by one record, and a copy
that was made twice counts once. Who was replaced stays known until its removal is finished.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Final, NamedTuple

from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.unified_log import UnifiedLog
from headrace.tiered.segment_metadata import (
    GIVEN_UP,
    MOVES,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
    told_start,
)

REMOVED_KNOWN_MAX: Final = 100
"""Of one partition. Late are records of copies that were given up, not of old ones that go in thousands."""


class RemoteLogMetadataCache:
    """One partition's remote segments."""

    __slots__ = (
        "_finished",
        "_given_up",
        "_reaches",
        "_removed",
        "_replaced",
        "_segments",
        "removed_to",
        "told_start",
        "version",
    )

    def __init__(self) -> None:
        self._segments: dict[bytes, RemoteLogSegmentMetadata] = {}
        self._replaced: set[bytes] = set()
        self._given_up: set[bytes] = set()
        self._removed: dict[bytes, None] = {}  # ids, in the order of their removals
        self._finished: list[RemoteLogSegmentMetadata] = []  # those not replaced, by start offset
        self._reaches: list[int] | None = None
        # By the last removal that told one: see `segment_metadata.told_start`.
        self.told_start: tuple[int, int] | None = None
        self.removed_to = 0  # the end of the last segment of which a removal was announced
        self.version = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteLogSegmentMetadata]:
        return iter(self._segments.values())

    # -- changing --------------------------------------------------------------------------------------------

    def apply(self, segment: RemoteLogSegmentMetadata) -> None:
        """A record that tells all of a segment; what is known already only moves on."""
        known = self._segments.get(segment.segment_id)
        if segment.custom_metadata == GIVEN_UP:
            self._give_up(known)
        elif known is None:
            if (
                segment.state is not RemoteLogSegmentState.DELETE_FINISHED
                and segment.segment_id not in self._removed
            ):
                self._enter(segment)
        elif segment.state in MOVES[known.state]:
            self._enter(segment)

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """A record that tells a segment's new state."""
        known = self._segments.get(update.segment_id)
        if known is None:
            return
        if update.state is known.state is RemoteLogSegmentState.COPY_STARTED:
            self._give_up(known)
            return
        if update.state not in MOVES[known.state]:
            return
        moved = known.moved_to(update.state, broker_id=update.broker_id, event_ms=update.event_ms)
        if update.custom_metadata is not None:
            if update.state is RemoteLogSegmentState.DELETE_STARTED:
                self.told_start = told_start(update.custom_metadata) or self.told_start
            else:
                moved = replace(moved, custom_metadata=update.custom_metadata)
        self._enter(moved)

    def _give_up(self, known: RemoteLogSegmentMetadata | None) -> None:
        """A copy that is finished, or gone, cannot be given up."""
        if known is not None and known.state is RemoteLogSegmentState.COPY_STARTED:
            self._given_up.add(known.segment_id)
            self.version += 1

    def _enter(self, segment: RemoteLogSegmentMetadata) -> None:
        if segment.state is RemoteLogSegmentState.COPY_FINISHED and segment.segment_id in self._given_up:
            return
        self.version += 1
        known = self._segments.pop(segment.segment_id, None)
        if known is not None and known.state is RemoteLogSegmentState.COPY_FINISHED:
            self._take_out(known)
        if segment.state in (RemoteLogSegmentState.DELETE_STARTED, RemoteLogSegmentState.DELETE_FINISHED):
            self.removed_to = max(self.removed_to, segment.end_offset + 1)
        if segment.state is RemoteLogSegmentState.DELETE_FINISHED:
            self._replaced.discard(segment.segment_id)
            self._given_up.discard(segment.segment_id)
            self._removed[segment.segment_id] = None
            if len(self._removed) > REMOVED_KNOWN_MAX:
                del self._removed[next(iter(self._removed))]
            return
        self._segments[segment.segment_id] = segment
        if segment.state is RemoteLogSegmentState.COPY_FINISHED:
            for old in self._replaced_by(segment):
                self._replaced.add(old.segment_id)
                self._take_out(old)
            insort(self._finished, segment, key=_place)
            self._reaches = None

    def _take_out(self, segment: RemoteLogSegmentMetadata) -> None:
        number = bisect_left(self._finished, _place(segment), key=_place)
        for at in range(number, len(self._finished)):
            if self._finished[at] is segment:
                del self._finished[at]
                self._reaches = None
                return
            if _place(self._finished[at]) != _place(segment):
                return  # it was replaced

    def _replaced_by(self, new: RemoteLogSegmentMetadata) -> list[RemoteLogSegmentMetadata]:
        first = bisect_left(self._finished, new.start_offset, key=_start)
        last = bisect_right(self._finished, new.end_offset, key=_start)
        return [
            old
            for old in self._finished[first:last]
            if old.end_offset <= new.end_offset and new.epoch_at(old.end_offset) >= old.epochs[-1][0]
        ]

    # -- asking ----------------------------------------------------------------------------------------------

    def get(self, segment_id: bytes) -> RemoteLogSegmentMetadata | None:
        return self._segments.get(segment_id)

    def in_states(self, *states: RemoteLogSegmentState) -> list[RemoteLogSegmentMetadata]:
        """Segments in one of these states, replaced ones too."""
        return [segment for segment in self._segments.values() if segment.state in states]

    def is_given_up(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether a copy that was begun can no longer be finished."""
        return segment.segment_id in self._given_up

    def replaced(self) -> list[RemoteLogSegmentMetadata]:
        """Finished copies whose place another has taken: they are to be removed."""
        known = (self._segments[segment_id] for segment_id in self._replaced)
        return [segment for segment in known if segment.state is RemoteLogSegmentState.COPY_FINISHED]

    def find(self, epochs: LeaderEpochFileCache, offset: int) -> RemoteLogSegmentMetadata | None:
        """The finished copy that holds `offset` in this lineage: the last one to start where several do."""
        reaches = self._reach()
        number = bisect_right(self._finished, offset, key=_start) - 1
        while number >= 0 and reaches[number] >= offset:
            segment = self._finished[number]
            if segment.end_offset >= offset and is_of_lineage(epochs, segment, offset):
                return segment
            number -= 1
        return None

    def holds(self, offset: int) -> bool:
        """Whether a finished copy has the offset, of whichever lineage."""
        number = bisect_right(self._finished, offset, key=_start) - 1
        return number >= 0 and self._reach()[number] >= offset

    def finished(self) -> list[RemoteLogSegmentMetadata]:
        """Finished copies whose place no other has taken, by start offset; not to be changed."""
        return self._finished

    def after(
        self, epochs: LeaderEpochFileCache, segment: RemoteLogSegmentMetadata
    ) -> RemoteLogSegmentMetadata | None:
        """The finished copy to read on in, behind what of `segment` is of this lineage."""
        offset = lineage_end(epochs, segment)
        found = self.find(epochs, offset)
        if found is not None:
            return found
        for following in self._finished[bisect_right(self._finished, offset, key=_start) :]:
            if is_of_lineage(epochs, following, following.start_offset):
                return following
        return None

    def readable(self, epochs: LeaderEpochFileCache) -> list[RemoteLogSegmentMetadata]:
        """Finished copies with records of this lineage, by start offset."""
        return [segment for segment in self._finished if lineage_end(epochs, segment) > segment.start_offset]

    def end_offset(self, epochs: LeaderEpochFileCache) -> int | None:
        """Behind the last offset of this lineage that a finished copy holds; None without one."""
        found, reaches = None, self._reach()
        for number in range(len(reaches) - 1, -1, -1):
            if found is not None and reaches[number] < found:
                break
            segment = self._finished[number]
            end = lineage_end(epochs, segment)
            if end > segment.start_offset and (found is None or end > found):
                found = end
        return found

    def covered_to(self, epochs: LeaderEpochFileCache, start: int) -> int:
        """How far finished copies hold all of this lineage from `start` on; `start` where none does."""
        at = start
        while (segment := self.find(epochs, at)) is not None and (end := lineage_end(epochs, segment)) > at:
            at = end
        return at

    def _reach(self) -> list[int]:
        """How far the finished copies reach, up to each of them."""
        if self._reaches is None:
            self._reaches = list(accumulate((segment.end_offset for segment in self._finished), max))
        return self._reaches


def _start(segment: RemoteLogSegmentMetadata) -> int:
    return segment.start_offset


def _place(segment: RemoteLogSegmentMetadata) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset


def is_of_lineage(epochs: LeaderEpochFileCache, segment: RemoteLogSegmentMetadata, offset: int) -> bool:
    """Whether what the segment has at `offset` is what a log with these epochs has there."""
    if segment.is_cleaned:
        return segment.epochs[-1][0] >= epochs.epoch_for_offset(segment.end_offset)
    return segment.epoch_at(offset) == epochs.epoch_for_offset(offset) >= 0


def lineage_end(epochs: LeaderEpochFileCache, segment: RemoteLogSegmentMetadata) -> int:
    """The first offset from which on the segment is not this lineage's: behind its end where all of it is,
    its start where nothing is. What lies before the lineage's first epoch counts as part of it: the log was
    cut at its start since.
    """
    epoch = segment.epochs[-1][0]
    if len(segment.epochs) == 1 and (
        epochs.epoch_for_offset(segment.start_offset) == epoch == epochs.epoch_for_offset(segment.end_offset)
    ):
        return segment.end_offset + 1  # as nearly always; and there may be ten thousands of them
    known = epochs.entries()
    if segment.is_cleaned:
        whole = bool(known) and is_of_lineage(epochs, segment, segment.end_offset)
        return segment.end_offset + 1 if whole else segment.start_offset
    if not known or segment.end_offset < known[0][1]:
        return segment.start_offset
    bounds = [start for _, start in segment.epochs] + [start for _, start in known]
    at = max(segment.start_offset, known[0][1])
    if not is_of_lineage(epochs, segment, at):
        return segment.start_offset
    for bound in sorted(bounds):
        if at < bound <= segment.end_offset and not is_of_lineage(epochs, segment, bound):
            return bound
    return segment.end_offset + 1


class RemotePartitionMetadataStore:
    """The caches of all partitions that a node has read of. A partition is known once the records of its
    metadata partition have been read as far as they went when it was asked for first: `loaded`.
    """

    def __init__(self) -> None:
        self._logs: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self._loaded: set[TopicIdPartition] = set()

    def get(self, partition: TopicIdPartition) -> RemoteLogMetadataCache | None:
        """None: not read yet."""
        return self.known(partition) if partition in self._loaded else None

    def known(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """What is known so far, read to the end or not."""
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = RemoteLogMetadataCache()
        return log

    def apply(self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        log = self.known(record.partition)
        if isinstance(record, RemoteLogSegmentMetadata):
            log.apply(record)
        else:
            log.update(record)

    def load(self, partition: TopicIdPartition) -> None:
        """Everything about this partition has been read."""
        self._loaded.add(partition)

    def unload(self, partition: TopicIdPartition) -> None:
        """Its records are no longer read."""
        self._loaded.discard(partition)
        self._logs.pop(partition, None)

    def partitions(self) -> list[TopicIdPartition]:
        """All that records told of, also where no segment is left."""
        return list(self._logs)


class _Known(NamedTuple):
    of: tuple[RemoteLogMetadataCache, int, int]
    segments: list[RemoteLogSegmentMetadata]
    ends: list[int]


class ReadableSegments:
    """Logs' readable segments, listed once for as long as neither they nor the log's epochs change: there may
    be thousands, and every window and every lookup asks for them.
    """

    def __init__(self) -> None:
        self._known: dict[TopicIdPartition, _Known] = {}

    def of(self, log: UnifiedLog, remote: RemoteLogMetadataCache) -> list[RemoteLogSegmentMetadata]:
        """By start offset; not to be changed."""
        return self._find(log, remote).segments

    def ends(self, log: UnifiedLog, remote: RemoteLogMetadataCache) -> list[int]:
        """How far each of them is the log's: its `lineage_end`."""
        return self._find(log, remote).ends

    def _find(self, log: UnifiedLog, remote: RemoteLogMetadataCache) -> _Known:
        partition = TopicIdPartition(log.topic_id, log.topic_partition)
        known = self._known.get(partition)
        versions = remote, remote.version, log.leader_epoch_cache.version
        if known is None or known.of != versions:
            segments = remote.readable(log.leader_epoch_cache)
            known = _Known(
                versions, segments, [lineage_end(log.leader_epoch_cache, each) for each in segments]
            )
            self._known[partition] = known
        return known
