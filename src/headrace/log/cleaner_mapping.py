"""The first half of a round: the table of keys, filled from the dirty part of a log.

Its steps block and run in a thread, a bounded number of bytes each. Control batches and aborted records stay
out: a value that never was must not take the place of one that is.
"""

from headrace.log.cleaner_transactions import CleanedTransactions
from headrace.log.cleaner_window import Window
from headrace.log.disk import File
from headrace.records.batch import UNPACKED_BYTES_MAX, records_section
from headrace.records.cleaning import UNKNOWN, KeyTable
from headrace.records.cleaning_layout import Code


class Mapping:
    """Walks over segments, one after the other."""

    def __init__(self, table: KeyTable, window: Window, transactions: CleanedTransactions) -> None:
        self._table = table
        self._window = window
        self._transactions = transactions
        self._origin = UNKNOWN
        self.is_full = False

    def open(self, file: File, position: int, end: int, *, base_offset: int | None = None) -> None:
        """Go on with a segment's file, from `position`, where a batch starts. With `base_offset` it is
        remembered what there is in it."""
        self._window.open(file, position, end)
        self._origin = UNKNOWN if base_offset is None else self._table.open(base_offset, end)

    @property
    def is_done(self) -> bool:
        """Whether the segment that was opened is in the table, or the table is full."""
        return self.is_full or self._window.is_done

    def step(self, bytes_max: int) -> int:
        """Go on for about so many bytes; how many were read. Blocks."""
        with self._window.naming_damage():
            return self._step(bytes_max)

    def _step(self, bytes_max: int) -> int:
        read = 0
        window = self._window
        while read < bytes_max and not self.is_done:
            code, window.at = self._table.add(
                window.data, window.at, window.end, position=self._origin + window.origin
            )
            if code is Code.OTHER:
                if not self._add_packed():
                    self._add_other()
            elif code is Code.FULL:
                self.is_full = True
            elif not window.is_done:
                read += window.fill()
        return read

    def _add_packed(self) -> bool:
        """Packed batches, many at once; False where they are not of that kind."""
        window = self._window
        found = self._table.unpack(window.data, window.at, window.end)
        if found is None:
            return False
        code, window.at = self._table.add_unpacked(window.data, found, position=self._origin + window.origin)
        self.is_full = code is Code.FULL
        return True

    def _add_other(self) -> None:
        header, batch = self._window.batch()
        if header.is_control:
            self._transactions.is_over(header, batch)
            self._table.skip_to(header.last_offset)
        elif self._transactions.is_aborted(header):
            self._table.skip_to(header.last_offset)
        else:
            body = records_section(batch, header, limit_bytes=UNPACKED_BYTES_MAX)
            # A transaction is looked at again whatever the table says.
            at = UNKNOWN if header.is_transactional else self._origin + self._window.origin + self._window.at
            self.is_full = not self._table.add_records(body, header, position=at)
        self._window.at += header.size
