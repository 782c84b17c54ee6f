"""Reads the records that a page shows: a window of offsets at a time, onwards or backwards, through a filter.

A page is a bounded piece of work, and takes less than a second as a rule. It ends with enough records, at
the end of the topic, or when its time or the number of records that it may look at is used up; the positions
that it gives back are where the next one goes on: a browser asks for that by itself. Partitions are merged
by their records' times, and a position never passes a record that was not shown, so that nothing is lost
between two pages.
"""

import heapq
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, ConsumerRecord
from headrace.console.message_filter import MessageFilter

PAGE_S: Final = 0.7
FIRST_S: Final = 10.0
"""For the first window, however slow its brokers are: each page gets on."""
SCANNED_MAX: Final = 250_000
WINDOW_MAX: Final = 20_000
"""Offsets of all partitions that are read at once."""
FIRST_WINDOW_MAX: Final = 500
"""Of a partition: what comes after it is as large as there is time for."""
KEPT_BYTES_MAX: Final = 16 << 20
"""Of keys and values in one page; what is above is cut short."""
VALUE_BYTES_MAX: Final = 64 << 10
CUT_BYTES: Final = 512
POLL_S: Final = 0.5


class ShownRecord(NamedTuple):
    """A record, cut to what a page shows. Sizes are those before."""

    record: ConsumerRecord
    key_bytes: int
    value_bytes: int


@dataclass(slots=True)
class MessagePage:
    """What was found, and where to go on. `is_done` where there is nothing more in this direction."""

    records: list[ShownRecord] = field(default_factory=list)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    scanned: int = 0
    is_done: bool = False
    kept_bytes: int = 0


class Span(NamedTuple):
    """Offsets of a partition, the second not included."""

    start: int
    end: int


async def read_page(
    consumer: AsyncConsumer,
    spans: Mapping[TopicPartition, Span],
    positions: Mapping[TopicPartition, int],
    wanted: MessageFilter,
    *,
    limit: int,
    is_backward: bool,
) -> MessagePage:
    """Records from these positions on, newest first where it goes backwards."""
    page = MessagePage(positions={each: positions[each] for each in spans})
    began_s = time.monotonic()
    deadline_s = began_s + FIRST_S
    window = max(1, min(limit, FIRST_WINDOW_MAX, WINDOW_MAX // max(1, len(spans))))
    while True:
        ranges = _ranges(spans, page.positions, window, is_backward)
        if not ranges:
            page.is_done = True
            return page
        read_from_s = time.monotonic()
        found, read = await _read_ranges(consumer, ranges, wanted, page, deadline_s)
        if read != ranges and is_backward:
            return page  # the newest of this window are missing: it is read again
        _merge(page, read, found, limit, is_backward)
        deadline_s = began_s + PAGE_S
        took_s, left_s = time.monotonic() - read_from_s, deadline_s - time.monotonic()
        if len(page.records) >= limit or page.scanned >= SCANNED_MAX or left_s < took_s:
            page.is_done = not _ranges(spans, page.positions, 1, is_backward)
            return page
        if left_s > 8 * took_s:
            window = min(window * 4, max(1, WINDOW_MAX // len(spans)))


def _ranges(
    spans: Mapping[TopicPartition, Span],
    positions: Mapping[TopicPartition, int],
    window: int,
    is_backward: bool,
) -> dict[TopicPartition, Span]:
    """What to read next: of partitions that are not through."""
    found = {}
    for each, span in spans.items():
        at = min(max(positions[each], span.start), span.end)
        piece = (
            Span(max(span.start, at - window), at) if is_backward else Span(at, min(span.end, at + window))
        )
        if piece.start < piece.end:
            found[each] = piece
    return found


async def _read_ranges(
    consumer: AsyncConsumer,
    ranges: Mapping[TopicPartition, Span],
    wanted: MessageFilter,
    page: MessagePage,
    deadline_s: float,
) -> tuple[dict[TopicPartition, list[ShownRecord]], dict[TopicPartition, Span]]:
    """What fits of each partition, by offset, and what was read of the ranges before the time was up."""
    found: dict[TopicPartition, list[ShownRecord]] = {each: [] for each in ranges}
    consumer.assign(ranges)
    consumer.resume(*ranges)  # of the window before
    for each, piece in ranges.items():
        consumer.seek(each, piece.start)
    open_ones = set(ranges)
    while open_ones:
        records = await consumer.poll(POLL_S)
        await wanted.learn(records)
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            if place in open_ones and record.offset < ranges[place].end:
                page.scanned += 1
                if wanted.fits(record):
                    found[place].append(_shown(record, page))
        at = consumer.positions()
        for each in [each for each in open_ones if at.get(each, 0) >= ranges[each].end]:
            open_ones.discard(each)
            consumer.pause(each)
        if open_ones and time.monotonic() >= deadline_s:
            return found, {
                each: Span(piece.start, min(piece.end, max(piece.start, at.get(each, 0))))
                for each, piece in ranges.items()
            }
    return found, dict(ranges)


def _merge(
    page: MessagePage,
    ranges: Mapping[TopicPartition, Span],
    found: Mapping[TopicPartition, list[ShownRecord]],
    limit: int,
    is_backward: bool,
) -> None:
    """Take the next ones by time, and move each position behind what was taken of its partition."""
    sign = -1 if is_backward else 1
    queues = {each: found[each][::sign] for each in ranges}
    heap = [(sign * rows[0].record.timestamp_ms, each, 0) for each, rows in queues.items() if rows]
    heapq.heapify(heap)
    taken = dict.fromkeys(ranges, 0)
    while heap and len(page.records) < limit:
        _, place, at = heapq.heappop(heap)
        page.records.append(queues[place][at])
        taken[place] = at + 1
        if at + 1 < len(queues[place]):
            heapq.heappush(heap, (sign * queues[place][at + 1].record.timestamp_ms, place, at + 1))
    for place, piece in ranges.items():
        rows = queues[place]
        if taken[place] == len(rows):
            page.positions[place] = piece.start if is_backward else piece.end
        elif taken[place]:
            last = rows[taken[place] - 1].record.offset
            page.positions[place] = last if is_backward else last + 1


def _shown(record: ConsumerRecord, page: MessagePage) -> ShownRecord:
    most = VALUE_BYTES_MAX if page.kept_bytes < KEPT_BYTES_MAX else CUT_BYTES
    key_bytes, value_bytes = len(record.key or b""), len(record.value or b"")
    if key_bytes > most:
        record = record._replace(key=bytes(record.key[:most]))
    if value_bytes > most:
        record = record._replace(value=bytes(record.value[:most]))
    if sum(len(name) + len(value or b"") for name, value in record.headers) > VALUE_BYTES_MAX:
        record = record._replace(headers=_cut_headers(record.headers))
    page.kept_bytes += min(key_bytes, most) + min(value_bytes, most)
    return ShownRecord(record, key_bytes, value_bytes)


def _cut_headers(headers: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(
        (name[:CUT_BYTES], None if value is None else value[:CUT_BYTES]) for name, value in list(headers)[:50]
    )


async def follow(
    consumer: AsyncConsumer, starts: Mapping[TopicPartition, int], wanted: MessageFilter
) -> AsyncGenerator[MessagePage, None]:
    """What comes from now on, a few times a second; an empty page where nothing did for a while.

    A browser cannot show all of a busy topic: of what comes between two pages the newest are kept, and
    `scanned` says how many there were.
    """
    consumer.assign(starts)
    for each, offset in starts.items():
        consumer.seek(each, offset)
    while True:
        page = MessagePage()
        until_s = time.monotonic() + FOLLOW_S
        records = await consumer.poll(FOLLOW_SILENCE_S)
        while True:
            page.scanned += len(records)
            await wanted.learn(records)
            page.records += [_shown(each, page) for each in records if wanted.fits(each)]
            del page.records[:-FOLLOWED_MAX]
            if not records or time.monotonic() >= until_s:
                break
            records = await consumer.poll(max(0.0, until_s - time.monotonic()))
        yield page


FOLLOW_S: Final = 0.25
FOLLOW_SILENCE_S: Final = 10.0
FOLLOWED_MAX: Final = 100
