"""The offset map of compaction: the last offset of each key in the dirty part of a log, and the runs of
batches there.

An `OffsetMap` is one bounded buffer of 24-byte entries with open addressing. Keys are told apart by 128 bits
of a hash that is keyed with a secret, so that nobody can choose keys which collide. A round uses as many
slots as it can have keys, and clears no more than those. Batches that are compressed or part of a transaction
are handed back: the caller decides, unpacks, and gives the records.
"""

from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.records.compaction.layout import (
    ENTRY_BYTES,
    ENTRY_WORDS,
    OTHERS,
    BadBatchError,
    MapCounter,
    Parameter,
    RunColumn,
    SpanAction,
    SpanColumn,
    StopReason,
    bad_record,
)
from headrace.records.compaction.packed_batches import BatchUnpacker, UnpackedBatches
from headrace.records.header import BatchHeader
from headrace.records.kernels.choice import in_use, kernels
from headrace.records.kernels.compaction_mapping import map_batch, map_batches
from headrace.records.kernels.compaction_packed import map_packed
from headrace.records.kernels.compaction_runs import count_live, plan_spans

UNKNOWN: Final = -(1 << 62)
"""The position of batches that are not to be noted."""

_INT64_MAX: Final = (1 << 63) - 1

RUN_BYTES: Final = 8 * len(RunColumn)

# What a plan for one segment may take: 2 MiB. The rest of the segment is cleaned record by record.
SPANS_MAX: Final = 1 << 16
PLACES: Final = 1 << 15
"""By which runs are found when the living are counted: 256 KiB, which stay in a core's cache."""


class SegmentPart(NamedTuple):
    """A part of a segment's file, and what becomes of it; `records` only where it is skipped."""

    start: int
    end: int
    action: int
    records: int


class BatchRuns:
    """Runs of batches: what compaction remembers of the dirty part of a log from its first walk to its
    second.

    Each batch that is in the map as a whole is noted with the run it belongs to. When the map is filled, one
    pass over it counts how many records of each run live. A run in which nothing lives need not be read
    again, one in which everything lives is copied as it is, and neither is unpacked again; every record is
    looked up in the others, and in what was not noted: the clean part, transactions, batches without records.

    The runs of one round have a fixed size. While there is room a run is one batch; when there is none,
    neighbours are joined. `counters` are those of the offset map.
    """

    def __init__(self, size_bytes: int, counters: memoryview) -> None:
        self._rows_max = size_bytes // RUN_BYTES
        self._counters = counters
        self.rows = memoryview(bytearray(0)).cast("q")
        self._origins: dict[int, tuple[int, int]] = {}
        self._next_origin = 0

    def begin(self) -> None:
        """Forget everything."""
        self.rows = memoryview(bytearray(self._rows_max * RUN_BYTES)).cast("q")
        self._counters[MapCounter.RUNS] = 0
        self._counters[MapCounter.RUN_BYTES] = 0 if self._rows_max > 1 else -1
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

    def count_live(self, table: memoryview, slots: int) -> None:
        """Find out what lives, once the map is filled. Blocks for milliseconds."""
        places = memoryview(bytearray(8 * PLACES)).cast("q")
        in_use(count_live)(table, slots, self.rows, self._counters[MapCounter.RUNS], places)

    def parts(
        self,
        base_offset: int,
        size: int,
        *,
        keeps_last: bool,
        bytes_min: int,
        kept_offsets: memoryview,
    ) -> list[SegmentPart]:
        """What becomes of the parts of a segment, one behind the other. `keeps_last`: its last batch stays,
        even without a record, as those do that end with one of `kept_offsets`."""
        count = self._counters[MapCounter.RUNS]
        origin, known_size = self._origins.get(base_offset, (0, -1))
        if known_size != size or not count or not size:
            return [SegmentPart(0, size, SpanAction.CLEAN, 0)]
        rows = min(2 * count + 3, SPANS_MAX)
        spans = memoryview(bytearray(8 * len(SpanColumn) * rows)).cast("q")
        planned = in_use(plan_spans)(
            self.rows, count, origin, size, int(keeps_last), bytes_min, kept_offsets, spans
        )
        numbers = iter(spans[: planned * len(SpanColumn)].tolist())
        return [SegmentPart(*row) for row in zip(numbers, numbers, numbers, numbers, strict=True)]


_NOTHING: Final = memoryview(b"").cast("Q")


def _new_table(words: int) -> memoryview:
    """Zeros."""
    if not kernels.compiled:
        return memoryview(bytearray(8 * words)).cast("Q")
    import numpy as np  # loaded by now

    # A large array has large pages: entries are looked up all over it, and most misses are spared.
    return np.zeros(words, np.uint64).data


def _signed(number: int) -> int:
    return number - (number >> 63 << 64)


class OffsetMap:
    """The last offset of each key, the runs of batches that are in the map, and which of their records are
    superseded, in `size_bytes`, `runs_bytes` and `notes_bytes` of memory."""

    def __init__(
        self,
        size_bytes: int,
        load_factor: float,
        secret: tuple[int, int],
        *,
        runs_bytes: int = 0,
        notes_bytes: int = 0,
    ) -> None:
        self._slots_max = max(size_bytes // ENTRY_BYTES, 2)
        self._notes_words_max = notes_bytes // 8
        # The setting has no limits of its own: a table must have room for a key, and slots that are free.
        self._load_factor = min(max(load_factor, 0.01), 1.0)
        self._data = _NOTHING
        self._counters = memoryview(bytearray(8 * len(MapCounter))).cast("q")
        self.params = memoryview(bytearray(8 * len(Parameter))).cast("q")
        self.params[Parameter.SECRET_0], self.params[Parameter.SECRET_1] = map(_signed, secret)
        self._runs = BatchRuns(runs_bytes, self._counters)
        self.unpacker = BatchUnpacker()

    @property
    def data(self) -> memoryview:
        return self._data

    @property
    def latest(self) -> int:
        """The last offset that the table knows of."""
        return self._counters[MapCounter.LATEST]

    @property
    def records(self) -> int:
        return self._counters[MapCounter.RECORDS]

    def __len__(self) -> int:
        return self._counters[MapCounter.ENTRIES]

    def begin(self, start: int, end: int) -> None:
        """Forget everything; keys of the records from `start` to before `end` are to come. Call it from a
        thread: it touches all the memory it will use."""
        # Fuller than this a table of open addresses is slow, whatever it is allowed to be.
        wanted = int((end - start) / min(self._load_factor, 0.75)) + 2
        slots = min(wanted, self._slots_max)
        notes_words = min((end - start + 63) // 64, self._notes_words_max)
        self._data = _new_table(slots * ENTRY_WORDS + notes_words)
        self._runs.begin()
        self._counters[MapCounter.ENTRIES] = self._counters[MapCounter.RECORDS] = self._counters[
            MapCounter.TOMBSTONES
        ] = 0
        self._counters[MapCounter.LATEST] = start - 1
        params = self.params
        params[Parameter.SLOTS], params[Parameter.START] = slots, start
        params[Parameter.NOTED_END] = start + 64 * notes_words if notes_words else 0
        # One slot stays free, or a search for a key that is not there would never end.
        params[Parameter.ENTRIES_MAX] = max(1, min(int(self._slots_max * self._load_factor), slots - 1))

    def open(self, base_offset: int, size: int) -> int:
        """Batches of that segment come next: what to add to their positions in its file."""
        return self._runs.open(base_offset, size)

    def add(self, data: Buffer, at: int, end: int, *, position: int = UNKNOWN) -> tuple[StopReason, int]:
        """Take in whole batches; why it ended, and where. InvalidBytesError at a batch that is damaged.
        `position` is that of the buffer's first byte."""
        code, at = in_use(map_batches)(
            data, at, end, OTHERS, position, self._data, self.params, self._counters, self._runs.rows
        )
        if code > StopReason.OTHER:
            raise BadBatchError(code, at)
        return StopReason(code), at

    def add_records(self, body: Buffer, header: BatchHeader, *, position: int = UNKNOWN) -> bool:
        """Take in the records of a batch that `add` handed back; False where the table is full. `position` is
        the batch's own, where nothing but the table decides what becomes of it."""
        if header.last_offset < self.params[Parameter.START]:
            return True
        code = in_use(map_batch)(
            body,
            0,
            len(body),
            header.record_count,
            header.base_offset,
            header.last_offset,
            position,
            header.size,
            self._data,
            self.params,
            self._counters,
            self._runs.rows,
        )
        if code == StopReason.BAD_RECORD:
            raise bad_record(header)
        return bool(code == StopReason.MORE)

    def unpack(self, data: Buffer, at: int, end: int) -> UnpackedBatches | None:
        """The packed batches from `at` on, if they are some and can be unpacked together."""
        return self.unpacker.unpack(data, at, end, first=self.params[Parameter.START], last=_INT64_MAX)

    def add_unpacked(self, data: Buffer, found: UnpackedBatches, *, position: int) -> tuple[StopReason, int]:
        """Take in batches that `unpack` gave; FULL or MORE, and where in `data` it ended. `position` is that
        of the buffer's first byte."""
        code, count = in_use(map_packed)(
            data,
            found.body,
            found.rows,
            found.batches,
            position,
            self._data,
            self.params,
            self._counters,
            self._runs.rows,
        )
        at, size, *_ = found.row(min(count, found.batches - 1))
        if code == StopReason.BAD_RECORD:
            raise BadBatchError(code, at)
        return StopReason(code), at + (size if count == found.batches else 0)

    def count_live(self) -> None:
        """Everything is in the table: find out what lives in each run. Call it from a thread."""
        self._runs.count_live(self._data, self.params[Parameter.SLOTS])

    def parts(
        self, base_offset: int, size: int, *, keeps_last: bool, bytes_min: int, kept_offsets: memoryview
    ) -> list[SegmentPart]:
        """What becomes of the parts of a segment: see `BatchRuns.parts`."""
        return self._runs.parts(
            base_offset,
            size,
            keeps_last=keeps_last,
            bytes_min=bytes_min,
            kept_offsets=kept_offsets,
        )

    def skip_to(self, offset: int) -> None:
        """Up to `offset` there is nothing that the table must know."""
        self._counters[MapCounter.LATEST] = max(self._counters[MapCounter.LATEST], offset)

    def drop(self) -> None:
        """Give the memory back."""
        self._data = _NOTHING
        self._runs.drop()
