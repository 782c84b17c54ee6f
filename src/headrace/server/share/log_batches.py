"""The record batches of a piece of the log, as a share partition needs them: where each begins and ends.

Their headers are read, not their records, unless their keys are asked for. A batch that is a transaction's
marker, has no records left, or belongs to an aborted transaction where only committed records are wanted, is
not handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.base.chunks import FileSlice
from headrace.records.batch import (
    HEADER_BYTES,
    STORED_UNPACKED_BYTES_MAX,
    BatchHeader,
    read_header,
    read_headers,
    records_section,
)
from headrace.records.kernels.choice import decode_spans
from headrace.server.share.acquiring import LogBatch
from headrace.server.share.in_flight_batch import Acquired
from headrace.server.share.key_order import IN_ORDER, KeyedBatch, LooksFor

# Some hundred small batches, or one large one: more is only read where more is handed out.
WINDOW_BYTES: Final = 16 * 1024

DELIVER_AT: Final = "headrace-deliver-at-ms"
"""The header with a record's delivery time: milliseconds since 1970, in digits."""
DIGITS_MAX: Final = 18
TICK_MS: Final = 100
"""A record may come later than it says by this much, so that many that come together are one range."""

Piece = FileSlice | memoryview | bytes


class _Place(NamedTuple):
    base_offset: int
    last_offset: int
    position: int
    end: int


class LogBatches:
    """Walks over the batches of a piece as far as it is asked to. `aborted` are (producer id, first offset)
    of transactions whose records are not wanted."""

    def __init__(self, piece: Piece, aborted: list[tuple[int, int]] | None = None) -> None:
        self._piece = piece
        self._aborted = sorted(aborted or (), key=lambda each: each[1], reverse=True)
        self._open_aborted: set[int] = set()
        self._places: list[_Place] = []

    def __iter__(self) -> Iterator[LogBatch]:
        for position, header in self._headers():
            end = position + header.size
            self._places.append(_Place(header.base_offset, header.last_offset, position, end))
            yield LogBatch(header.base_offset, header.last_offset, self._is_wanted(header))

    def with_keys(
        self, looks: LooksFor = IN_ORDER, *, now_ms: int = 0, monotonic_ms: int = 0
    ) -> Iterator[KeyedBatch]:
        """The same with each record's key and delivery time, for which the records are unpacked. Times that
        are over by now are left out, and the others are by the monotonic clock."""
        since_ms = now_ms - monotonic_ms
        for position, header in self._headers():
            if self._is_wanted(header):
                yield _look_into(self._read(position, header.size), header, looks, now_ms, since_ms)
            else:
                yield KeyedBatch(header.base_offset, header.last_offset, [], [])

    def cover(self, acquired: list[Acquired]) -> Piece:
        """The part of the piece that holds what was acquired."""
        if not acquired:
            return b""
        first, last = acquired[0].first_offset, max(each.last_offset for each in acquired)
        begin = next(place.position for place in self._places if place.last_offset >= first)
        end = next(place.end for place in self._places if place.last_offset >= last)
        return self._cut(begin, end)

    def cover_sparsely(self, acquired: list[Acquired]) -> Piece:
        """Only the batches that hold what was acquired, which may be far from each other."""
        runs: list[list[int]] = []
        left = iter(acquired)
        wanted = next(left, None)
        for place in self._places:
            while wanted is not None and wanted.last_offset < place.base_offset:
                wanted = next(left, None)
            if wanted is None:
                break
            if wanted.first_offset <= place.last_offset:
                if runs and runs[-1][1] == place.position:
                    runs[-1][1] = place.end
                else:
                    runs.append([place.position, place.end])
        if len(runs) == 1:
            return self._cut(*runs[0])
        return b"".join(self._read(begin, end - begin) for begin, end in runs)

    def _cut(self, begin: int, end: int) -> Piece:
        if isinstance(self._piece, FileSlice):
            return FileSlice(self._piece.file, self._piece.position + begin, end - begin)
        return self._piece[begin:end]

    def _headers(self) -> Iterator[tuple[int, BatchHeader]]:
        size, position, window_start = len(self._piece), 0, 0
        window = b""
        while size - position >= HEADER_BYTES:
            if position + HEADER_BYTES > window_start + len(window):
                window, window_start = self._read(position, min(WINDOW_BYTES, size - position)), position
            header = read_header(window, position - window_start)
            if position + header.size > size:
                return  # the piece ends inside of a batch
            yield position, header
            position += header.size

    def _read(self, position: int, count: int) -> bytes:
        if isinstance(self._piece, FileSlice):
            return self._piece.file.read(self._piece.position + position, count)
        return bytes(self._piece[position : position + count])

    def _is_wanted(self, header: BatchHeader) -> bool:
        while self._aborted and self._aborted[-1][1] <= header.last_offset:
            self._open_aborted.add(self._aborted.pop()[0])
        if header.is_control:
            self._open_aborted.discard(header.producer_id)  # the marker that ends it
            return False
        if header.record_count == 0:
            return False
        return not (header.is_transactional and header.producer_id in self._open_aborted)


def _look_into(batch: bytes, header: BatchHeader, looks: LooksFor, now_ms: int, since_ms: int) -> KeyedBatch:
    """InvalidBytesError where the records cannot be read."""
    body = records_section(batch, header, limit_bytes=STORED_UNPACKED_BYTES_MAX)
    spans = decode_spans(
        body, header.record_count, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    data = body if isinstance(body, bytes) else bytes(body)
    offsets: list[int] = spans.offsets.tolist()
    keys: list[int | None] = [None] * len(offsets)
    if looks.keys:
        places = zip(spans.key_at, spans.key_size, strict=True)
        keys = [hash(data[at : at + size]) if size >= 0 else None for at, size in places]
    times_ms = {}
    if looks.times:
        for offset, at, count in zip(offsets, spans.headers_at, spans.header_count, strict=True):
            time_ms = _delivery_time(data, at, count) if count else 0
            if time_ms > now_ms:
                times_ms[offset] = -((since_ms - time_ms) // TICK_MS) * TICK_MS
    return KeyedBatch(header.base_offset, header.last_offset, offsets, keys, times_ms)


def _delivery_time(data: bytes, at: int, count: int) -> int:
    """0 where there is none, or one that makes no sense."""
    for name, value in read_headers(data, at, count):
        if name == DELIVER_AT:
            text = value or b""
            return int(text) if text.isdigit() and len(text) < DIGITS_MAX else 0
    return 0
