"""From fetched bytes to the records sections that a reader should see.

Batches are walked by their headers. A cut-off batch at the end is left for the next fetch, as brokers may
send one. Left out are batches that end before the offset asked for, control batches, and for who reads only
what is committed the batches of aborted transactions: a fetch lists these by producer and first offset, and
each lasts until the producer's abort marker. What remains is checked against its CRC.

All sections end up in one buffer, so that one call of a kernel can take them apart: the fetched bytes
themselves if they are one buffer without compression, otherwise a joined copy of what was unpacked.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.batch import ControlType, read_control_type
from headrace.records.codecs import UnpackedTooLargeError, decompress
from headrace.records.header import HEADER_BYTES, BatchHeader, batches, crc_matches
from headrace.records.kernel_choice import RECORD_BYTES_MIN
from headrace.records.kernels_columns_plain import BATCH_COLUMNS

# Arrow counts the bytes of a column in 31 bits, and nobody wants as much at once.
SECTION_BYTES_MAX: Final = 512 * 1024 * 1024


class AbortedTransaction(NamedTuple):
    """As a fetch response lists them."""

    producer_id: int
    first_offset: int


class Sections(NamedTuple):
    """What is to be taken apart."""

    body: NDArray[np.uint8]
    table: NDArray[np.int64]  # see `kernels_columns_plain.BATCH_COLUMNS`
    next_offset: int  # behind the last whole batch, seen or left out; -1 where there is none
    is_whole: bool  # False where the limit came before the last whole batch


def find_sections(
    buffers: Sequence[Buffer],
    *,
    from_offset: int,
    aborted: Iterable[AbortedTransaction] | None,
    bytes_max: int = SECTION_BYTES_MAX,
) -> Sections:
    """The records to be read, up to `bytes_max` when unpacked; the first batch must fit."""
    chosen: list[tuple[BatchHeader, int, Buffer]] = []
    left, next_offset, is_whole = bytes_max, -1, True
    for buffer, at, header in _visible(buffers, from_offset, aborted):
        if at >= 0:
            section: Buffer = memoryview(buffer)[at + HEADER_BYTES : at + header.size]
            try:
                section = _unpack(header, section, left)
            except UnpackedTooLargeError:
                if not chosen:
                    raise
                next_offset, is_whole = header.base_offset, False
                break
            chosen.append((header, at + HEADER_BYTES, section))
            left -= len(section)
        next_offset = header.next_offset
    if len(buffers) == 1 and not any(header.codec for header, _, _ in chosen):
        body = buffers[0]
        starts: Iterable[int] = (at for _, at, _ in chosen)
    else:
        body = b"".join([section for _, _, section in chosen])
        starts = accumulate((len(section) for _, _, section in chosen[:-1]), initial=0)
    rows = [_row(header, at, len(section)) for (header, _, section), at in zip(chosen, starts, strict=False)]
    table = np.array(rows, np.int64).reshape(len(rows), BATCH_COLUMNS)
    return Sections(np.frombuffer(body, np.uint8), table, next_offset, is_whole)


def _unpack(header: BatchHeader, section: Buffer, limit_bytes: int) -> Buffer:
    if header.codec:
        section = decompress(header.codec, section, limit_bytes=limit_bytes)
    elif len(section) > limit_bytes:
        raise UnpackedTooLargeError(
            f"the batch of offset {header.base_offset} has {len(section)} bytes, the limit is {limit_bytes}"
        )
    count = header.record_count
    if count < 0 or count * RECORD_BYTES_MIN > len(section):
        raise InvalidBytesError(
            f"the batch of offset {header.base_offset}: {len(section)} bytes cannot hold {count} records"
        )
    return section


def _row(header: BatchHeader, start: int, size: int) -> tuple[int, ...]:
    base = header.base_offset, header.base_timestamp
    by_log = int(header.log_append_time)
    return start, start + size, header.record_count, *base, by_log, header.max_timestamp


def _visible(
    buffers: Iterable[Buffer], from_offset: int, aborted: Iterable[AbortedTransaction] | None
) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """Each whole batch with its position; -1 for one that is to be left out."""
    waiting = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    for buffer in buffers:
        for at, header in batches(buffer):
            if header.is_control or header.is_transactional:
                while waiting and waiting[-1].first_offset <= header.last_offset:
                    aborting.add(waiting.pop().producer_id)
            if header.last_offset < from_offset and not header.is_control:
                yield buffer, -1, header
                continue
            if not crc_matches(buffer, at, header):
                raise InvalidBytesError(f"the batch of offset {header.base_offset} does not match its CRC")
            if header.is_control:
                if aborting and read_control_type(buffer, at) is ControlType.ABORT:
                    aborting.discard(header.producer_id)
                yield buffer, -1, header
            elif header.is_transactional and header.producer_id in aborting:
                yield buffer, -1, header
            else:
                yield buffer, at, header
