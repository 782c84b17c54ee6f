"""Pages of messages with brokers of any speed, in a time of the test's own: each gets on, none takes long."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, ConsumerRecord
from headrace.console import messages
from headrace.console.message_filter import MessageFilter, message_filter
from headrace.console.messages import FIRST_S, PAGE_S, MessagePage, Span, read_page
from headrace.console.time_travel import KeysAtMoment, travel

PLACE = TopicPartition("t", 0)
END = 100_000


class SlowConsumer:
    """Reads one partition, a poll a tenth of a second, so many records at a time."""

    def __init__(self, records_a_poll: int) -> None:
        self.now_s = 0.0
        self._step = records_a_poll
        self._at = 0

    def monotonic(self) -> float:
        return self.now_s

    def assign(self, places: Iterable[TopicPartition]) -> None:
        assert list(places) == [PLACE]

    def resume(self, *places: TopicPartition) -> None: ...

    def pause(self, *places: TopicPartition) -> None: ...

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at = offset

    def positions(self) -> dict[TopicPartition, int]:
        return {PLACE: self._at}

    async def poll(self, timeout_s: float) -> list[ConsumerRecord]:
        self.now_s += 0.1
        upto = min(END, self._at + self._step)
        found = [
            ConsumerRecord("t", 0, each, each, b"k%d" % (each % 7), b"v%d" % each, ())
            for each in range(self._at, upto)
        ]
        self._at = upto
        return found


def page(
    monkeypatch: pytest.MonkeyPatch,
    speed: int,
    at: int,
    *,
    is_backward: bool,
    words: str = "",
    limit: int = 50,
) -> tuple[MessagePage, float]:
    """A page from there on, and how long it took."""
    consumer = SlowConsumer(speed)
    monkeypatch.setattr(messages, "time", consumer)
    read = read_page(
        cast(AsyncConsumer, consumer),
        {PLACE: Span(0, END)},
        {PLACE: at},
        message_filter({"q": words}),
        limit=limit,
        is_backward=is_backward,
    )
    return asyncio.run(read), consumer.now_s


@pytest.mark.parametrize("speed", [1, 10, 300, 20_000])
@pytest.mark.parametrize("is_backward", [True, False])
def test_a_search_gets_on_and_comes_back_soon(
    monkeypatch: pytest.MonkeyPatch, speed: int, is_backward: bool
) -> None:
    """Windows grow while there is time for the next one, and the first is waited for."""
    found, took_s = page(monkeypatch, speed, END // 2, is_backward=is_backward, words="nowhere")
    assert found.records == []
    assert found.positions[PLACE] < END // 2 if is_backward else found.positions[PLACE] > END // 2
    assert took_s <= (2 * PAGE_S if speed >= 300 else FIRST_S + 1)


def test_what_was_read_in_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onwards, a window that takes too long ends where it has got to."""
    found, took_s = page(monkeypatch, 1, 0, is_backward=False, limit=500)
    assert FIRST_S <= took_s < FIRST_S + 1
    assert [each.record.offset for each in found.records] == list(range(found.positions[PLACE]))
    assert 90 <= found.positions[PLACE] <= 110
    assert not found.is_done


def test_backwards_the_newest_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = page(monkeypatch, 1, END, is_backward=True, limit=500)
    assert (found.records, found.positions[PLACE], found.is_done) == ([], END, False)
    found, _ = page(monkeypatch, 1, END, is_backward=True, limit=40)
    assert [each.record.offset for each in found.records] == list(range(END - 1, END - 41, -1))


def test_keys_at_a_moment_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = SlowConsumer(1_000)
    monkeypatch.setattr(messages, "time", consumer)

    async def run() -> list[tuple[int, int]]:
        steps = []
        pieces = travel(cast(AsyncConsumer, consumer), {PLACE: Span(0, 30_000)}, MessageFilter(), 25_000)
        async for each in pieces:
            steps.append((each.scanned, len(each.latest)))
            last = each
        assert last.is_done
        assert not last.is_full
        assert {shown.record.value for shown in last.alive()} == {b"v%d" % n for n in range(24_994, 25_001)}
        return steps

    steps = asyncio.run(run())
    assert len(steps) > 3, "how far it has got is told meanwhile"
    assert steps[-1] == (30_000, 7)


def test_what_is_kept_of_keys_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.console.time_travel.BYTES_MAX", 1_000)
    found = KeysAtMoment(10**15)
    rows = [
        messages.ShownRecord(ConsumerRecord("t", 0, n, n, b"key-%d" % (n % 60), b"x" * 10, ()), 6, 10)
        for n in range(600)
    ]
    found.take(rows[:59])
    assert not found.is_full
    found.take(rows)
    assert (len(found.latest), found.kept_bytes) == (60, sum(len(b"key-%d" % n) + 10 for n in range(60)))
    assert not found.is_full, "a key that is written again takes no more"
    found.take([messages.ShownRecord(ConsumerRecord("t", 0, 0, 0, b"new", b"y" * 100, ()), 3, 100)])
    assert found.is_full
