"""The topic of decisions about the batches of a sink, and how one process reads and writes it.

A *claim* says which run of a query writes now; a *decision* says which transactions hold a batch. Only the
run that claimed last can decide, because claims and decisions are written under one transactional id: whoever
takes it up fences the others, and then reads all that was decided before it writes. So a run that was thought
dead and comes back can decide nothing, and a batch is decided once.

Reading goes on where it ended, so a task of the next batch reads only what is new. It ends at what was
written when it began, open transactions included: those are over in a moment, and one of them may decide the
very batch that is asked about. Only a caller that wants to claim looks at what is committed first: the open
transaction of a driver that died would be over in 15 seconds, and to claim ends it at once.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, OffsetSpec, Producer
from headrace.clients.config import ADMIN, CONSUMER
from headrace.clients.errors import FencedError, NoSuchTopicError, RefusedError, TimedOutError
from headrace.spark.sink import SinkError

TOPIC: Final = "_headrace_sink_decisions"
PREFIX: Final = "headrace-sink/"
"""Of all transactional ids; the sink's own follows, and decides, its tasks' have more behind another `/`."""
PARTITIONS: Final = 8
"""Those that are used; the first so many, however many there are."""


class SinkTransaction(NamedTuple):
    """A transaction that a task has left open; whoever knows it can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """A batch is what these transactions hold, and nothing else."""

    run: str
    query: str
    batch: int
    transactions: tuple[SinkTransaction, ...]

    def is_about(self, query: str, batch: int) -> bool:
        return (self.query, self.batch) == (query, batch)


@dataclass(slots=True)
class SinkState:
    """What stands about one sink."""

    run: str | None = None
    superseded: set[str] = field(default_factory=set)
    decision: BatchDecision | None = None


def claim_record(sink: str, run: str) -> tuple[bytes, bytes]:
    """Key and value; the topic keeps the last of each key."""
    return _key(sink, "claim"), _text({"run": run})


def decision_record(sink: str, decision: BatchDecision) -> tuple[bytes, bytes]:
    """Key and value."""
    content = {
        "run": decision.run,
        "query": decision.query,
        "batch": decision.batch,
        "transactions": decision.transactions,
    }
    return _key(sink, "decision"), _text(content)


def take_in(state: SinkState, sink: str, key: bytes | None, value: bytes | None) -> None:
    """Let a record of the topic change what stands; others' records change nothing."""
    if value is None:
        return
    if key == _key(sink, "claim"):
        run = json.loads(value)["run"]
        if state.run not in (None, run):
            state.superseded.add(str(state.run))
        state.superseded.discard(run)
        state.run = run
    elif key == _key(sink, "decision"):
        told = json.loads(value)
        transactions = tuple(SinkTransaction(*each) for each in told["transactions"])
        state.decision = BatchDecision(told["run"], told["query"], told["batch"], transactions)


def _key(sink: str, kind: str) -> bytes:
    return f"{sink}/{kind}".encode()


def _text(content: dict[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


# One that dies within a decision holds up those who read for no longer.
_DECIDING_MS: Final = 15_000
_PATIENCE_S: Final = 120.0
_ATTEMPTS: Final = 20
# Where there are brokers for it: nobody can write while the decisions cannot be read.
_COPIES: Final = 3
_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}


class DecisionLog:
    """Claims and decisions of one sink. `settings` are those of the sink's producers.

    `allows_two_phase` is False once these brokers have refused a task's transaction of two-phase commit.
    """

    def __init__(self, settings: Mapping[str, str], sink: str) -> None:
        self._settings = settings
        self._sink = sink
        self._partition = TopicPartition(TOPIC, zlib.crc32(sink.encode()) % PARTITIONS)
        self._state = SinkState()
        self._admin = Admin(_only(settings, ADMIN))
        self._consumer = Consumer(
            _only(settings, CONSUMER) | {"isolation.level": "read_committed", "fetch.max.wait.ms": "50"}
        )
        self._is_reading = False
        self.allows_two_phase = True

    @property
    def admin(self) -> Admin:
        return self._admin

    def close(self) -> None:
        try:
            self._consumer.close()
        finally:
            self._admin.close()

    def read(self, *, is_patient: bool = True) -> SinkState:
        """All that stands now. Who is not patient does not wait for transactions that are open: where its
        own claim is among what it finds, so is all that was decided before that."""
        if not self._is_reading:
            self._begin()
        found = self._admin.list_offsets({self._partition: OffsetSpec.LATEST}, is_committed=not is_patient)
        end = found[self._partition].offset
        deadline = time.monotonic() + _PATIENCE_S
        while self._consumer.position(self._partition) < end:
            for record in self._consumer.poll(1.0):
                take_in(self._state, self._sink, record.key, record.value)
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"the decisions of sink {self._sink!r} cannot be read to their end ({self._partition}, "
                    f"offset {end}): a transaction hangs there? see `headrace txn find-hanging`"
                )
        return self._state

    def claim(self, run: str) -> SinkState:
        """Make this run the one that decides, unless it is already; SinkError where a later one does."""
        # A driver that died while it decided has left a transaction open: to claim ends it.
        state = self.read(is_patient=False)
        for _ in range(_ATTEMPTS):
            if state.run == run:
                return state
            if run in state.superseded:
                raise self._superseded(state)
            self._write(lambda now: None if now.run == run else claim_record(self._sink, run))
            state = self.read()
        raise SinkError(f"sink {self._sink!r} is claimed again and again: do two queries write to it?")

    def decide(self, decision: BatchDecision) -> BatchDecision:
        """What stands about this batch: this decision or an earlier one. SinkError for a run that is over."""

        def unless_decided(now: SinkState) -> tuple[bytes, bytes] | None:
            if now.run != decision.run:
                raise self._superseded(now)
            if now.decision is not None and now.decision.is_about(decision.query, decision.batch):
                return None
            return decision_record(self._sink, decision)

        for _ in range(_ATTEMPTS):
            self._write(unless_decided)
            found = self.read().decision
            if found is not None and found.is_about(decision.query, decision.batch):
                return found
        raise SinkError(
            f"sink {self._sink!r} cannot decide: others take up its transactional id all the time"
        )

    def _write(self, choose: Callable[[SinkState], tuple[bytes, bytes] | None]) -> None:
        """Shut others out, read what stands, then write what follows from it, unless shut out meanwhile."""
        producer = Producer(
            {
                **self._settings,
                "transactional.id": f"{PREFIX}{self._sink}",
                "transaction.timeout.ms": str(_DECIDING_MS),
            }
        )
        try:
            producer.init_transactions()
            record = choose(self.read())
            if record is not None:
                with producer.transaction():
                    key, value = record
                    producer.send(TOPIC, value, key=key, partition=self._partition.partition)
        except RefusedError as error:
            # Whoever came after has read what we wrote before; now we read what it wrote. A commit that is
            # late by one epoch is told that there is no transaction.
            if not isinstance(error, FencedError) and error.code != ErrorCode.INVALID_TXN_STATE:
                raise
        finally:
            producer.close(timeout_ms=0)

    def _begin(self) -> None:
        try:
            self._consumer.partitions_for(TOPIC)
        except NoSuchTopicError:
            self._create()
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)
        self._is_reading = True

    def _create(self) -> None:
        try:
            copies = min(_COPIES, len(self._admin.describe_cluster().brokers))
            self._admin.create_topic(
                TOPIC, partitions=PARTITIONS, replication_factor=copies, configs=_SETTINGS
            )
        except RefusedError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _superseded(self, state: SinkState) -> SinkError:
        return SinkError(
            f"another run of the query writes to sink {self._sink!r} now ({state.run}): this one has to end. "
            "If two queries are meant to run, give each its own option `sinkId`"
        )


def _only(settings: Mapping[str, str], known: Mapping[str, object]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name in known}
