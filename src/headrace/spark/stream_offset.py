"""Where a micro-batch ends, as the checkpoint has it, and what the batch reads by it.

Spark writes the end of each batch (`StreamOffset`) before it runs, and starts the next one there. Two kinds
of start are not the end of an earlier batch: where batch 0 begins, and where a partition begins that came (or
came back) while the query ran. Both may be a moving target ("latest", or the oldest record that retention has
left), and Spark asks for them again after a restart. So the end of the batch carries them, and what a
repeated batch reads follows from the checkpoint alone:

    {"orders": {"0": 23, "1": 7}, "@start": {"orders": {"1": 0}}}

Beside them it has the topics' ids (`@ids`): a topic that was deleted and made again has another one, however
far it has grown since. Without all that it is the connector's own JSON, so a query can take over the
connector's checkpoint, and older ones of ours; the ids are known from the next batch on. `@` is no letter of
a topic's name.

A Spark that does not say where a batch begins when it asks for its end (4.0 and 4.1) gets `@first` instead
while that is not known: where the batch begins if it is batch 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.spark.offsets import Offsets, offsets_from_json, offsets_json
from headrace.spark.ranges import OffsetRange

_START: Final = "@start"
_FIRST: Final = "@first"
_INITIAL: Final = "@initial"
_IDS: Final = "@ids"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The end of a batch, or where the first one begins."""

    offsets: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of partitions whose start is not the end of the batch before."""
    is_initial: bool = False
    """Nothing was read yet, and nothing of this is written down."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Of the topics, as far as they are known."""
    first: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where partitions begin if this is the end of batch 0, from whoever did not know whether it is."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(offsets_json(self.offsets))
        if self.starts:
            found[_START] = offsets_json(self.starts)
        if self.first:
            found[_FIRST] = offsets_json(self.first)
        if self.is_initial:
            found[_INITIAL] = True
        if self.ids:
            found[_IDS] = dict(sorted(self.ids.items()))
        return found

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "StreamOffset":
        topics = {name: numbers for name, numbers in given.items() if not name.startswith("@")}
        return cls(
            offsets_from_json(topics),
            offsets_from_json(given.get(_START, {})),
            bool(given.get(_INITIAL)),
            dict(given.get(_IDS, {})),
            offsets_from_json(given.get(_FIRST, {})),
        )

    def remade(self, ids: Mapping[str, str]) -> set[str]:
        """The topics that are not those of this offset any more, though they have their names."""
        return {name for name, own in self.ids.items() if ids.get(name, own) != own}

    def followed_by(
        self,
        ends: Mapping[TopicPartition, int],
        begins: Mapping[TopicPartition, int],
        ids: Mapping[str, str] | None = None,
    ) -> "StreamOffset":
        """The end of the next batch, which reads from `begins` to `ends`."""
        known = {} if self.is_initial else self.offsets
        starts = {each: begins[each] for each in ends if known.get(each) != begins[each]}
        topics = {each.topic for each in ends}
        known_ids = {name: own for name, own in (ids or {}).items() if name in topics}
        return StreamOffset(dict(ends), starts, ids=known_ids)


def batch_ranges(start: StreamOffset, end: StreamOffset) -> tuple[list[OffsetRange], list[TopicPartition]]:
    """What the batch that ends there reads, and partitions of it whose start nobody has said.

    The connector leaves those open: they begin at their oldest record.
    """
    ranges: list[OffsetRange] = []
    unsaid: list[TopicPartition] = []
    if start == end:  # an end that was kept for want of news; its starts are those of an earlier batch
        return ranges, unsaid
    begins = {**start.offsets, **(end.first if start.is_initial else {}), **end.starts}
    for each, until in sorted(end.offsets.items()):
        begin = begins.get(each)
        if begin is None:
            unsaid.append(each)
        elif begin < until:
            ranges.append(OffsetRange(*each, begin, until))
    return ranges, unsaid


def limited(begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int) -> Offsets:
    """Ends with `most` offsets in all, shared by how far each partition is behind; none is starved, so there
    may be as many more as there are partitions."""
    behind = {each: max(0, end - begins[each]) for each, end in latest.items()}
    total = sum(behind.values())
    if total <= most:
        return dict(latest)
    ends, before = dict(latest), 0
    for each, size in behind.items():
        if size:
            # Rounding is carried on: a backlog of n times `most` takes n batches, and no small one more.
            share = most * (before + size) // total - most * before // total
            ends[each] = begins[each] + max(1, share)
            before += size
    return ends
