"""Transactional producers of several libraries behind one face: a step of a transaction is a call.

A writer becomes the user of its transactional id when it is opened. What the broker refuses is raised as the
library's own exception, or as RefusedError by a program in another language.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPythonPartition

from tests.compat.clients.external import Program

SECONDS = 60.0
TRANSACTION_MS = 600_000  # a slow machine may take longer over a test than the usual minute


class Writer(ABC):
    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: str) -> None:
        """Written when it returns, or refused."""

    @abstractmethod
    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """A group's offsets, as part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Go away as a process does that was killed: what is open stays so."""


class ConfluentWriter(Writer):
    def __init__(
        self, bootstrap: str, transactional_id: str, *, transaction_ms: int = TRANSACTION_MS
    ) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_ms,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(SECONDS)
        self._bootstrap = bootstrap

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.produce(topic, value.encode(), partition=partition)
        assert self._producer.flush(SECONDS) == 0

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        rows = [confluent_kafka.TopicPartition(topic, at, offset) for at, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), SECONDS)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        del self._producer


class AiokafkaWriter(Writer):
    def __init__(
        self, bootstrap: str, transactional_id: str, *, transaction_ms: int = TRANSACTION_MS
    ) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_ms,
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._run(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {aiokafka.TopicPartition(topic, at): offset for at, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._producer._closed = True  # or it complains in whichever test is on when it is forgotten
        self._run(self._producer.client.close())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class KafkaPythonWriter(Writer):
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.send(topic, value.encode(), partition=partition).get(SECONDS)

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {
            KafkaPythonPartition(topic, at): OffsetAndMetadata(offset, "", -1)
            for at, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(rows, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class JavaWriter(Writer):
    """One of many producers in one JVM."""

    _numbers = itertools.count()

    def __init__(self, program: Program, transactional_id: str) -> None:
        self._name = str(next(self._numbers))
        self._program = program
        self._ask("open", id=transactional_id)

    def _ask(self, op: str, **args: Any) -> None:
        self._program.ask(f"txn.{op}", name=self._name, **args)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        self._ask("send", topic=topic, partition=partition, value=value)

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._ask("offsets", group=group, topic=topic, offsets=dict(offsets))

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")


PYTHON: dict[str, Callable[[str, str], Writer]] = {
    "confluent": ConfluentWriter,
    "aiokafka": AiokafkaWriter,
    "kafka-python": KafkaPythonWriter,
}
