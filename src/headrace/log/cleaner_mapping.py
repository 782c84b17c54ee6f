"""The first half of a round: the table of keys, filled from the dirty part of a log.

Its steps block and run in a thread, a bounded number of bytes each. Control batches and aborted records stay
out: a value that never was must not take the place of one that is.
"""

from headrace.log.cleaner_transactions import CleanedTransactions
from headrace.log.cleaner_window import Window
from headrace.log.disk import File
from headrace.records.batch import UNPACKED_BYTES_MAX, records_section
from headrace.records.cleaning import Code, KeyTable


class Mapping:
    """Walks over segments, one after the other."""

    def __init__(self, table: KeyTable, window: Window, transactions: CleanedTransactions) -> None:
        self._table = table
        self._window = window
        self._transactions = transactions
        self.is_full = False

    def open(self, file: File, position: int, end: int) -> None:
        """Go on with a segment's file, from `position`, where a batch starts."""
        self._window.open(file, position, end)

    @property
    def is_done(self) -> bool:
        """Whether the segment that was opened is in the table, or the table is full."""
        return self.is_full or self._window.is_done

    def step(self, bytes_max: int) -> int:
        """Go on for about so many bytes; how many were read. Blocks."""
        read = 0
        window = self._window
        while read < bytes_max and not self.is_done:
            code, window.at = self._table.add(window.data, window.at, window.end)
            if code is Code.OTHER:
                self._add_other()
            elif code is Code.FULL:
                self.is_full = True
            elif not window.is_done:
                read += window.fill()
        return read

    def _add_other(self) -> None:
        header, batch = self._window.batch()
        if header.is_control:
            self._transactions.is_over(header, batch)
            self._table.skip_to(header.last_offset)
        elif self._transactions.is_aborted(header):
            self._table.skip_to(header.last_offset)
        else:
            body = records_section(batch, header, limit_bytes=UNPACKED_BYTES_MAX)
            self.is_full = not self._table.add_records(body, header)
        self._window.at += header.size
