"""What walking a records section can find: the answers that compiled kernels and plain twins share.

Kernels answer in plain tuples, because making anything richer costs more than walking a small batch.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias


class Flaw(IntEnum):
    """What is wrong with a record; the twins find the same one first."""

    NONE = 0
    CUT_OFF = 1  # the section ends inside the record, or before there are as many as were counted
    SIZE = 2  # the record's size is negative or no number
    NUMBER = 3  # a number inside the record runs past its end or its width
    TIMESTAMP = 4  # base timestamp and delta leave 64 bits
    OFFSET_DELTA = 5  # not the record's index
    KEY_SIZE = 6
    VALUE_SIZE = 7
    HEADER_COUNT = 8
    HEADER_KEY_SIZE = 9
    HEADER_VALUE_SIZE = 10
    RECORD_END = 11  # the fields end before the record does
    TRAILING = 12  # bytes behind the last record


FLAW_TEXT: Final = {
    Flaw.CUT_OFF: "the batch ends before it does",
    Flaw.SIZE: "its size is not a size",
    Flaw.NUMBER: "a number in it does not end",
    Flaw.TIMESTAMP: "its timestamp does not fit 64 bits",
    Flaw.OFFSET_DELTA: "its offset delta is not its index",
    Flaw.KEY_SIZE: "its key does not fit",
    Flaw.VALUE_SIZE: "its value does not fit",
    Flaw.HEADER_COUNT: "its headers do not fit",
    Flaw.HEADER_KEY_SIZE: "a header's key is missing or does not fit",
    Flaw.HEADER_VALUE_SIZE: "a header's value does not fit",
    Flaw.RECORD_END: "its fields end before it does",
    Flaw.TRAILING: "bytes follow the last record",
}

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


def flaw_text(flaw: int, index: int) -> str:
    """The sentence for a person."""
    return f"record {index} of the batch: {FLAW_TEXT[Flaw(flaw)]}"


Scan: TypeAlias = tuple[int, int, int, int, int, int]
"""(flaw, index, max_timestamp, max_index, min_timestamp, null_keys), the answer of `scan_records`.

With a flaw, only its index means anything. `max_timestamp`, and `max_index`, the first record that has it,
are -1 where no timestamp is above -1. `min_timestamp` leaves out records without one (-1) and is INT64_MAX
where none has one.
"""

Found: TypeAlias = tuple[int, int, int, int, int]
"""(flaw, index, offset_delta, timestamp, position), the answer of `find_record`; index is -1 for none."""


class Spans(NamedTuple):
    """Where each record's parts are in its section, in columns of int64 that numpy takes without a copy.

    A size of -1 is a null. `headers_at` is behind the count of headers.
    """

    offsets: memoryview
    timestamps: memoryview
    key_at: memoryview
    key_size: memoryview
    value_at: memoryview
    value_size: memoryview
    headers_at: memoryview
    header_count: memoryview


SPAN_COLUMNS: Final = len(Spans._fields)


def span_columns(block: bytearray, count: int) -> Spans:
    """A block of 64 bytes per record, seen as columns."""
    numbers = memoryview(block).cast("q")
    return Spans._make(numbers[at * count : (at + 1) * count] for at in range(SPAN_COLUMNS))
