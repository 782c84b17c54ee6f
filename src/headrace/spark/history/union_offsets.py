"""Offsets of topics whose history is in a table: where they begin, and which part is read where.

The table is opened before the cluster is asked for anything, so what the log says is never older than the
table. It stays open in that version as long as a query plans; only where the log has lost what the version
lacks, a newer one is looked for, because retention waits for loads and not for readers.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients import OffsetSpec
from headrace.spark.data_loss import report_data_loss
from headrace.spark.history.held import HeldRange, Holdings
from headrace.spark.history.snapshot import FilePart, HistoryFile, HistorySnapshot, held_by, open_snapshot
from headrace.spark.offsets import Offsets, PartitionOffsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow

log = logging.getLogger(__name__)

_LAST_US: Final = (1 << 63) - 1


class PlacedRanges(NamedTuple):
    """What is read where."""

    from_table: list[OffsetRange]
    from_log: list[OffsetRange]


def cut(wanted: OffsetRange, held: HeldRange | None) -> PlacedRanges:
    """A range, cut where the table's part begins and ends."""
    if held is None:
        return PlacedRanges([], [wanted])
    inside = _between(wanted, held.first, held.end)
    outside = [_between(wanted, wanted.start, held.first), _between(wanted, held.end, wanted.end)]
    return PlacedRanges([inside] if inside.size > 0 else [], [each for each in outside if each.size > 0])


def _between(wanted: OffsetRange, first: int, end: int) -> OffsetRange:
    return OffsetRange(wanted.topic, wanted.partition, max(wanted.start, first), min(wanted.end, end))


class UnionOffsets(PartitionOffsets):
    """Asks a cluster and a table."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._snapshot: HistorySnapshot | None = None
        self._held: dict[TopicPartition, HeldRange | None] = {}
        self._is_checked = False
        self._is_used = False

    @property
    def snapshot(self) -> HistorySnapshot:
        """The table in the version that is read."""
        if self._snapshot is None:
            assert self._options.history is not None
            self._snapshot = open_snapshot(self._options.history)
            self._held = {}
        return self._snapshot

    def partitions(self, *, without_missing: bool = False) -> list[TopicPartition]:
        _ = self.snapshot  # first, see above
        return super().partitions(without_missing=without_missing)

    def held(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, HeldRange]:
        """What the table holds of these partitions, none where it holds nothing."""
        _ = self.snapshot  # forgets what an older one held
        wanted = list(partitions)
        new = [each for each in wanted if each not in self._held]
        if new:
            found = self._holdings(new).ranges
            self._held |= {each: found.get(each) for each in new}
        return {each: held for each in wanted if (held := self._held[each]) is not None}

    def parts(self, ranges: Iterable[OffsetRange]) -> PlacedRanges:
        """What of these ranges is read where. Records that are in neither place are told, and left out."""
        wanted = [each for each in ranges if each.size > 0]
        found = self._cut(wanted)
        if found.from_table and self._is_used:  # a stream's next batch: older versions' files are removed
            self._snapshot = None
            found = self._cut(wanted)
        begins = self._log_begins(found.from_log)
        if any(each.start < begins[each.topic_partition] for each in found.from_log):
            log.info("the log has lost what %s lacks: looking for a newer one", self.snapshot.place)
            self._snapshot = None
            found = self._cut(wanted)
            begins = self._log_begins(found.from_log)
        self._is_used = self._is_used or bool(found.from_table)
        return PlacedRanges(self._complete(found.from_table), self._there(found.from_log, begins))

    def _cut(self, wanted: list[OffsetRange]) -> PlacedRanges:
        held = self.held({each.topic_partition: None for each in wanted})
        pieces = [cut(each, held.get(each.topic_partition)) for each in wanted]
        return PlacedRanges(
            [inside for each in pieces for inside in each.from_table],
            [outside for each in pieces for outside in each.from_log],
        )

    def _log_begins(self, ranges: list[OffsetRange]) -> Offsets:
        partitions = {each.topic_partition: OffsetSpec.EARLIEST for each in ranges}
        return super()._at(dict(partitions))

    def _complete(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        for each in ranges:
            held = self._held[each.topic_partition]
            if held is not None and each.start < held.complete_from:
                report_data_loss(
                    f"{self.snapshot.place} has not all records of {each.topic_partition} before offset "
                    f"{held.complete_from}: they were lost before they were loaded",
                    self._options,
                )
        return ranges

    def _there(self, ranges: list[OffsetRange], begins: Offsets) -> list[OffsetRange]:
        found = []
        for each in ranges:
            begin = begins[each.topic_partition]
            if each.start < begin:
                lost = _between(each, each.start, begin)
                report_data_loss(
                    f"{lost} are neither in the log, which begins at {begin} now, nor in "
                    f"{self.snapshot.place}",
                    self._options,
                )
                each = _between(each, begin, each.end)
            found.append(each)
        return [each for each in found if each.size > 0]

    def _holdings(self, partitions: list[TopicPartition]) -> Holdings:
        if self._is_checked:
            return self.snapshot.holdings(partitions)
        if not self.topic_ids:
            super().partitions(without_missing=True)  # finds the ids
        self._is_checked = True
        return held_by(self.snapshot, partitions, self.topic_ids, is_committed=self._options.is_committed)

    # Times

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Here a lower bound will do, which files have: their rows are looked at one by one."""
        found = {each: none_if_missing(offset) for each, offset in super()._at(times).items()}
        for each, own in self.held(times).items():
            window = TimeWindow(times[each] * 1000, _LAST_US)
            candidates = [
                max(own.first, file.bounds["offset"].least) if "offset" in file.bounds else own.first
                for file in self._files(each, own, window)
            ]
            found[each] = least([*candidates, found[each]])
        return found

    def _first_at(self, partition: TopicPartition, own: HeldRange, time_ms: int) -> int | None:
        """The first offset in the table at or after a time."""
        from headrace.spark.history.file_rows import part_rows

        window = TimeWindow(time_ms * 1000, _LAST_US)
        wanted = OffsetRange(*partition, own.first, own.end)
        found: int | None = None
        for file in self._files(partition, own, window):
            if found is not None and "offset" in file.bounds and file.bounds["offset"].least >= found:
                continue
            for rows in part_rows(FilePart(file, [wanted]), ("offset",), window):
                found = least([found, min(rows.column(0).to_pylist())])
        return found

    def _files(self, partition: TopicPartition, own: HeldRange, window: TimeWindow) -> list[HistoryFile]:
        """Files that may have records of a partition and a time, in order of their offsets."""
        wanted = OffsetRange(*partition, own.first, own.end)
        found = [each for each in self.snapshot.files() if each.parts([wanted]) and each.is_within(window)]
        return sorted(found, key=lambda file: file.bounds["offset"].least if "offset" in file.bounds else -1)

    def _at(self, times: Mapping[TopicPartition, int]) -> Offsets:
        held = self.held(times)
        found = super()._at(times)
        for each, own in held.items():
            if times[each] == OffsetSpec.EARLIEST:
                found[each] = min(found[each], own.first)
            elif times[each] == OffsetSpec.LATEST:
                found[each] = self._end(each, own, found[each])
            elif times[each] >= 0:
                earlier = least([self._first_at(each, own, times[each]), none_if_missing(found[each])])
                found[each] = found[each] if earlier is None else earlier
        return found

    def _end(self, partition: TopicPartition, own: HeldRange, end: int) -> int:
        if end < own.end:
            report_data_loss(
                f"{partition} ends at offset {end} now, before {own.end}, up to which it was loaded into "
                f"{self.snapshot.place}: the log was cut",
                self._options,
            )
        return max(end, own.end)


def none_if_missing(offset: int) -> int | None:
    return None if offset < 0 else offset


def least(offsets: Iterable[int | None]) -> int | None:
    """The least of those that there are."""
    return min((each for each in offsets if each is not None), default=None)
