"""A segment's three indexes as one thing that can be loaded, written out and dropped.

While a segment is active its offset and time index live in memory and may be behind on disk: a crash rebuilds
them from the log. `deactivate` writes them out; from then on they are read when asked for, and the pool may
drop them any time. They are read, not mapped: a failing disk under a map, or a file cut by somebody else,
would end the whole process instead of failing one directory. A new segment has no index files: they come when
it is rolled, or when the log is closed and it has grown past `index.interval.bytes`, so that a partition with
few records costs none. Entries of the transaction index
are rare and go to the file at once; reading keeps them until the pool takes them back.
"""

from typing import Final

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.log.file_names import INDEX, TIME_INDEX, TXN_INDEX
from headrace.log.offset_index import OffsetIndex
from headrace.log.storage import Storage
from headrace.log.time_index import TimeIndex
from headrace.log.transaction_index import ENTRY_BYTES as TXN_ENTRY_BYTES
from headrace.log.transaction_index import AbortedTxn, read_aborted

MISSING: Final = "the file is missing"
OBJECT_BYTES: Final = 256  # what an index takes besides its entries, about
NO_ABORTED: Final = (0, 0)
"""How many entries a transaction index has, and their CRC-32C."""


class SegmentIndexes:
    """Indexes of the segment whose files start with `stem`."""

    __slots__ = (
        "_aborted",
        "_offsets",
        "_storage",
        "_times",
        "aborted_seal",
        "active",
        "base_offset",
        "has_aborted",
        "has_files",
        "stem",
        "touched",
    )

    def __init__(
        self, storage: Storage, stem: str, base_offset: int, *, has_aborted: bool, has_files: bool
    ) -> None:
        self._storage = storage
        self.stem = stem
        self.base_offset = base_offset
        self.has_aborted = has_aborted
        self.has_files = has_files
        self.active = False
        self.touched = False
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._aborted: list[AbortedTxn] | None = None
        self.aborted_seal = NO_ABORTED  # as far as the transaction index has been read or written

    # -- reading ---------------------------------------------------------------------------------------------

    def offsets(self, segment_bytes: int) -> OffsetIndex:
        """The offset index; InvalidBytesError where its file is missing or cannot belong to such a
        segment."""
        self.touched = True
        if self._offsets is None:
            index = OffsetIndex(self.base_offset, self._load(INDEX))
            index.check(segment_bytes)
            self._offsets = index
        return self._offsets

    def times(self) -> TimeIndex:
        """The time index; InvalidBytesError where its file is missing or broken."""
        self.touched = True
        if self._times is None:
            index = TimeIndex(self.base_offset, self._load(TIME_INDEX))
            index.check()
            self._times = index
        return self._times

    def aborted(self) -> list[AbortedTxn]:
        """The segment's aborted transactions; InvalidBytesError where their file is broken."""
        if not self.has_aborted:
            return []
        self.touched = True
        if self._aborted is None:
            data = self._load(TXN_INDEX)
            self._aborted = list(read_aborted(data))
            self.aborted_seal = len(self._aborted), crc32c(data)
        return self._aborted

    def check_aborted(self, count: int, crc: int) -> None:
        """InvalidBytesError where the transaction index does not begin with these entries."""
        if not self.has_aborted:
            raise InvalidBytesError(MISSING)
        head = b"".join(txn.encode() for txn in self.aborted()[:count])
        if len(head) != count * TXN_ENTRY_BYTES or crc32c(head) != crc:
            raise InvalidBytesError(f"its first {count} entries are not those that were written")

    def _load(self, suffix: str) -> bytes:
        if not self.has_files and suffix != TXN_INDEX:
            return b""
        try:
            data = self._storage.disk.read_file(self.stem + suffix)
        except FileNotFoundError:
            raise InvalidBytesError(MISSING) from None
        self._storage.indexes.admit(self, len(data) + OBJECT_BYTES)
        return data

    def release(self) -> None:
        """Drop what was read; the pool calls it for indexes that were not used lately."""
        if not self.active:
            self._offsets = self._times = None
            self._aborted = None

    # -- the active segment ----------------------------------------------------------------------------------

    def reset(self) -> None:
        """Start with empty offset and time indexes in memory, as a new or a recovered segment does."""
        self.use_data((b"", b""))

    def reset_aborted(self) -> None:
        """Forget the aborted transactions: recovery finds them again."""
        if self.has_aborted:
            self._storage.disk.remove(self.stem + TXN_INDEX)
        self.has_aborted = False
        self._aborted = None
        self.aborted_seal = NO_ABORTED

    def activate(self, segment_bytes: int) -> None:
        """Bring the indexes into memory to grow again; InvalidBytesError where they cannot be used."""
        if not self.active:
            self.use_data((self.offsets(segment_bytes).data, self.times().data))

    def usable_data(self, segment_bytes: int) -> tuple[Buffer, Buffer] | None:
        """What both indexes hold, if they can belong to such a segment."""
        try:
            return self.offsets(segment_bytes).data, self.times().data
        except InvalidBytesError:
            return None

    def use_data(self, data: tuple[Buffer, Buffer]) -> None:
        """Hold these entries in memory."""
        self.active = True
        self._offsets = OffsetIndex(self.base_offset, bytearray(data[0]))
        self._times = TimeIndex(self.base_offset, bytearray(data[1]))

    def write_out(self, *, durable: bool = False) -> None:
        """Bring the files up to what is in memory. Mostly not synced: that is the flush's work."""
        if self.active:
            assert self._offsets is not None
            assert self._times is not None
            self.has_files = True
            self._write(INDEX, self._offsets.data, durable)
            self._write(TIME_INDEX, self._times.data, durable)

    def _write(self, suffix: str, data: Buffer, durable: bool) -> None:
        if durable:
            self._storage.disk.replace_file(self.stem + suffix, bytes(data))
            return
        file = self._storage.disk.open(self.stem + suffix, create=True)
        file.write(0, (data,))
        file.truncate(len(data))

    def deactivate(self) -> None:
        """The segment grows no more, and its indexes were written out."""
        self.active = False
        self._offsets = self._times = None

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Append to the transaction index."""
        known = self.aborted()
        file = self._storage.disk.open(self.stem + TXN_INDEX, create=True)
        data = txn.encode()
        file.write(len(known) * TXN_ENTRY_BYTES, (data,))
        self.has_aborted = True
        self.aborted_seal = len(known) + 1, crc32c(data, self.aborted_seal[1])
        if self._aborted is None:
            self._aborted = known
        self._aborted.append(txn)

    def truncate(self, offset: int) -> None:
        """Forget everything at or above `offset` in an active segment's indexes."""
        assert self._offsets is not None
        assert self._times is not None
        self._offsets.truncate(offset)
        self._times.truncate(offset)
        kept = [txn for txn in self.aborted() if txn.last_offset < offset]
        if self.has_aborted and not kept:
            self.reset_aborted()
        elif self.has_aborted:
            self._storage.disk.open(self.stem + TXN_INDEX).truncate(len(kept) * TXN_ENTRY_BYTES)
            self._aborted = kept
            self.aborted_seal = len(kept), crc32c(b"".join(txn.encode() for txn in kept))

    def paths(self) -> list[str]:
        """The files there are, to be synced."""
        suffixes = [INDEX, TIME_INDEX] if self.has_files else []
        if self.has_aborted:
            suffixes.append(TXN_INDEX)
        return [self.stem + suffix for suffix in suffixes]
