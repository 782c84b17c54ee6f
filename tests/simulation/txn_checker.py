"""Judges a history of transactions: what writers tried and were told, what readers of committed records were
handed poll by poll, and what is there in the end. It knows nothing of headrace.

The anomalies are those that the public Jepsen analyses of Kafka, Redpanda and Bufstream look for, in the
terms of a log, with Adya's names where he has one:

| anomaly | what it is |
|---|---|
| lost write | a record of a transaction that was told to be committed is not there |
| aborted read (G1a) | a record is read whose transaction was aborted, or was never asked to be committed |
| intermediate read (G1b) | a record is read before its writer had asked for the commit |
| torn transaction | some of its records are there, others not |
| poll skip | a reader passes over a committed record |
| non-monotonic poll | a reader is handed an offset that it had passed |
| duplicate offset | two values at one offset, as told to writers or readers |
| duplicate write | one value at two offsets |
| invented | a value that nobody wrote |
| zombie | a producer writes or commits after another one has taken over its transactional id |
| hanging | a transaction is open for longer than its time; the world that plays it finds this one |

Times are of any one clock that all who write and read share.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

TOLD_MAX: Final = 3  # examples of each anomaly

Log = Mapping[int, Sequence[tuple[int, bytes]]]
"""Offset and value of every committed record of each partition, in the order read."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Kind(Enum):
    LOST_WRITE = "lost write"
    ABORTED_READ = "aborted read"
    INTERMEDIATE_READ = "intermediate read"
    TORN = "torn transaction"
    POLL_SKIP = "poll skip"
    NON_MONOTONIC = "non-monotonic poll"
    DUPLICATE_OFFSET = "duplicate offset"
    DUPLICATE_WRITE = "duplicate write"
    INVENTED = "invented"
    ZOMBIE = "zombie"
    HANGING = "hanging transaction"


class Anomaly(NamedTuple):
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"


class AnomalyError(AssertionError):
    """A run broke the rules."""

    def __init__(self, anomalies: Sequence[Anomaly]) -> None:
        super().__init__("\n".join(map(str, anomalies)))
        self.kinds = {each.kind for each in anomalies}


@dataclass
class Attempt:
    """One transaction, as its writer knows it. `committing_at` is when it began to ask for the commit, and
    `fenced_at` when another one had its id for certain.
    """

    name: str
    written: list[tuple[int, bytes]] = field(default_factory=list)
    acknowledged: dict[tuple[int, bytes], tuple[int, float]] = field(default_factory=dict)
    outcome: Outcome = Outcome.UNKNOWN
    committing_at: float | None = None
    fenced_at: float | None = None

    @property
    def is_zombies(self) -> bool:
        """Whether its commit, if any, was asked for too late to count."""
        return self.fenced_at is not None and (
            self.committing_at is None or self.committing_at > self.fenced_at
        )


class Seen(NamedTuple):
    """A record as a reader was handed it."""

    at: float
    partition: int
    offset: int
    value: bytes


@dataclass
class History:
    """Everything that happened. A reader's rows are in the order in which it got them."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    readers: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))

    def begin(self, name: str) -> Attempt:
        attempt = self.attempts[name] = Attempt(name)
        return attempt

    def count(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.attempts.values())


def check(history: History, log: Log) -> list[Anomaly]:
    """Everything that is wrong, with a few examples of each kind."""
    writers = {place: each for each in history.attempts.values() for place in each.written}
    due = _due(history, log)
    found = [
        *_check_log(writers, log),
        *_check_attempts(history, log),
        *_check_offsets(history, log),
        *(anomaly for rows in history.readers.values() for anomaly in _check_reader(rows, writers, due)),
    ]
    kept: dict[Kind, list[Anomaly]] = defaultdict(list)
    for anomaly in found:
        kept[anomaly.kind].append(anomaly)
    return [each for examples in kept.values() for each in examples[:TOLD_MAX]]


def _check_log(writers: Mapping[tuple[int, bytes], Attempt], log: Log) -> Iterator[Anomaly]:
    places: dict[bytes, tuple[int, int]] = {}
    for partition, records in log.items():
        for offset, value in records:
            where = f"{value!r} at {partition}/{offset}"
            if value in places:
                yield Anomaly(Kind.DUPLICATE_WRITE, f"{where} and at {places[value]}")
            places[value] = (partition, offset)
            writer = writers.get((partition, value))
            if writer is None:
                yield Anomaly(Kind.INVENTED, where)
            elif (kind := _unread(writer)) is not None:
                yield Anomaly(kind, f"{where} is of {writer.name}, {_fate(writer)}")


def _unread(attempt: Attempt) -> Kind | None:
    """What it is to read a record of this transaction."""
    if attempt.is_zombies:
        return Kind.ZOMBIE
    if attempt.outcome is Outcome.ABORTED or attempt.committing_at is None:
        return Kind.ABORTED_READ
    return None


def _fate(attempt: Attempt) -> str:
    if attempt.is_zombies:
        return "whose producer was fenced before it asked for the commit"
    return "which was aborted" if attempt.outcome is Outcome.ABORTED else "which nobody committed"


def _check_attempts(history: History, log: Log) -> Iterator[Anomaly]:
    there = {(partition, value) for partition, records in log.items() for _, value in records}
    for attempt in history.attempts.values():
        missing = [each for each in attempt.written if each not in there]
        told = f"{len(missing)} of {len(attempt.written)} records of {attempt.name} are missing"
        if attempt.outcome is Outcome.COMMITTED and missing:
            yield Anomaly(Kind.LOST_WRITE, f"{told}, which was committed: {missing[0]}")
        if 0 < len(missing) < len(attempt.written):
            yield Anomaly(Kind.TORN, told)
        if attempt.fenced_at is None:
            continue
        if attempt.is_zombies and attempt.outcome is Outcome.COMMITTED:
            yield Anomaly(Kind.ZOMBIE, f"{attempt.name} was told to be committed by a fenced producer")
        late = [place for place, (_, at) in attempt.acknowledged.items() if at > attempt.fenced_at]
        if late:
            yield Anomaly(Kind.ZOMBIE, f"a write of {attempt.name} was acknowledged after it was fenced")


def _check_offsets(history: History, log: Log) -> Iterator[Anomaly]:
    """One offset, one value: whoever speaks of it."""
    values = {(at, offset): value for at, records in log.items() for offset, value in records}

    def told(partition: int, offset: int, value: bytes, by: str) -> Iterator[Anomaly]:
        other = values.setdefault((partition, offset), value)
        if other != value:
            where = f"{partition}/{offset}"
            yield Anomaly(Kind.DUPLICATE_OFFSET, f"{where} is {value!r}, says {by}, and {other!r}")

    for attempt in history.attempts.values():
        for (partition, value), (offset, _) in attempt.acknowledged.items():
            yield from told(partition, offset, value, "its writer")
    for reader, rows in history.readers.items():
        for row in rows:
            yield from told(row.partition, row.offset, row.value, reader)


def _due(history: History, log: Log) -> Log:
    """What a reader has to come across: what is there, and what a writer knows to be there."""
    due = {partition: set(records) for partition, records in log.items()}
    for attempt in history.attempts.values():
        if attempt.outcome is Outcome.COMMITTED:
            for (partition, value), (offset, _) in attempt.acknowledged.items():
                due[partition].add((offset, value))
    return {partition: sorted(records) for partition, records in due.items()}


def _check_reader(
    rows: Sequence[Seen], writers: Mapping[tuple[int, bytes], Attempt], due: Log
) -> Iterator[Anomaly]:
    """What one reader was handed: in order, without a gap, and nothing too early."""
    upto = dict.fromkeys(due, 0)  # how much of `due` lies behind the reader
    last = dict.fromkeys(due, -1)
    for at, partition, offset, value in rows:
        where = f"{value!r} at {partition}/{offset}"
        if offset <= last[partition]:
            yield Anomaly(Kind.NON_MONOTONIC, f"{where} was handed out after offset {last[partition]}")
        while upto[partition] < len(due[partition]) and due[partition][upto[partition]][0] < offset:
            skipped = due[partition][upto[partition]]
            upto[partition] += 1
            yield Anomaly(
                Kind.POLL_SKIP, f"{skipped[1]!r} at {partition}/{skipped[0]} was passed over by {where}"
            )
        while upto[partition] < len(due[partition]) and due[partition][upto[partition]][0] == offset:
            upto[partition] += 1
        last[partition] = max(last[partition], offset)
        writer = writers.get((partition, value))
        if writer is None:
            yield Anomaly(Kind.INVENTED, where)
        elif (kind := _unread(writer)) is not None:
            yield Anomaly(kind, f"{where} was handed out; it is of {writer.name}, {_fate(writer)}")
        elif writer.committing_at is not None and at < writer.committing_at:
            yield Anomaly(
                Kind.INTERMEDIATE_READ, f"{where} was handed out before {writer.name} was to commit"
            )
