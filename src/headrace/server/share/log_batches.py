"""The record batches of a piece of the log, as a share partition needs them: where each begins and ends.

Their headers are read, not their records. A batch that is a transaction's marker, has no records left, or
belongs to an aborted transaction where only committed records are wanted, is not handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.base.chunks import FileSlice
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.server.share.acquiring import LogBatch
from headrace.server.share.in_flight_batch import Acquired

# Some hundred small batches, or one large one: more is only read where more is handed out.
WINDOW_BYTES: Final = 16 * 1024

Piece = FileSlice | memoryview | bytes


class _Place(NamedTuple):
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
            self._places.append(_Place(header.last_offset, position, position + header.size))
            yield LogBatch(header.base_offset, header.last_offset, self._is_wanted(header))

    def cover(self, acquired: list[Acquired]) -> Piece:
        """The part of the piece that holds what was acquired."""
        if not acquired:
            return b""
        first, last = acquired[0].first_offset, max(each.last_offset for each in acquired)
        begin = next(place.position for place in self._places if place.last_offset >= first)
        end = next(place.end for place in self._places if place.last_offset >= last)
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
