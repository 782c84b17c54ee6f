"""The topic of decisions, as one process reads and writes it for one sink.

Reading goes on where it ended, so a task of the next batch reads only what is new. It ends at what was
written when it began, open transactions included: those are over in a moment, and one of them may decide the
very batch that is asked about. Only whoever wants to claim looks at what is committed first: the open
transaction of a driver that died would be over in 15 seconds, and to claim ends it at once.
"""

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, Producer
from headrace.clients.errors import FencedError, NoSuchTopicError, RefusedError, TimedOutError
from headrace.clients.places import Place
from headrace.clients.setting_tables import ADMIN, CONSUMER
from headrace.spark.sink.decisions import (
    PARTITIONS,
    PREFIX,
    TOPIC,
    Decision,
    SinkState,
    claim_record,
    decision_record,
    take_in,
)
from headrace.spark.sink.errors import SinkError

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
    """Claims and decisions of one sink. `settings` are those of the sink's producers."""

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

    @property
    def admin(self) -> Admin:
        return self._admin

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()

    def read(self, *, is_patient: bool = True) -> SinkState:
        """All that stands now. Who is not patient does not wait for transactions that are open: where its
        own claim is among what it finds, so is all that was decided before that."""
        if not self._is_reading:
            self._begin()
        found = self._admin.find_offsets({self._partition: Place.LATEST}, is_committed=not is_patient)
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

    def decide(self, decision: Decision) -> Decision:
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
            self._admin.create_topic(TOPIC, partitions=PARTITIONS, replication=copies, settings=_SETTINGS)
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
