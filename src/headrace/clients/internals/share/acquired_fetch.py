"""What an answer brought of one share partition: bytes, and which offsets in them are held for this member.

A broker sends whole batches, of which a part may be held by others. The bytes are decoded when the program
polls, as rows here or as columns in `tables.py`, and what is not held is passed over. An offset that is held
though there is no record (it was compacted away, or is a transaction's marker) is a gap, to be told once.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.ids import TopicPartition
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, ConsumerRecord


class AcquiredRange(NamedTuple):
    """Offsets that are held, and how often they have been handed out, this time included."""

    first: int
    last: int
    delivery_count: int


class AcquiredFetch:
    """Held records, and which of them the program has yet to get."""

    def __init__(
        self,
        partition: TopicPartition,
        buffer: Buffer,
        ranges: Iterable[AcquiredRange],
        *,
        checks_crc: bool = True,
    ) -> None:
        self.partition = partition
        self.buffer = buffer
        self.ranges = sorted(ranges)
        self.rows: deque[tuple[ConsumerRecord, int]] | None = None
        """Records and delivery counts, once it was decoded to rows: what is left of them."""
        self._checks = checks_crc

    @property
    def position(self) -> int | None:
        """The first offset that the program has not got; None where it has all."""
        if self.rows is None:
            return self.ranges[0].first
        return self.rows[0][0].offset if self.rows else None

    @property
    def offsets(self) -> set[int]:
        """All that is held."""
        return {offset for each in self.ranges for offset in range(each.first, each.last + 1)}

    def decode(self) -> set[int]:
        """Make the rows; the gaps. The second time there are none. ClientError for bytes that are broken."""
        if self.rows is not None:
            return set()
        decoded = {record.offset: record for record in self._records()}
        self.rows = deque(
            (decoded[offset], each.delivery_count)
            for each in self.ranges
            for offset in range(each.first, each.last + 1)
            if offset in decoded
        )
        return self.offsets - decoded.keys()

    def _records(self) -> list[ConsumerRecord]:
        chunk = CompletedFetch(self.partition, self.buffer, checks_crc=self._checks)
        position = self.ranges[0].first
        records: list[ConsumerRecord] = []
        while (found := chunk.next_rows(position)) is not None:
            records += found.rows
            position = found.end
        return records
