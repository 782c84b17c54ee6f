"""Ranges of offsets with a delivery state and a delivery count: how a share partition's window is kept.

A list of them is sorted, does not overlap, and has no two neighbours that could be one. What is written
later counts: a share partition has one leader, whose writes come one after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class StateBatch(NamedTuple):
    """The offsets from first to last, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def put_batches(known: list[StateBatch], news: Iterable[StateBatch], start_offset: int) -> None:
    """Lay the news over what is known, and forget what lies before the start offset."""
    for batch in news:
        if batch.last_offset >= start_offset:
            first = max(batch.first_offset, start_offset)
            _put(known, batch._replace(first_offset=first))
    drop_before(known, start_offset)


def drop_before(known: list[StateBatch], start_offset: int) -> None:
    keep = bisect_left(known, start_offset, key=_last)
    del known[:keep]
    if known and known[0].first_offset < start_offset:
        known[0] = known[0]._replace(first_offset=start_offset)


def _put(known: list[StateBatch], news: StateBatch) -> None:
    """Lay one batch over those that it touches."""
    begin = bisect_left(known, news.first_offset, key=_last)
    end = bisect_left(known, news.last_offset + 1, key=_first)
    laid: list[StateBatch] = []
    if begin < end and known[begin].first_offset < news.first_offset:
        laid.append(known[begin]._replace(last_offset=news.first_offset - 1))
    laid.append(news)
    if begin < end and known[end - 1].last_offset > news.last_offset:
        laid.append(known[end - 1]._replace(first_offset=news.last_offset + 1))
    low, high = max(0, begin - 1), min(len(known), end + 1)
    known[low:high] = _joined([*known[low:begin], *laid, *known[end:high]])


def _joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Neighbours that say the same as one."""
    joined: list[StateBatch] = []
    for batch in batches:
        if joined and _continues(joined[-1], batch):
            joined[-1] = joined[-1]._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined


def _continues(one: StateBatch, other: StateBatch) -> bool:
    return one.last_offset + 1 == other.first_offset and one[2:] == other[2:]


def _first(batch: StateBatch) -> int:
    return batch.first_offset


def _last(batch: StateBatch) -> int:
    return batch.last_offset
