"""The `.txnindex` file: a segment's aborted transactions, for consumers that read committed records only.

Entries are 34 bytes: version (int16, 0), producer id, first offset, last offset (that of the marker), and the
last stable offset when the marker was written (int64 each), in the order of their markers. An entry belongs
to the segment that holds the marker, which may be a later one than that of the records. The file exists only
where there is an entry.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError

ENTRY_BYTES: Final = 34
VERSION: Final = 0

_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """A transaction whose records no read_committed consumer may see."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return _ENTRY.pack(VERSION, *self)


def read_aborted(data: Buffer) -> Iterator[AbortedTxn]:
    """The entries of a file, oldest first; InvalidBytesError at the first that cannot be one."""
    if len(data) % ENTRY_BYTES:
        raise InvalidBytesError(f"its {len(data)} bytes are not a multiple of {ENTRY_BYTES}")
    last_offset = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTxn(*fields)
        if version != VERSION:
            raise InvalidBytesError(f"an entry has version {version}, known is {VERSION}")
        if not 0 <= entry.first_offset <= entry.last_offset or entry.last_offset < last_offset:
            raise InvalidBytesError(f"{entry} does not follow an entry that ends at {last_offset}")
        last_offset = entry.last_offset
        yield entry
