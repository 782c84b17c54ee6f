"""The kernels in use: plain Python from the first moment, compiled ones as soon as they are loaded.

Importing numba takes a quarter of a second and some 60 MB, so a node starts without it and calls
`load_compiled` in a background thread. It replaces the functions of `kernels` one by one; each replacement
is a single assignment and the twins answer alike, so a reader meets either the one or the other and need
not know which. Whoever holds `kernels` sees the change; nobody should hold one of its functions.

`warm` is for set-up: it compiles what no cache holds yet, so that no node has to.
"""

from collections.abc import Callable
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records import kernels_plain, produce_run
from headrace.records.flaws import SPAN_COLUMNS, Flaw, Found, Scan, Spans, flaw_text, span_columns

# Size, attributes, two deltas, two lengths and a count of headers: one byte each.
RECORD_BYTES_MIN: Final = 7


class Kernels:
    """One attribute per kernel; see `kernels_plain` for what each answers."""

    __slots__ = (
        "compiled",
        "fill_spans",
        "find_record",
        "murmur2",
        "murmur2_spans",
        "produce_run",
        "scan_records",
        "siphash_spans",
    )

    def __init__(self) -> None:
        self.compiled = False
        self.scan_records: Callable[[Buffer, int, int], Scan] = kernels_plain.scan_records
        self.find_record: Callable[[Buffer, int, int, int, int], Found] = kernels_plain.find_record
        self.fill_spans: Callable[[Buffer, int, int, int, bytearray], tuple[int, int]] = (
            kernels_plain.fill_spans
        )
        self.produce_run: Callable[
            [Buffer, int, int], tuple[produce_run.RunHead, list[produce_run.RunRow]]
        ] = produce_run.produce_run
        self.murmur2: Callable[[Buffer], int] = kernels_plain.murmur2
        self.murmur2_spans: Callable[[Buffer, memoryview, memoryview, memoryview], None] = (
            kernels_plain.murmur2_spans
        )
        self.siphash_spans: Callable[[Buffer, memoryview, memoryview, int, int, memoryview], None] = (
            kernels_plain.siphash_spans
        )


kernels: Final = Kernels()


def load_compiled() -> None:
    """Import numba and switch to compiled kernels. Blocks: call it from a thread. Again is harmless."""
    from headrace.records import kernels_compiled

    kernels.scan_records = kernels_compiled.scan_records
    kernels.find_record = kernels_compiled.find_record
    kernels.fill_spans = kernels_compiled.fill_spans
    kernels.produce_run = kernels_compiled.produce_run
    kernels.murmur2 = kernels_compiled.murmur2
    kernels.murmur2_spans = kernels_compiled.murmur2_spans
    kernels.siphash_spans = kernels_compiled.siphash_spans
    kernels.compiled = True


def warm() -> None:
    """Compile every kernel into numba's cache, and run them to see that they work."""
    load_compiled()
    record = bytes((14, 0, 0, 0, 2, 65, 1, 0))
    assert kernels.scan_records(record, 1, 0) == (Flaw.NONE, 1, 0, 0, 0, 0)
    hash_keys(record, decode_spans(record, 1, base_offset=0, base_timestamp=0), (0, 0))
    from headrace.records import (
        kernels_cleaning_compiled,  # a node loads these when it first compacts
        kernels_walking,  # noqa: F401 - and these when it first reads remotely
    )
    from headrace.records.columns_arrow import column_kernels  # for clients: no node loads these

    assert kernels_cleaning_compiled.shift_records(record, 0, 8, 1, 0, bytearray(8), 0) == 8
    column_kernels()


def decode_spans(body: Buffer, count: int, *, base_offset: int, base_timestamp: int) -> Spans:
    """Where each part of each record is; InvalidBytesError where these are not `count` records."""
    if count < 0 or count * RECORD_BYTES_MIN > len(body):
        raise InvalidBytesError(f"{len(body)} bytes cannot hold {count} records")
    block = bytearray(8 * SPAN_COLUMNS * count)
    flaw, index = kernels.fill_spans(body, count, base_offset, base_timestamp, block)
    if flaw:
        raise InvalidBytesError(flaw_text(flaw, index))
    return span_columns(block, count)


def hash_keys(body: Buffer, spans: Spans, secret: tuple[int, int]) -> memoryview:
    """128 bits for each key as two uint64, for telling keys apart; zeros for a null."""
    hashes = memoryview(bytearray(16 * len(spans.key_at))).cast("Q")
    kernels.siphash_spans(body, spans.key_at, spans.key_size, *secret, hashes)
    return hashes


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition that Kafka's Java producer and its likes choose for a key."""
    return (kernels.murmur2(key) & 0x7FFFFFFF) % partition_count
