"""What the kernels of compaction and their callers share: why a kernel came back, and the places of numbers
in the arrays that go in and out.

The `params` are what a compaction was asked to do and do not change while a kernel runs; the `counters`
count what went into the offset map, the `state` of a writer what was written of a new segment. All are int64.

The map has entries of 24 bytes: 16 of a key's hash, 8 of its last offset plus one, so that zero is free.
Behind the last slot it may have a bit for each offset from `START` to before `NOTED_END`, which says whether
a later record with the same key has been met: callers that ask for it need no hash.

A run is a row of numbers about batches that lie one behind the other and are in the map as a whole; a span is
what becomes of a part of a segment (`BatchRuns`).
"""

from enum import IntEnum
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.records.header import CODEC_MASK, CONTROL, TRANSACTIONAL, BatchHeader

ENTRY_BYTES: Final = 24
ENTRY_WORDS: Final = ENTRY_BYTES // 8

OTHERS: Final = CODEC_MASK | TRANSACTIONAL | CONTROL
"""Batches that the kernels hand back."""


class StopReason(IntEnum):
    """Why a kernel came back."""

    MORE = 0  # it has seen all whole batches
    FULL = 1  # the table takes no more keys, or the output has no room for the batch
    OTHER = 2  # the batch's attributes have a bit that the caller wants to see itself
    BAD_HEADER = 3
    BAD_CRC = 4
    BAD_RECORD = 5


class Parameter(IntEnum):
    """Places in the parameters."""

    SLOTS = 0  # of the table
    START = 1  # records before this offset stay out of the table
    ENTRIES_MAX = 2  # keys that the table may take
    SECRET_0 = 3  # of the hash
    SECRET_1 = 4
    LATEST = 5  # the last offset that the table knows of: what lies behind it is kept as it is
    NOW_MS = 6
    HORIZON_MS = 7  # when delete markers that are met for the first time may go
    INTERVAL = 8  # bytes between two entries of the new index
    BASE = 9  # the new segment's first offset
    NOTED_END = 10  # behind the last offset that has a bit; 0: none has


class MapCounter(IntEnum):
    """Places in the counters."""

    ENTRIES = 0  # keys in the table
    LATEST = 1  # the last offset that was looked at
    RECORDS = 2
    TOMBSTONES = 3  # of the records
    RUNS = 4  # runs of batches that are noted
    RUN_BYTES = 5  # up to which a run goes on with the next batch; -1: no more are noted


class WriterState(IntEnum):
    """Places in a state."""

    OUT = 0  # bytes in the output that were not taken out yet
    POSITION = 1  # bytes of the new segment so far
    SINCE = 2  # of them since the last entry of the index
    MAX_TIME = 3  # the largest timestamp so far
    MAX_TIME_OFFSET = 4  # and the last offset of its batch, relative to the segment's first
    INDEX = 5  # bytes of the new index
    TIMES = 6  # bytes of the new time index
    LAST_TIME = 7  # the timestamp of its last entry
    READ = 8  # records seen
    KEPT = 9  # records written


class RunColumn(IntEnum):
    """Columns of a run."""

    FIRST = 0  # its first offset
    END = 1  # the offset behind its last
    POSITION = 2  # where it begins, counted on from file to file
    END_POSITION = 3
    RECORDS = 4
    TOMBSTONES = 5
    LIVE = 6  # records that are the last of their keys


class SpanColumn(IntEnum):
    """Columns of a span."""

    START = 0  # in the segment's file
    END = 1
    ACTION = 2
    RECORDS = 3  # where it is skipped


class SpanAction(IntEnum):
    """What is done with a span."""

    CLEAN = 0  # each record is looked up
    COPY = 1  # all of it stays
    SKIP = 2  # all of it goes


class PackedColumn(IntEnum):
    """Columns of a packed batch that was unpacked with others."""

    AT = 0  # where it is in the window
    SIZE = 1
    BODY_AT = 2  # where its records are in what was unpacked
    BODY_END = 3
    RECORDS = 4
    KEPT = 5  # of the records, once they were looked up
    TOMBSTONES = 6  # of those that are kept
    MAX_TIME = 7  # of those that are kept
    KEPT_AT = 8  # where those that are kept are, if some go
    KEPT_END = 9


_FLAWS: Final = {
    StopReason.BAD_HEADER: "has no batch's header",
    StopReason.BAD_CRC: "has a batch whose CRC does not match",
    StopReason.BAD_RECORD: "has a batch with a record that cannot be read",
}


class BadBatchError(InvalidBytesError):
    """A batch is damaged; `at` is where it is in the bytes that were given."""

    def __init__(self, code: int, at: int) -> None:
        self.at = at
        self.flaw = _FLAWS[StopReason(code)]
        super().__init__(f"byte {at} {self.flaw}")


def bad_record(header: BatchHeader) -> InvalidBytesError:
    return InvalidBytesError(f"offset {header.base_offset} {_FLAWS[StopReason.BAD_RECORD]}")
