"""What the main query of a pipeline tells its dead letters: which of an input's offsets it has looked at.

Spark reports of each batch where its sources began and ended, and what was counted on the way (`observe`).
From that follows where something could not be parsed, and that the rest is clean, as long as the query has
looked at all rows: one with a LIMIT may not, nor may a function of the user's. There, and where a join had
nothing to join with, offsets count as looked at only where as many rows were counted; a feed of transactions
has fewer, since their ends take an offset each.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.node.temporary_folder import TemporaryFolder
from headrace.spark.checked_ranges import BLOCK_OFFSETS, BLOCKS_MAX, CheckedLog
from headrace.spark.pipeline.spec import InputSpec, PipelineSpec
from headrace.spark.ranges import OffsetRange
from headrace.spark.source_progress import told_offset
from headrace.spark.stream_offset import StreamOffset, batch_ranges

# How many rows an input had, and where those lie that could not be parsed, as batches report it.
LOOKED_AT: Final = "looked_at"
BAD_BLOCKS: Final = "bad_blocks"
_PLACES: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class CheckedInput:
    """An input, and what tells of it."""

    name: str
    topics: frozenset[str] | None
    """None for those of a pattern: there is no other input then."""
    may_stop_early: bool
    log: CheckedLog

    def source(self, progress: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """That of a progress which reads this input; None where it cannot be told."""
        sources = progress.get("sources") or []
        if self.topics is None:
            return sources[0] if len(sources) == 1 else None
        found = [each for each in sources if _topics(_offset(each, "endOffset")) == self.topics]
        return found[0] if len(found) == 1 else None

    def note(self, progress: Mapping[str, Any], counts: Mapping[str, Any] | None, *, has_run: bool) -> None:
        """Tell of a batch; `counts` are those of this input, None where there were none."""
        source = self.source(progress)
        end = None if source is None else _offset(source, "endOffset")
        if source is None or end is None or not end.offsets:
            return
        ranges: list[OffsetRange] = []
        bad: list[OffsetRange] = []
        if has_run and counts is not None:
            ranges, bad = self._looked_at(_offset(source, "startOffset"), end, counts)
        self.log.note(ranges, bad, dict(end.offsets))

    def _looked_at(
        self, start: StreamOffset, end: StreamOffset, counts: Mapping[str, Any]
    ) -> tuple[list[OffsetRange], list[OffsetRange]]:
        ranges, _ = batch_ranges(start, end)
        rows, size = int(counts[LOOKED_AT]), sum(each.size for each in ranges)
        if rows == 0 or (self.may_stop_early and rows != size):
            return [], []
        blocks = counts[BAD_BLOCKS]
        return ranges, ranges if len(blocks) > BLOCKS_MAX else [_block(each) for each in blocks]


def checked_input(spec: PipelineSpec, given: InputSpec, columns: Sequence[str]) -> CheckedInput | None:
    """An input whose dead letters can be told of; None where batches do not say which input they are of."""
    others = [each for each in spec.inputs if each.files_kind is None and each is not given]
    topics = None if given.pattern is not None else frozenset(given.topics.split(","))
    is_alone = not others or (topics is not None and not any(_may_share(each, topics) for each in others))
    chooses = {"subscribe", "subscribepattern", "assign"} & {name.lower() for name in given.options}
    if not is_alone or chooses or not set(_PLACES) <= set(columns):
        return None
    may_stop = spec.is_python or re.search(r"\blimit\b", spec.body, re.IGNORECASE) is not None
    folder = TemporaryFolder("dead-letters").path
    return CheckedInput(given.name, topics, may_stop, CheckedLog(folder / "checked.jsonl"))


def _may_share(other: InputSpec, topics: frozenset[str]) -> bool:
    return other.pattern is not None or bool(topics & set(other.topics.split(",")))


def _block(place: Mapping[str, Any]) -> OffsetRange:
    first = place["block"] * BLOCK_OFFSETS
    return OffsetRange(place["topic"], place["partition"], first, first + BLOCK_OFFSETS)


def _topics(offset: StreamOffset) -> set[str]:
    return {each.topic for each in offset.offsets}


def _offset(source: Mapping[str, Any], name: str) -> StreamOffset:
    return StreamOffset.from_json(told_offset(source.get(name)))
