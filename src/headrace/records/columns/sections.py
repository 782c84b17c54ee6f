"""From fetched bytes to the records sections that a reader should see.

Batches are walked by their headers. A cut-off batch at the end is left for the next fetch, as brokers may
send one. Left out are batches that end before the offset asked for, control batches, and for who reads only
what is committed the batches of aborted transactions: a fetch lists these by producer and first offset, and
each lasts until the producer's abort marker. What remains is checked against its CRC.

All sections end up in one buffer, so that one call of a kernel can take them apart: the fetched bytes
themselves if they are one buffer without compression, otherwise a joined copy of what was unpacked.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.batch import ControlType, read_control_type
from headrace.records.codecs import UnpackedTooLargeError, decompress
from headrace.records.header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    batches,
)
from headrace.records.kernels.choice import RECORD_BYTES_MIN

# Arrow counts the bytes of a column in 31 bits, and nobody wants as much at once.
SECTION_BYTES_MAX: Final = 512 * 1024 * 1024
_NOT_PLAIN: Final = TRANSACTIONAL | CONTROL
BATCH_COLUMNS: Final = 7
"""What `decode_rows` is told of a batch: where its records start and end, how many there are, base offset,
base timestamp, whether the log's append time counts (0 or 1), and that time."""

_NO_END: Final = (1 << 63) - 1


class AbortedTransactionLike(Protocol):
    """An aborted transaction; those of a fetch response will do.

    One that also has a `last_offset`, that of its marker, ends there even if a compaction has taken the
    marker out since the list was made.
    """

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransaction(NamedTuple):
    """One that no response has listed."""

    producer_id: int
    first_offset: int


class Sections(NamedTuple):
    """What is to be taken apart."""

    body: NDArray[np.uint8]
    table: NDArray[np.int64]  # see BATCH_COLUMNS
    next_offset: int  # behind the last whole batch, seen or left out; -1 where there is none
    is_whole: bool  # False where the limit came before the last whole batch


def find_sections(
    buffers: Sequence[Buffer],
    *,
    from_offset: int,
    aborted: Iterable[AbortedTransactionLike] | None,
    bytes_max: int = SECTION_BYTES_MAX,
    until_offset: int = _NO_END,
) -> Sections:
    """The records to be read, up to `bytes_max` when unpacked; the first batch must fit.

    Batches that begin at `until_offset` or behind it are not looked at; others are taken to their end.
    """
    found = _Found(bytes_max)
    hidden = _Hidden(aborted or ())
    next_offset, is_whole = -1, True
    for buffer in buffers:
        view = memoryview(buffer)
        for at, header in batches(view):
            # Unpacked at once: with small batches, each look at a property would show in the rate.
            base_offset, length, _, _, crc, attributes, offset_delta, _, _, producer_id, _, _, _ = header
            if base_offset >= until_offset:
                return found.joined(buffers, next_offset, is_whole)
            last_offset = base_offset + offset_delta
            if attributes & _NOT_PLAIN:
                hidden.reach(last_offset)
            if last_offset >= from_offset or attributes & CONTROL:
                end = at + LOG_OVERHEAD + length
                if crc32c(view[at + ATTRIBUTES_OFFSET : end]) != crc:
                    raise InvalidBytesError(f"the batch of offset {base_offset} does not match its CRC")
                if attributes & CONTROL:
                    hidden.read_marker(view, at, producer_id)
                elif not (attributes & TRANSACTIONAL and hidden.hides(producer_id, base_offset)):
                    is_whole = found.add(header, at + HEADER_BYTES, view[at + HEADER_BYTES : end])
                    if not is_whole:
                        return found.joined(buffers, base_offset, is_whole)
            next_offset = last_offset + 1
    return found.joined(buffers, next_offset, is_whole)


def check_count(header: BatchHeader, size: int) -> None:
    """InvalidBytesError where a section of this size has no room for the records that a header promises."""
    count = header.record_count
    if count < 0 or count * RECORD_BYTES_MIN > size:
        raise InvalidBytesError(
            f"the batch of offset {header.base_offset}: {size} bytes cannot hold {count} records"
        )


class _Hidden:
    """Whose transactional batches are to be left out, while the log is walked."""

    def __init__(self, aborted: Iterable[AbortedTransactionLike]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._last_offsets: dict[int, int] = {}  # by producer, while its transaction lasts

    def reach(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            txn = self._waiting.pop()
            self._last_offsets[txn.producer_id] = getattr(txn, "last_offset", _NO_END)

    def hides(self, producer_id: int, offset: int) -> bool:
        return self._last_offsets.get(producer_id, -1) >= offset

    def read_marker(self, buffer: Buffer, at: int, producer_id: int) -> None:
        if producer_id in self._last_offsets and read_control_type(buffer, at) is ControlType.ABORT:
            del self._last_offsets[producer_id]


class _Found:
    """The sections so far, unpacked."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._sections: list[Buffer] = []
        self._rows: list[tuple[int, ...]] = []
        self._is_packed = False

    def add(self, header: BatchHeader, at: int, section: Buffer) -> bool:
        """Returns False where the section does not fit any more; raises where it never would."""
        _, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = header
        try:
            if attributes & CODEC_MASK:
                section = decompress(attributes & CODEC_MASK, section, limit_bytes=self._left)
                self._is_packed = True
            elif len(section) > self._left:
                raise UnpackedTooLargeError(
                    f"the batch of offset {header.base_offset} has {len(section)} bytes of records"
                )
        except UnpackedTooLargeError:
            if not self._sections:
                raise
            return False
        size = len(section)
        check_count(header, size)
        self._left -= size
        self._sections.append(section)
        by_log = int(attributes & LOG_APPEND_TIME != 0)
        self._rows.append((at, at + size, count, header[0], base_timestamp, by_log, max_timestamp))
        return True

    def joined(self, buffers: Sequence[Buffer], next_offset: int, is_whole: bool) -> Sections:
        """All of it in one buffer: the fetched one itself where the records are in it as they are."""
        table = np.array(self._rows, np.int64).reshape(len(self._rows), BATCH_COLUMNS)
        if len(buffers) == 1 and not self._is_packed:
            body = buffers[0]
        else:
            body = b"".join(self._sections)
            table[:, 1] = np.cumsum(table[:, 1] - table[:, 0])
            table[1:, 0] = table[:-1, 1]
            table[:1, 0] = 0
        return Sections(np.frombuffer(body, np.uint8), table, next_offset, is_whole)
