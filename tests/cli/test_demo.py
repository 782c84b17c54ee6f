"""The demonstration's machinery: what is written comes back, is counted, and is shown."""

import io
import random
from contextlib import ExitStack

import pytest
from rich.console import Console

from headrace.cli.connecting import open_admin, open_consumer, open_producer
from headrace.cli.demo import Seen, page_of, run_demo, sample_page_view
from headrace.cli.demo_view import LiveView, PlainView
from headrace.clients import ConsumedRecord
from headrace.testing.clock import VirtualClock
from headrace.testing.cluster import Cluster


class Watcher:
    """A view that remembers, and lets time pass as the loop goes round."""

    def __init__(self, clock: VirtualClock) -> None:
        self.records: list[ConsumedRecord] = []
        self._clock = clock

    def record(self, record: ConsumedRecord, delay_ms: int) -> None:
        self.records.append(record)

    def update(self, seen: Seen) -> None:
        self._clock.advance(100)


def test_what_is_written_comes_back() -> None:
    clock = VirtualClock()
    watcher = Watcher(clock)
    with Cluster() as cluster, ExitStack() as stack:
        address = cluster.bootstrap_servers
        seen = run_demo(
            stack.enter_context(open_admin(address, 30_000)),
            stack.enter_context(open_producer(address, 30_000)),
            stack.enter_context(open_consumer(address, 30_000)),
            watcher,
            topic="t",
            per_second=20,
            rng=random.Random(1),
            clock=clock,
            records_max=30,
        )
    assert (seen.written, seen.read, seen.pages.total()) == (30, 30, 30)
    offsets: dict[int, list[int]] = {}
    for each in watcher.records:
        offsets.setdefault(each.partition, []).append(each.offset)
    assert all(found == list(range(len(found))) for found in offsets.values())
    assert len(offsets) > 1


def test_a_sample_is_a_page_view() -> None:
    key, value = sample_page_view(random.Random(3), 1000)
    assert key.startswith(b"user-")
    assert page_of(ConsumedRecord("t", 0, 0, 0, key, value, ())).startswith("/")
    assert page_of(ConsumedRecord("t", 0, 0, 0, None, b"not json", ())) == "?"
    assert page_of(ConsumedRecord("t", 0, 0, 0, None, b"[1]", ())) == "?"


def test_the_plain_view_is_a_line_for_each_record(capsys: pytest.CaptureFixture[str]) -> None:
    PlainView().record(ConsumedRecord("t", 2, 7, 0, b"k", b"v", ()), 5)
    assert capsys.readouterr().out == "t-2@7  v  read 5 ms after it was written\n"


def test_the_live_view_shows_pages_and_records() -> None:
    seen = Seen(read=2, elapsed_ms=1000)
    value = b'{"user": "user-1", "page": "/docs", "ms": 12}'
    seen.latest.append(ConsumedRecord("t", 0, 41, 0, b"user-1", value, ()))
    seen.pages["/docs"] = 2
    out = io.StringIO()
    Console(file=out, width=100).print(LiveView("127.0.0.1:9092", "t").picture(seen))
    shown = out.getvalue()
    for part in ("127.0.0.1:9092", "2 records read", "/docs", "user-1", "41"):
        assert part in shown
