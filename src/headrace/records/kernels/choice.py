"""The kernels in use: as they are written from the first moment, compiled as soon as those are loaded.

Importing numba takes half a second and 85 MB, so a node starts without it and calls `load_compiled` in a
background thread. It replaces the functions of `kernels` one by one; each replacement is a single assignment
and both forms answer alike, so a caller meets either the one or the other and need not know which. Whoever
holds `kernels` sees the change; nobody should hold one of its functions. What is called once for many batches
is asked for with `in_use`, and compiled when it is first needed: most processes never compact.

`warm` is for set-up: it compiles what no cache holds yet, so that no node has to.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.kernels import hashes, produce, records
from headrace.records.kernels.produce import RunHead, RunRow
from headrace.records.kernels.records import SPAN_COLUMNS, RecordFlaw, RecordSpans, flaw_text, span_columns

_F = TypeVar("_F", bound=Callable[..., Any])

# Size, attributes, two deltas, two lengths and a count of headers: one byte each.
RECORD_BYTES_MIN: Final = 7


class Kernels:
    """One attribute for each kernel that is called for each batch or key."""

    __slots__ = (
        "compiled",
        "fill_spans",
        "find_record",
        "murmur2",
        "murmur2_spans",
        "produce_run",
        "scan_records",
    )

    def __init__(self) -> None:
        self.compiled = False
        self.scan_records = records.scan_records
        self.find_record = records.find_record
        self.fill_spans = records.fill_spans
        self.produce_run: Callable[[Buffer, int, int], tuple[RunHead, list[RunRow]]] = produce.produce_run
        self.murmur2 = hashes.murmur2
        self.murmur2_spans = hashes.murmur2_spans


kernels: Final = Kernels()
_faces: Final[dict[Any, Any]] = {}


def load_compiled() -> None:
    """Import numba and switch to compiled kernels. Blocks: call it from a thread. Again is harmless."""
    from headrace.records.kernels.compiler import compiled_run, face

    kernels.scan_records = face(records.scan_records)
    kernels.find_record = face(records.find_record)
    kernels.fill_spans = face(records.fill_spans)
    kernels.produce_run = compiled_run()
    kernels.murmur2 = face(hashes.murmur2)
    kernels.murmur2_spans = face(hashes.murmur2_spans)
    kernels.compiled = True


def in_use(function: _F) -> _F:
    """A kernel in the form that serves now."""
    if not kernels.compiled:
        return function
    found: _F | None = _faces.get(function)
    if found is None:
        from headrace.records.kernels.compiler import face

        found = _faces[function] = face(function)
    return found


def warm() -> None:
    """Compile every kernel into numba's cache, and run some to see that they work."""
    load_compiled()
    from headrace.records.kernels import (
        batches,
        columns,  # noqa: F401 - compiled by being imported
        compaction_mapping,
        compaction_packed,
        compaction_rewriting,
        compaction_runs,
    )

    record = bytes((14, 0, 0, 0, 2, 65, 1, 0))
    assert kernels.scan_records(record, 1, 0) == (RecordFlaw.NONE, 1, 0, 0, 0, 0)
    hash_keys(record, decode_spans(record, 1, base_offset=0, base_timestamp=0), (0, 0))
    in_use(batches.fill_walk)
    in_use(compaction_mapping.map_batches)
    in_use(compaction_packed.gather_packed)
    in_use(compaction_runs.count_live)
    assert in_use(compaction_rewriting.shift_records)(record, 0, 8, 1, 0, bytearray(8), 0) == 8


def decode_spans(body: Buffer, count: int, *, base_offset: int, base_timestamp: int) -> RecordSpans:
    """Where each part of each record is; InvalidBytesError where these are not `count` records."""
    if count < 0 or count * RECORD_BYTES_MIN > len(body):
        raise InvalidBytesError(f"{len(body)} bytes cannot hold {count} records")
    block = memoryview(bytearray(8 * SPAN_COLUMNS * count)).cast("q")
    flaw, index = kernels.fill_spans(body, count, base_offset, base_timestamp, block)
    if flaw:
        raise InvalidBytesError(flaw_text(flaw, index))
    return span_columns(block, count)


def hash_keys(body: Buffer, spans: RecordSpans, secret: tuple[int, int]) -> memoryview:
    """128 bits for each key as two uint64, for telling keys apart; zeros for a null."""
    found = memoryview(bytearray(16 * len(spans.key_at))).cast("Q")
    in_use(hashes.siphash_spans)(body, spans.key_at, spans.key_size, *secret, found)
    return found


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition that Kafka's Java producer and its likes choose for a key."""
    return (kernels.murmur2(key) & 0x7FFFFFFF) % partition_count
