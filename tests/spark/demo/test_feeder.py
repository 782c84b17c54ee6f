"""Records are written when they are due, and each must be acknowledged."""

import random

import pytest

from headrace.spark.demo.events import Company, Feeder
from headrace.spark.demo.feeds import LOGS, SESSIONS, USERS


class Fate:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> object:
        if self._error is not None:
            raise self._error
        return None


class Sender:
    """Takes everything but the record at `refused`."""

    def __init__(self, refused: int | None = None) -> None:
        self.sent: list[tuple[str, int]] = []
        self._refused = refused

    def send(self, topic: str, value: bytes, *, key: bytes, timestamp_ms: int) -> Fate:
        self.sent.append((topic, timestamp_ms))
        return Fate(TimeoutError("no broker") if len(self.sent) - 1 == self._refused else None)

    def flush(self) -> None:
        pass


def _feeder(sender: Sender) -> tuple[Feeder, Company]:
    company = Company(random.Random(1))
    return Feeder(sender, company, per_second=100, started_ms=1_000_000), company


def test_what_is_due_is_written_once() -> None:
    sender = Sender()
    feeder, company = _feeder(sender)
    feeder.open(1_000_000)
    for elapsed_ms in (0, 10, 500, 500, 2000):
        feeder.write_due(elapsed_ms)
    assert feeder.written[LOGS] == company.ledger.logs == 200
    feeder.close(2000)
    ledger = company.ledger
    assert feeder.written == {LOGS: 201, SESSIONS: len(ledger.sessions), USERS: len(ledger.users)}
    assert len(sender.sent) == feeder.written.total()
    # After the pause they are dated as they were due, a little late at most.
    assert max(at for topic, at in sender.sent if topic == SESSIONS) < 1_002_000


def test_a_record_that_is_not_taken_ends_it() -> None:
    first, _ = _feeder(Sender(refused=5))
    with pytest.raises(TimeoutError, match="no broker"):
        first.open(0)
    later, _ = _feeder(Sender(refused=210))
    later.open(0)
    with pytest.raises(TimeoutError, match="no broker"):
        later.write_due(1000)
