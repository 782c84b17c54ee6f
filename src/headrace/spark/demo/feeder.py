"""Writes events to the cluster at a steady pace, and knows that every one of them was acknowledged.

Records are due by the clock: after a pause what has become due is written at once. A record that the
cluster does not take within the producer's patience ends the demonstration, since nobody could say any
more what has to come out.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Protocol

from headrace.spark.demo.events import Company, Event


class Written(Protocol):
    """A record's fate, as `Producer.send` gives it."""

    def done(self) -> bool: ...

    def result(self) -> object: ...


class Sender(Protocol):
    """The part of a producer that is needed here."""

    def send(self, topic: str, value: bytes, *, key: bytes, timestamp_ms: int) -> Written: ...

    def flush(self) -> None: ...


class Feeder:
    """`write_due` is called often; `close` once."""

    def __init__(self, producer: Sender, company: Company, *, per_second: int, started_ms: int) -> None:
        self.written: Counter[str] = Counter()
        self._producer = producer
        self._company = company
        self._per_second = per_second
        self._started_ms = started_ms
        self._lines = 0
        self._pending: deque[Written] = deque()

    def open(self, now_ms: int) -> None:
        """Users come first, so that each session finds its own."""
        self._send(self._company.open_for_business(now_ms))
        self._confirm_all()

    def write_due(self, elapsed_ms: int) -> None:
        due = elapsed_ms * self._per_second // 1000
        while self._lines < due:
            # The time at which this one was due: after a pause events do not all happen at once.
            now_ms = self._started_ms + self._lines * 1000 // self._per_second
            self._send(self._company.happen(now_ms))
            self._lines += 1
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()

    def close(self, elapsed_ms: int) -> None:
        """Write the last record, and wait for all acknowledgements."""
        self._send([self._company.close(self._started_ms + elapsed_ms)])
        self._confirm_all()

    def _send(self, events: Iterable[Event]) -> None:
        for topic, key, value, timestamp_ms in events:
            self._pending.append(self._producer.send(topic, value, key=key, timestamp_ms=timestamp_ms))
            self.written[topic] += 1

    def _confirm_all(self) -> None:
        self._producer.flush()
        while self._pending:
            self._pending.popleft().result()
