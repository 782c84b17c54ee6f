"""Consume, transform, produce: what is read, what is made of it and how far was read are one transaction.

    def shout(record: ConsumerRecord) -> Iterable[Output]:
        yield Output("loud", record.value.upper(), key=record.key)

    settings = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "shouters"}
    with Processor(settings | {"transactional.id": "shouter-1"}, ["quiet"], shout) as processor:
        processor.run()

Each poll's records are one transaction. One that cannot be committed, because partitions went to another
member meanwhile, a record was refused, or a broker took too long, is aborted and its records are read again;
nothing of it is seen by who reads committed records. Every instance needs a transactional id of its own,
which it keeps over restarts.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from headrace.base.ids import TopicPartition
from headrace.clients.config import CONSUMER, PRODUCER
from headrace.clients.consumer import Consumer
from headrace.clients.errors import AbortableError, CommitFailedError, TimedOutError
from headrace.clients.internals.consumer.completed_fetch import ConsumerRecord
from headrace.clients.internals.producer.encoding import Headers
from headrace.clients.producer import Producer
from headrace.settings.definition import SettingError

log = logging.getLogger(__name__)

POLL_S: Final = 1.0


class Output(NamedTuple):
    """A record to be written."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Transform = Callable[[ConsumerRecord], Iterable[Output]]


class Processor:
    """Reads topics as a member of a group and writes what `transform` makes of each record, exactly once.

    `settings` are those of the consumer and the producer together; group.id and transactional.id are needed.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        transform: Transform,
        *,
        max_records: int = 1000,
    ) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        # Each is given what it knows; a setting that neither knows is for the producer to refuse.
        reading = {name: value for name, value in given.items() if name in CONSUMER}
        self._writing = {
            name: value for name, value in given.items() if name in PRODUCER or name not in CONSUMER
        }
        fixed = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        self._transform = transform
        self._max_records = max_records
        self._is_stopping = False
        for name in ("group.id", "transactional.id"):
            if not given.get(name):
                raise SettingError(name, "it is needed to read and write exactly once")
        self._consumer = Consumer({"auto.offset.reset": "earliest"} | reading | fixed)
        try:
            self._consumer.subscribe(topics)
            self._producer = self._open_producer()
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Until `stop`, which any thread may call. FencedError where another instance has taken over."""
        while not self._is_stopping:
            self.step(POLL_S)

    def stop(self) -> None:
        """Let `run` return after the step it is in. From any thread."""
        self._is_stopping = True

    def step(self, timeout: float = 0.0) -> int:
        """One poll and its transaction; how many records were processed, 0 where they have to be read again.

        What `transform` raises aborts the transaction and is raised; the next step reads the records again.
        """
        records = self._consumer.poll(timeout, max_records=self._max_records)
        if not records:
            return 0
        try:
            with self._producer.transaction():
                self._write(records)
        except (AbortableError, CommitFailedError) as error:
            log.info("a transaction was aborted, its records are read again: %s", error)
            self._rewind(records)
            return 0
        except TimedOutError as error:
            log.warning("a transaction's end is not known, another producer finds out: %s", error)
            self._producer.close(0)
            self._producer = self._open_producer()
            self._resume(records)
            return 0
        except BaseException:
            self._rewind(records)
            raise
        return len(records)

    def close(self) -> None:
        """Leave the group, and end."""
        self._consumer.close()
        self._producer.close()

    def _open_producer(self) -> Producer:
        producer = Producer(self._writing)
        try:
            producer.init_transactions()
        except BaseException:
            producer.close(0)
            raise
        return producer

    def _write(self, records: list[ConsumerRecord]) -> None:
        send = self._producer.send
        for record in records:
            for topic, value, key, headers, partition, timestamp_ms in self._transform(record):
                send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        positions = self._consumer.positions()
        read = {each: positions[each] for each in _partitions(records) if each in positions}
        self._producer.send_offsets_to_transaction(read, self._consumer.group_metadata())

    def _rewind(self, records: list[ConsumerRecord]) -> None:
        """Read them again, as far as they are still this member's."""
        assigned = self._consumer.assignment
        for partition, offset in _partitions(records).items():
            if partition in assigned:
                self._consumer.seek(partition, offset)

    def _resume(self, records: list[ConsumerRecord]) -> None:
        """Go on behind what the group has committed by now."""
        first = _partitions(records)
        mine = [each for each in first if each in self._consumer.assignment]
        committed = self._consumer.committed(mine)
        for each in mine:
            self._consumer.seek(each, committed[each].offset if each in committed else first[each])


def _partitions(records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    """The partitions of records, each with its first offset among them."""
    found: dict[TopicPartition, int] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    return found
