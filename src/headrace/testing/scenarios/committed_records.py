"""What replicas of one partition have said, by high watermarks and acknowledgements, and must stay so."""

from collections.abc import Iterator

from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import read_records
from headrace.records.header import BatchHeader, batches
from headrace.testing.world import CheckFailedError


class CommittedRecords:
    """What was said of one partition, and must stay so."""

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.committed: dict[int, bytes] = {}
        self.acknowledged: list[tuple[int, bytes]] = []
        self.end = 0
        self._seen: dict[int, tuple[UnifiedLog, int, int]] = {}
        self._batches: dict[int, tuple[bytes, list[tuple[int, bytes]]]] = {}
        """The batches that were seen last, by their first offset, with their records: the next replica's are
        the same bytes.
        """

    def forget_replica(self, node: int) -> None:
        self._seen.pop(node, None)

    def acknowledge(self, offset: int, values: list[bytes]) -> None:
        for at, value in enumerate(values, offset):
            self.acknowledged.append((at, value))
            if self.committed.get(at) != value:
                raise CheckFailedError(
                    f"{self.where}: {at} is acknowledged as {_short(value)}, and is not committed"
                )
        self.end = max(self.end, offset + len(values))

    def check_replica(self, node: int, log: UnifiedLog) -> None:
        """Whatever is below a high watermark is one value for ever."""
        end = log.high_watermark
        known = self._seen.get(node)
        if known is not None and known[0] is log:
            since = known[1]
            if since == end and known[2] == log.generation:
                return
        else:
            since = log.log_start_offset
        if end < since:
            raise CheckFailedError(
                f"{self.where}: {node} cut its log to {end}, below its high watermark {since}"
            )
        for header, batch in batches_of(log, since, end):
            records = self._records(header.base_offset, batch)
            self._check_records(node, [each for each in records if since <= each[0] < end])
        self._seen[node] = (log, end, log.generation)

    def _check_records(self, node: int, records: list[tuple[int, bytes]]) -> None:
        for offset, value in records:
            if self.committed.setdefault(offset, value) != value:
                raise CheckFailedError(
                    f"{self.where}: {offset} is {_short(value)} to {node}, "
                    f"and was {_short(self.committed[offset])}"
                )

    def _records(self, base_offset: int, batch: bytes) -> list[tuple[int, bytes]]:
        known = self._batches.get(base_offset)
        if known is None or known[0] != batch:
            records = [(record.offset, bytes(record.value or b"")) for record in read_records(batch)]
            known = self._batches[base_offset] = (batch, records)
        return known[1]

    def check_whole(self, node: int, log: UnifiedLog | None) -> None:
        """The end of a run: every record that was acknowledged, once, in order."""
        assert log is not None
        found = [
            record
            for header, batch in batches_of(log, log.log_start_offset, log.log_end_offset)
            for record in self._records(header.base_offset, batch)
        ]
        values = [value for _, value in found]
        if len(set(values)) != len(values):
            raise CheckFailedError(f"{self.where}: {node} has a record twice")
        there = dict(found)
        for offset, value in self.acknowledged:
            if there.get(offset) != value:
                raise CheckFailedError(
                    f"{self.where}: {value!r} was acknowledged at {offset}, {node} lost it"
                )

    def check_order(self) -> None:
        """Of one writer with one batch under way: it was told of its records in their order."""
        offsets = [offset for offset, _ in self.acknowledged]
        if offsets != sorted(offsets):
            raise CheckFailedError(f"{self.where}: records are not in the order in which they were written")


def batches_of(log: UnifiedLog, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches that have something from `start` up to `end`, as far as the log has them."""
    while start < end:
        read = log.read(start, max_bytes=100_000, max_offset=end)
        data = b"" if isinstance(read.chunk, bytes) else read.chunk.read()
        before = start
        for position, header in batches(data):
            yield header, bytes(data[position : position + header.size])
            start = header.next_offset
        if start == before:
            break


def _short(value: bytes) -> str:
    """Enough to know a value by: who wrote it, and which of its records it is."""
    return repr(value[:20])
