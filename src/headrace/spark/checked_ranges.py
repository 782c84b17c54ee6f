"""Which offsets a query has looked at already, told to another query that wants only what was wrong there.

A pipeline's dead letters are a query of their own, with a checkpoint and exactly-once delivery of their own.
Read by itself it would fetch and parse its feed a second time, to find almost nothing. So the pipeline's main
query tells what it has found, batch by batch, in a file (`CheckedLog`), and the source of the other one
(option `checkedFile`) goes as far as the main query has got, and leaves out what was found to be clean
(`CheckedRanges`).

It is a hint and nothing else: of offsets that the file does not tell of, because another process looked at
them, everything is read, and what is read is parsed and filtered again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.spark.offsets import Offsets, offsets_from_json, offsets_json
from headrace.spark.ranges import OffsetRange

BLOCK_OFFSETS: Final = 1024
"""Where something is wrong, as many offsets around it are read again: most batches have none, or few."""
BLOCKS_MAX: Final = 1000
"""Of one batch; where there are more, all of it is read again."""

Interval = tuple[int, int]


class CheckedLog:
    """Writes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def note(self, read: Iterable[OffsetRange], bad: Iterable[OffsetRange], at: Offsets) -> None:
        """A batch has looked at `read` and is at `at` now; whatever is wrong lies in `bad`."""
        line = {"read": list(map(_as_list, read)), "bad": list(map(_as_list, bad)), "at": offsets_json(at)}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


class CheckedRanges:
    """Reads it, a little more each time."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._position = 0
        self._read: dict[TopicPartition, list[Interval]] = {}
        self._bad: dict[TopicPartition, list[Interval]] = {}
        self._at: Offsets | None = None

    def refresh(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self._position += len(line)
                self._take(json.loads(line))

    @property
    def is_silent(self) -> bool:
        """Nothing was told yet."""
        return self._at is None

    def reached(self, latest: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]) -> Offsets:
        """How far to go: no further than who looks first. Before that one is heard of, nowhere."""
        known = self._at or {}
        return {each: max(start.get(each, 0), min(end, known.get(each, 0))) for each, end in latest.items()}

    def left(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """What of these ranges may have something wrong in it."""
        found = []
        for each in ranges:
            where = each.topic_partition
            unknown = _without((each.start, each.end), self._read.get(where, ()))
            bad = [_cut(every, (each.start, each.end)) for every in self._bad.get(where, ())]
            for start, end in _joined([*unknown, *(every for every in bad if every[0] < every[1])]):
                found.append(OffsetRange(*where, start, end))
        return found

    def forget(self, done: Mapping[TopicPartition, int]) -> None:
        """Nothing below these offsets is asked for again, but the batch that ends there."""
        for known in (self._read, self._bad):
            for where, intervals in known.items():
                known[where] = [each for each in intervals if each[1] > done.get(where, 0)]

    def _take(self, line: Mapping[str, Any]) -> None:
        for known, ranges in ((self._read, line["read"]), (self._bad, line["bad"])):
            for topic, partition, start, end in ranges:
                where = TopicPartition(topic, partition)
                known[where] = _joined([*known.get(where, ()), (start, end)])
        self._at = offsets_from_json(line["at"])


def _as_list(given: OffsetRange) -> list[Any]:
    return [given.topic, given.partition, given.start, given.end]


def _cut(inner: Interval, outer: Interval) -> Interval:
    return max(inner[0], outer[0]), min(inner[1], outer[1])


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """In order, those that touch put together."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _without(whole: Interval, taken: Sequence[Interval]) -> list[Interval]:
    """What is left of an interval; those that are taken away come in order."""
    left, (at, end) = [], whole
    for start, until in taken:
        if start > at:
            left.append((at, min(start, end)))
        at = max(at, until)
        if at >= end:
            break
    if at < end:
        left.append((at, end))
    return [each for each in left if each[0] < each[1]]
