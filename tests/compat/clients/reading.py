"""Reading a topic up to given ends: shared by the clients that live in this process."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.clients.face import WAIT_SECONDS, Record


class Reading:
    """What was read so far, and which partitions have not reached their end."""

    def __init__(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        self._ends = ends
        self._records: list[Record] = []
        self.starts = {at: starts[at] for at in ends}
        self.waiting_for = {at: end for at, end in ends.items() if starts[at] < end}

    def take(self, batch: Sequence[Record]) -> None:
        assert batch, f"no record within {WAIT_SECONDS} s; still waiting for {self.waiting_for}"
        self._records += batch
        for record in batch:
            if record.offset + 1 >= self.waiting_for.get(record.partition, 1 << 62):
                del self.waiting_for[record.partition]

    def result(self) -> list[Record]:
        wanted = (record for record in self._records if record.offset < self._ends[record.partition])
        return sorted(wanted, key=lambda record: (record.partition, record.offset))


def records_of(polled: Mapping[Any, Sequence[Any]]) -> list[Record]:
    """From the form that kafka-python and aiokafka share."""
    return [
        Record(
            partition=each.partition,
            timestamp_ms=each.timestamp,
            key=each.key,
            value=each.value,
            headers=tuple(each.headers),
            offset=each.offset,
        )
        for batch in polled.values()
        for each in batch
    ]
