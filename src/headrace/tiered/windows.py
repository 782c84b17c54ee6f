"""A window: some megabytes of a remote segment in memory, whole batches, with the place of each.

It is read in one range, by position. Batches are walked once, when it arrives: their CRCs are checked (a
store may give back other bytes than it was given, and a reader that gets them would be stuck), and where each
starts and ends is noted. A request then takes a slice by bisection and never looks at records.

A window covers offsets from `first_offset` up to `end_offset`, also those that compaction took out, so
windows of neighbours leave no gap between them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.file_names import LOG
from headrace.log.transaction_index import AbortedTxn
from headrace.records.header import read_header
from headrace.records.kernels.batches import walk_batches
from headrace.tiered.remote_index_cache import RemoteIndexCache
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, read_into, store_of
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata

EVERYTHING: Final = (1 << 63) - 1


class AbortedTransactions(NamedTuple):
    """Aborted transactions that concern a window, as far as markers before `known_to` tell; those of later
    markers are in the log's local part.
    """

    transactions: list[AbortedTxn]
    known_to: int


class SegmentWindow:
    """Whole batches of one remote segment."""

    __slots__ = (
        "_ends",
        "_starts",
        "aborted",
        "buffer",
        "data",
        "end_offset",
        "first_offset",
        "is_last",
        "is_spent",
        "next_position",
        "segment",
        "used_at",
    )

    def __init__(
        self, segment: RemoteLogSegmentMetadata, data: memoryview, *, position: int, first_offset: int
    ) -> None:
        """`data` starts with a batch, at this position of the segment, and may end inside of one.
        InvalidBytesError where it is anything else.
        """
        self.segment = segment
        self.data = data
        self.buffer: bytearray | None = None  # what `data` lies in, if it is to be used again
        starts, self._ends, whole = walk_batches(data)
        if whole < len(data) == segment.size - position:
            raise InvalidBytesError(f"the batch at byte {whole}, the segment's last, is cut off")
        starts.append(whole)
        self._starts = starts
        self.next_position = position + whole
        self.is_last = self.next_position == segment.size
        self.first_offset = first_offset
        self.end_offset = self._ends[-1] if self._ends else first_offset
        if self.is_last:
            self.end_offset = segment.end_offset + 1
        self.aborted: AbortedTransactions | None = None
        self.is_spent = False  # somebody has read it to its end
        self.used_at = 0.0

    def __len__(self) -> int:
        """The bytes it takes."""
        return len(self.data) if self.buffer is None else len(self.buffer)

    def holds(self, offset: int) -> bool:
        return self.first_offset <= offset < self.end_offset

    def cut(
        self, offset: int, *, max_bytes: int, max_offset: int, at_least_one: bool
    ) -> tuple[memoryview, int]:
        """Batches from the one that holds `offset` on, and the offset behind them; none where `max_bytes` is
        less than the first, unless `at_least_one` asks for it, or where there are none below `max_offset`.
        """
        first = bisect_right(self._ends, offset)
        last = bisect_right(self._ends, max_offset)
        if first >= last:
            return memoryview(b""), min(self.end_offset, max_offset) if last == len(self._ends) else offset
        start = self._starts[first]
        fitting = bisect_right(self._starts, start + max_bytes) - 1
        if fitting <= first:
            if not at_least_one:
                return memoryview(b""), offset
            fitting = first + 1
        last = min(last, fitting)
        upper = self.end_offset if last == len(self._ends) else self._ends[last - 1]
        return self.data[start : self._starts[last]], min(upper, max_offset)


def read_window(
    store: RemoteStorageManager,
    segment: RemoteLogSegmentMetadata,
    *,
    position: int,
    first_offset: int,
    buffer: bytearray,
) -> SegmentWindow:
    """As much of a segment as the buffer holds, or the one batch that is larger. Blocks. InvalidBytesError
    where what comes does not start with a batch.
    """
    data = memoryview(buffer)[: segment.size - position]
    _fill(store, segment, position, data)
    window = SegmentWindow(segment, data, position=position, first_offset=first_offset)
    if window.next_position > position:
        window.buffer = buffer
        return window
    batch = memoryview(bytearray(min(read_header(data).size, segment.size - position)))
    _fill(store, segment, position, batch)
    return SegmentWindow(segment, batch, position=position, first_offset=first_offset)


def _fill(
    store: RemoteStorageManager, segment: RemoteLogSegmentMetadata, position: int, data: memoryview
) -> None:
    name = segment.object_name(LOG)
    count = read_into(store_of(store, segment), name, position, data)
    if count != len(data):
        end = position + len(data)
        raise RemoteStorageError(f"{name} gave {count} bytes for {position} to {end}, it has {segment.size}")


def load_window(
    store: RemoteStorageManager,
    indexes: RemoteIndexCache,
    segment: RemoteLogSegmentMetadata,
    offset: int,
    buffer: bytearray,
) -> SegmentWindow:
    """The window that starts with the batch which the index has for `offset`, or with one before. Blocks."""
    for is_last_try in (False, True):
        _, position = indexes.offsets(segment).lookup(offset)
        try:
            window = read_window(store, segment, position=position, first_offset=offset, buffer=buffer)
            base = read_header(window.data).base_offset if position else segment.start_offset
            if base > offset:
                raise InvalidBytesError(f"the index leads to offset {base} for {offset}")
            window.first_offset = base
            return window
        except InvalidBytesError:
            if is_last_try:
                raise
            indexes.discard(segment)  # it may be the cached index that is wrong
    raise AssertionError


def find_aborted(
    indexes: RemoteIndexCache,
    segments: Iterable[RemoteLogSegmentMetadata],
    window: SegmentWindow,
    known_to: int,
) -> AbortedTransactions:
    """Aborted transactions with records in a window. Markers may lie in later segments, so those from the
    window's own on are asked, until one says that all was decided; `segments` end at `known_to`. Blocks.
    """
    found = []
    for segment in segments:
        for txn in indexes.aborted(segment):
            if txn.last_offset >= window.first_offset and txn.first_offset < window.end_offset:
                found.append(txn)
            if txn.last_stable_offset >= window.end_offset:
                return AbortedTransactions(found, EVERYTHING)
    return AbortedTransactions(found, known_to)


def window_at(windows: list[SegmentWindow], offset: int) -> SegmentWindow | None:
    """The one that holds `offset`, of windows that are sorted by their first offsets."""
    number = bisect_left(windows, offset + 1, key=lambda window: window.first_offset) - 1
    while number >= 0:
        if windows[number].holds(offset):
            return windows[number]
        number -= 1
    return None
