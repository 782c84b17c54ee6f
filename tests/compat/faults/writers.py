"""Idempotent producers of four libraries, each in a thread, and what became of every record they sent.

Record number n of a producer goes to partition n modulo the number of partitions, with `NAME/n` as its
value, so that a reader can tell what follows what. No more than some records are under way at a time: a
fault always meets requests, and an hour of it fits into memory. A record that fails is noted, since its
fate is open."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from headrace.clients import Delivery, Producer
from tests.compat.faults.checker import Told, value_of
from tests.compat.faults.logins import NOBODY, Login

UNDER_WAY_MAX = 100
DELIVERY_SECONDS = 240.0
REFUSED_LOGIN = ("invalid credentials", "Invalid username or password", "certificate verify failed")


class Writer(ABC):
    """Sends until told to stop. `acknowledged` has the partition and offset of each value; `longest_wait`
    is the longest time without any. `login` may change: a library that does not take that as it is gets
    another producer, once all answers of the former have come."""

    name: str
    tells_every_offset = True

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        records_per_second: float,
        login: Login = NOBODY,
    ) -> None:
        self.acknowledged: dict[bytes, tuple[int, int | None]] = {}
        self.failed: dict[bytes, str] = {}
        self.trouble: str | None = None
        self.sent = 0
        self.longest_wait = 0.0
        self._last_at = 0.0
        self._login = login
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / records_per_second
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No new records. `is_done` tells when the answers that are due have come."""
        self._is_over.set()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    @property
    def told(self) -> Told:
        """For the checker, once this is done."""
        return Told(self.name, self.sent, self.acknowledged, self.failed, self.tells_every_offset)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._write()
        except Exception as error:
            self.trouble = f"{self.name}: {error!r}"

    @abstractmethod
    def _write(self) -> None:
        """Sends `_records` and waits for all answers; then again, where the login is another one."""

    def _login_number(self) -> int:
        """When this is another one, another producer is due."""
        return self._login.number

    def _records(self) -> Iterator[tuple[int, bytes] | None]:
        """Partition and value of each record at its time; None means to wait for answers."""
        # A second producer goes on at the same pace: no burst for the time before it.
        began, login = time.monotonic() - self.sent * self._pause, self._login_number()
        while not self._is_over.is_set() and self._login_number() == login:
            due = int((time.monotonic() - began) / self._pause)
            answered = len(self.acknowledged) + len(self.failed)
            if self.sent >= due or self.sent - answered >= UNDER_WAY_MAX:
                # What could not be sent in time is not made up for in a burst.
                began = max(began, time.monotonic() - (self.sent + 1) * self._pause)
                yield None
                continue
            number, self.sent = self.sent, self.sent + 1
            yield number % self._partitions, value_of(self.name, number)

    def _note(self, value: bytes, partition: int, offset: int | None) -> None:
        now = time.monotonic()
        self.longest_wait = max(self.longest_wait, now - (self._last_at or now))
        self._last_at = now
        self.acknowledged[value] = (partition, offset)

    def _note_failure(self, value: bytes, error: object) -> None:
        self.failed[value] = f"{self.name}: {value.rstrip()!r}: {error!r}"


class ConfluentWriter(Writer):
    """librdkafka, with up to five requests under way."""

    name = "confluent"
    tells_every_offset = False  # its implicit acknowledgements have none

    def _write(self) -> None:
        producer = ConfluentProducer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **self._login.librdkafka(),
            },
            error_cb=self._note_refusal,
        )

        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._note(message.value(), message.partition(), message.offset())
            else:
                self._note_failure(message.value(), error)

        number = self._login.number
        for record in self._records():
            if self._login.number != number:
                number = self._login.number
                producer.set_sasl_credentials(*self._login.credentials())
            if record is None:
                producer.poll(0.01)
                continue
            producer.produce(self._topic, record[1], partition=record[0], on_delivery=told)
            producer.poll(0)
        producer.flush(DELIVERY_SECONDS)

    def _login_number(self) -> int:
        return self._login.authority_number

    def _note_refusal(self, error: KafkaError) -> None:
        """What it tells of connections that were lost is no error to the program; a refused login is."""
        if any(word in error.str() for word in REFUSED_LOGIN):
            self.trouble = f"{self.name}: {error}"


class AiokafkaWriter(Writer):
    """One request under way to each partition."""

    name = "aiokafka"

    def _write(self) -> None:
        asyncio.run(self._write_async())

    async def _write_async(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            acks="all",
            linger_ms=2,
            request_timeout_ms=60_000,
            **self._login.aiokafka(),
        )
        await producer.start()
        answers: set[asyncio.Future[Any]] = set()
        for record in self._records():
            if record is None:
                await asyncio.sleep(0.01)
                continue
            partition, value = record
            try:
                answer = await producer.send(self._topic, value, partition=partition)
            except AiokafkaError as error:
                self._note_failure(value, error)
                continue
            answers.add(answer)
            answer.add_done_callback(answers.discard)
            answer.add_done_callback(lambda done, value=value: self._settle(value, done))
        if answers:
            await asyncio.wait(answers, timeout=DELIVERY_SECONDS)
        await producer.stop()

    def _settle(self, value: bytes, done: "asyncio.Future[Any]") -> None:
        if error := done.exception():
            self._note_failure(value, error)
        else:
            self._note(value, done.result().partition, done.result().offset)


class KafkaPythonWriter(Writer):
    """The oldest Python client; it is idempotent by default."""

    name = "kafka-python"

    def _write(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            linger_ms=2,
            request_timeout_ms=10_000,
            delivery_timeout_ms=int(DELIVERY_SECONDS * 1000),
            max_block_ms=int(DELIVERY_SECONDS * 1000),
            **self._login.kafka_python(),
        )
        for record in self._records():
            if record is None:
                self._is_over.wait(0.01)
                continue
            partition, value = record
            answer = producer.send(self._topic, value, partition=partition)
            answer.add_callback(lambda told, value=value: self._note(value, told.partition, told.offset))
            answer.add_errback(lambda error, value=value: self._note_failure(value, error))
        producer.flush(DELIVERY_SECONDS)
        producer.close(5)


class HeadraceWriter(Writer):
    """Our own."""

    name = "headrace"

    def _write(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "linger.ms": 2,
            "request.timeout.ms": 10_000,
            "delivery.timeout.ms": int(DELIVERY_SECONDS * 1000),
            "max.block.ms": int(DELIVERY_SECONDS * 1000),
            **self._login.headrace(),
        }
        with Producer(settings) as producer:
            for record in self._records():
                if record is None:
                    self._is_over.wait(0.01)
                    continue
                partition, value = record
                delivery = producer.send(self._topic, value, partition=partition)
                delivery.add_done_callback(lambda done, value=value: self._settle(value, done))

    def _login_number(self) -> int:
        return self._login.authority_number

    def _settle(self, value: bytes, done: Delivery) -> None:
        if error := done.exception():
            self._note_failure(value, error)
        else:
            told = done.result()
            self._note(value, told.partition, told.offset)


WRITERS: tuple[type[Writer], ...] = (ConfluentWriter, AiokafkaWriter, KafkaPythonWriter, HeadraceWriter)
