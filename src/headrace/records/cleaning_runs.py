"""Runs of batches: what compaction remembers of the dirty part of a log from its first walk to its second.

Each batch that is in the table of keys as a whole is noted with the run it belongs to. When the table is
filled, one pass over it counts how many records of each run live. A run in which nothing lives need not be
read again, one in which everything lives is copied as it is, and neither is unpacked again; every record is
looked up in the others, and in what was not noted: the clean part, transactions, batches without records.

The book has a fixed size. While there is room a run is one batch; when there is none, neighbours are joined.
"""

from typing import Any, Final, NamedTuple

from headrace.records.cleaning_layout import Fate, Run, Span, Tally

RUN_BYTES: Final = 8 * len(Run)

# What a plan for one segment may take: 2 MiB. The rest of the segment is cleaned record by record.
SPANS_MAX: Final = 1 << 16
PLACES: Final = 1 << 15
"""By which runs are found when the living are counted: 256 KiB, which stay in a core's cache."""


class Part(NamedTuple):
    """A part of a segment's file, and what becomes of it; `records` only where it is skipped."""

    start: int
    end: int
    fate: int
    records: int


class RunBook:
    """The runs of one round; `tally` is that of the table of keys."""

    def __init__(self, size_bytes: int, tally: memoryview) -> None:
        self._rows_max = size_bytes // RUN_BYTES
        self._tally = tally
        self.rows = memoryview(bytearray(0)).cast("q")
        self._origins: dict[int, tuple[int, int]] = {}
        self._next_origin = 0

    def begin(self) -> None:
        """Forget everything."""
        self.rows = memoryview(bytearray(self._rows_max * RUN_BYTES)).cast("q")
        self._tally[Tally.RUNS] = 0
        self._tally[Tally.RUN_BYTES] = 0 if self._rows_max > 1 else -1
        self._origins = {}
        self._next_origin = 0

    def drop(self) -> None:
        """Give the memory back."""
        self.rows = memoryview(bytearray(0)).cast("q")

    def open(self, base_offset: int, size: int) -> int:
        """Go on with the segment of that name: the position of its first byte. No two segments' bytes are
        neighbours, so that no run goes over an end."""
        origin = self._next_origin
        self._origins[base_offset] = origin, size
        self._next_origin = origin + size + 1
        return origin

    def count_live(self, kernels: Any, table: bytearray | memoryview, slots: int) -> None:
        """Find out what lives, once the table is filled. Blocks for milliseconds."""
        places = memoryview(bytearray(8 * PLACES)).cast("q")
        kernels.count_live(table, slots, self.rows, self._tally[Tally.RUNS], places)

    def parts(
        self,
        kernels: Any,
        base_offset: int,
        size: int,
        *,
        keeps_last: bool,
        bytes_min: int,
        kept_offsets: memoryview,
    ) -> list[Part]:
        """What becomes of the parts of a segment, one behind the other. `keeps_last`: its last batch stays,
        even without a record, as those do that end with one of `kept_offsets`."""
        count = self._tally[Tally.RUNS]
        origin, known_size = self._origins.get(base_offset, (0, -1))
        if known_size != size or not count or not size:
            return [Part(0, size, Fate.CLEAN, 0)]
        rows = min(2 * count + 3, SPANS_MAX)
        spans = memoryview(bytearray(8 * len(Span) * rows)).cast("q")
        planned = kernels.plan_spans(
            self.rows, count, origin, size, int(keeps_last), bytes_min, kept_offsets, spans
        )
        numbers = iter(spans[: planned * len(Span)].tolist())
        return [Part(*row) for row in zip(numbers, numbers, numbers, numbers, strict=True)]
