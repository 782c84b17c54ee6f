"""Time travel: the last value of each key at a moment, read piece by piece from the oldest record on.

What is kept is bounded by its number and its bytes, not by the topic: of a table with more keys than that,
some are missing, and `is_full` says so.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer
from headrace.console.message_filter import MessageFilter
from headrace.console.messages import ShownRecord, Span, read_page

KEYS_MAX: Final = 200_000
BYTES_MAX: Final = 64 << 20
"""Of keys and values."""
PIECE_RECORDS: Final = 20_000


@dataclass(slots=True)
class KeysAtMoment:
    """What was read so far."""

    moment_ms: int
    latest: dict[bytes, ShownRecord] = field(default_factory=dict)
    scanned: int = 0
    kept_bytes: int = 0
    is_done: bool = False

    @property
    def is_full(self) -> bool:
        return len(self.latest) >= KEYS_MAX or self.kept_bytes >= BYTES_MAX

    def take(self, records: Iterable[ShownRecord]) -> None:
        """In the order of their offsets: the last of a key counts, and is the youngest of all."""
        for each in records:
            key = each.record.key
            if key is not None and each.record.timestamp_ms <= self.moment_ms:
                before = self.latest.pop(key, None)
                self.kept_bytes += _bytes_of(each) - (0 if before is None else _bytes_of(before))
                self.latest[key] = each

    def alive(self) -> list[ShownRecord]:
        """Keys that were not deleted then, by when they were written."""
        return [each for each in self.latest.values() if each.record.value is not None]


def _bytes_of(shown: ShownRecord) -> int:
    return len(shown.record.key or b"") + len(shown.record.value or b"")


async def travel(
    consumer: AsyncConsumer, spans: Mapping[TopicPartition, Span], wanted: MessageFilter, moment_ms: int
) -> AsyncGenerator[KeysAtMoment, None]:
    """The same state again and again, as it grows; `is_done` at the end of the spans."""
    found = KeysAtMoment(moment_ms)
    positions: Mapping[TopicPartition, int] = {each: span.start for each, span in spans.items()}
    while not (found.is_done or found.is_full):
        page = await read_page(consumer, spans, positions, wanted, limit=PIECE_RECORDS, is_backward=False)
        found.take(page.records)
        found.scanned += page.scanned
        found.is_done = page.is_done
        positions = page.positions
        yield found
