"""Transactional producers of several libraries, and readers of committed records, under the same faults.

A writer writes each transaction to several partitions and commits or aborts it. After an error it does not
know what became of it, and starts anew under the same transactional id. Now and then another one takes the id
while it has a transaction open, and it tries to commit all the same. At the end each goes away with a
transaction open, which must end when its time is over. The rules are those of the simulator
(tests/simulation/txn_checker.py).
"""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, Producer
from tests.compat.cluster import HeadraceCluster
from tests.compat.copiers.following import consumer_of, messages_to_the_end
from tests.compat.faults.loads import END_SECONDS, Load, Outcome, await_sync
from tests.compat.faults.readers import READERS
from tests.compat.faults.topic import PARTITIONS, TOPIC
from tests.compat.writers import AiokafkaWriter, ConfluentWriter, Writer
from tests.simulation.txn_checker import Attempt, History, Log, Seen, check
from tests.simulation.txn_checker import Outcome as Fate

TRANSACTION_MS: Final = 10_000
# What is open at the end: its time, the coordinator's interval to look (10 s), and some to carry it out.
QUIET_SECONDS: Final = TRANSACTION_MS / 1000 + 10 + 15
PAUSE_SECONDS: Final = 0.02
COMMIT_CHANCE, REPLACE_CHANCE = 0.75, 0.03

Open = Callable[[str], Writer]


class HeadraceWriter(Writer):
    """Our own producer behind the face of the others."""

    def __init__(self, bootstrap: str, transactional_id: str, *, transaction_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_ms,
                "delivery.timeout.ms": 30_000,
                "request.timeout.ms": 10_000,
            }
        )
        try:
            self._producer.init_transactions()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.send(topic, value.encode(), partition=partition).result(30)

    def offsets(self, group: str, topic: str, offsets: object) -> None:
        raise AssertionError("this load writes records alone")

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(0)


class TxnWriter:
    """The users of one transactional id, one after the other, in a thread. `done` counts transactions whose
    end was told; `errors` what else was told."""

    def __init__(self, name: str, open_writer: Open, history: History, seed: int) -> None:
        self.name = name
        self.done = 0
        self.errors: Counter[str] = Counter()
        self.longest_wait = 0.0
        self._last_at = 0.0
        self._open = open_writer
        self._history = history
        self._chance = random.Random(f"{seed}/{name}")
        self._count = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        has_left = False
        while not has_left:
            try:
                has_left = self._use()
            except Exception as error:  # every library has its own
                self.errors[type(error).__name__] += 1
                self._is_over.wait(0.2)

    def _use(self) -> bool:
        """One producer, until it fails or is replaced; True when it was the last and left something open."""
        producer = self._open(self.name)
        try:
            while not self._is_over.wait(PAUSE_SECONDS):
                if self._chance.random() < REPLACE_CHANCE:
                    self._outlive(producer)
                    return False
                self._transact(producer)
            self._begin(producer)
            return True
        finally:
            with contextlib.suppress(Exception):
                producer.close()

    def _transact(self, producer: Writer) -> None:
        attempt = self._begin(producer)
        if self._chance.random() < COMMIT_CHANCE:
            self._commit(producer, attempt)
        else:
            producer.abort()
            attempt.outcome = Fate.ABORTED
            self._note()

    def _outlive(self, zombie: Writer) -> None:
        left = self._begin(zombie)
        heir = self._open(self.name)
        left.fenced_at = time.monotonic()
        try:
            its = self._begin(heir)
            try:
                self._commit(zombie, left)
            except Exception as error:
                self.errors[f"fenced: {type(error).__name__}"] += 1
            self._commit(heir, its)
        finally:
            with contextlib.suppress(Exception):
                heir.close()

    def _begin(self, producer: Writer) -> Attempt:
        self._count += 1
        attempt = self._history.begin(f"{self.name}/{self._count}")
        producer.begin()
        for partition in self._chance.sample(range(PARTITIONS), self._chance.randint(1, 4)):
            value = f"{attempt.name}/{len(attempt.written)}"
            attempt.written.append((partition, value.encode()))
            producer.send(TOPIC, partition, value)
        return attempt

    def _commit(self, producer: Writer, attempt: Attempt) -> None:
        attempt.committing_at = time.monotonic()
        producer.commit()
        attempt.outcome = Fate.COMMITTED
        self._note()

    def _note(self) -> None:
        now = time.monotonic()
        self.longest_wait = max(self.longest_wait, now - (self._last_at or now))
        self._last_at = now
        self.done += 1


class TxnLoad(Load):
    """Two writers of each library, and a reader."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._history = History()
        kinds = {"confluent": ConfluentWriter, "aiokafka": AiokafkaWriter, "headrace": HeadraceWriter}
        self._writers = [
            TxnWriter(
                f"{name}{number}",
                partial(kind, bootstrap, transaction_ms=TRANSACTION_MS),
                self._history,
                seed,
            )
            for name, kind in kinds.items()
            for number in (1, 2)
        ]
        self._readers = [
            kind(
                bootstrap,
                TOPIC,
                PARTITIONS,
                isolation="read_committed",
                on_record=partial(_note, self._history.readers[kind.name]),
            )
            for kind in READERS
        ]

    def start(self) -> None:
        for each in (*self._writers, *self._readers):
            each.start()

    def progress(self) -> dict[str, int]:
        return {each.name: each.done for each in self._writers}

    def judge(self, cluster: HeadraceCluster, outcome: Outcome) -> None:
        writers, readers = self._writers, self._readers
        for writer in writers:
            writer.stop()
        outcome.expect("every producer has gone", lambda: all(w.is_done for w in writers), END_SECONDS)
        await_sync(cluster, outcome)
        outcome.expect(
            lambda: f"no transaction is open; the ends, stable and not, are {self._ends()}",
            lambda: len({*map(tuple, map(dict.items, self._ends()))}) == 1,
            QUIET_SECONDS,
        )
        log = read_committed(self._bootstrap)
        ends = {at: records[-1][0] + 1 if records else 0 for at, records in log.items()}
        outcome.expect(
            "the readers are at the end", lambda: all(r.has_reached(ends) for r in readers), END_SECONDS
        )
        for reader in readers:
            reader.stop()
        outcome.records = sum(map(len, log.values()))
        outcome.violations += map(str, check(self._history, log))
        outcome.violations += [each.trouble for each in readers if each.trouble]
        for writer in writers:
            outcome.writers[writer.name] = self._figures(writer)

    def _figures(self, writer: TxnWriter) -> str:
        fates = Counter(
            each.outcome.value
            for each in self._history.attempts.values()
            if each.name.startswith(f"{writer.name}/")
        )
        told = ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))
        return f"{told}; longest wait {writer.longest_wait:.1f} s; errors: {dict(writer.errors)}"

    def _ends(self) -> list[dict[TopicPartition, int]]:
        """Where readers of committed records must stop, and where others."""
        places = [TopicPartition(TOPIC, at) for at in range(PARTITIONS)]
        found = []
        for isolation in ("read_committed", "read_uncommitted"):
            with Consumer({"bootstrap.servers": self._bootstrap, "isolation.level": isolation}) as consumer:
                found.append(consumer.end_offsets(places))
        return found


def _note(rows: list[Seen], partition: int, offset: int, value: bytes) -> None:
    rows.append(Seen(time.monotonic(), partition, offset, value))


def read_committed(bootstrap: str) -> Log:
    """Everything that is committed, with another's client."""
    log: dict[int, list[tuple[int, bytes]]] = {at: [] for at in range(PARTITIONS)}
    for message in messages_to_the_end(consumer_of(bootstrap, TOPIC, PARTITIONS), PARTITIONS):
        log[message.partition()].append((message.offset(), message.value()))
    return log
