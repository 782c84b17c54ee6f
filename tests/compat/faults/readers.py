"""Readers that follow all partitions while faults go on, and remember what they saw at each offset.

A consumer may only ever be handed what is committed. So whatever a reader saw has to be there at the end,
at the same offset; and it sees every offset once and in order, because it seeks nowhere. To be asked to
start over (an offset out of range) would mean that the log lost what was read already: the readers treat it
as an error."""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPlace
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPlace

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer
from tests.compat.faults.logins import NOBODY, Login
from tests.compat.raw_wire import described_by

PROBE_SECONDS = 0.05
CLOSE_SECONDS = 20.0
UNKNOWN_TOPIC = 3


class Reader(ABC):
    """Reads from the beginning until told to stop. `seen` has (offset, value) of each partition, as handed
    out; `on_record` is told of each as well. Where `login` changes, another consumer goes on."""

    name: str

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        isolation: str = "read_uncommitted",
        login: Login = NOBODY,
        on_record: Callable[[int, int, bytes], None] = lambda partition, offset, value: None,
    ) -> None:
        self.seen: dict[int, list[tuple[int, bytes]]] = {at: [] for at in range(partitions)}
        self._isolation = isolation
        self._login = login
        self._number = 0
        self._on_record = on_record
        self.trouble: str | None = None
        self._bootstrap = bootstrap
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader {self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """What happens from now on is no concern of the test's."""
        self._is_over.set()

    def stop(self) -> None:
        """What was seen counts. A library that does not come back from its own close is left behind:
        librdkafka may wait there for good, with nothing on the wire and brokers that answer."""
        self.ask_to_stop()
        self._thread.join(CLOSE_SECONDS)

    def has_reached(self, ends: dict[int, int]) -> bool:
        return self.trouble is not None or all(
            end == 0 or (self.seen[at] and self.seen[at][-1][0] >= end - 1) for at, end in ends.items()
        )

    def left(self, ends: dict[int, int]) -> list[tuple[int, int, int]]:
        """Partitions that it has not read to their ends: where it goes on, and the end."""
        nexts = self._next_offsets()
        return [(at, nexts[at], end) for at, end in ends.items() if nexts[at] < end]

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._number = self._login.number
                self._read()
        except Exception as error:
            self.trouble = f"reader {self.name}: {error!r}"

    def _note(self, partition: int, offset: int, value: bytes) -> None:
        self.seen[partition].append((offset, value))
        self._on_record(partition, offset, value)

    @property
    def _goes_on(self) -> bool:
        return not self._is_over.is_set() and self._login.number == self._number

    def _next_offsets(self) -> dict[int, int]:
        return {at: seen[-1][0] + 1 if seen else 0 for at, seen in self.seen.items()}

    @abstractmethod
    def _read(self) -> None:
        """While it `_goes_on`."""


class ConfluentReader(Reader):
    name = "confluent"
    debug = ""
    """What librdkafka shall tell the log about, as its setting of this name has it."""

    def _read(self) -> None:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "isolation.level": self._isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                **({"debug": self.debug} if self.debug else {"log_level": 0}),
                **self._login.librdkafka(),
            },
            logger=logging.getLogger("librdkafka"),
        )
        consumer.assign(
            [ConfluentPlace(self._topic, at, next_) for at, next_ in self._next_offsets().items()]
        )
        while self._goes_on:
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is not None:
                    raise RuntimeError(message.error())
                self._note(message.partition(), message.offset(), message.value())
        consumer.close()


class AiokafkaReader(Reader):
    name = "aiokafka"

    def _read(self) -> None:
        asyncio.run(self._read_async())

    async def _read_async(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level=self._isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            request_timeout_ms=10_000,
            **self._login.aiokafka(),
        )
        nexts = {AiokafkaPlace(self._topic, at): offset for at, offset in self._next_offsets().items()}
        consumer.assign(list(nexts))
        await consumer.start()
        for place, offset in nexts.items():
            consumer.seek(place, offset)
        while self._goes_on:
            for place, records in (await consumer.getmany(timeout_ms=100)).items():
                for each in records:
                    self._note(place.partition, each.offset, each.value)
        await consumer.stop()


class HeadraceReader(Reader):
    name = "headrace"

    def _read(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "isolation.level": self._isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "none",
            "request.timeout.ms": 10_000,
            **self._login.headrace(),
        }
        with Consumer(settings) as consumer:
            nexts = {TopicPartition(self._topic, at): offset for at, offset in self._next_offsets().items()}
            consumer.assign(list(nexts))
            for place, offset in nexts.items():
                consumer.seek(place, offset)
            while self._goes_on:
                for record in consumer.poll(0.1):
                    self._note(record.partition, record.offset, record.value)


class Prober(threading.Thread):
    """Asks every node for the topic, again and again. One that answers clients must know it: librdkafka
    gives a topic up for which a single node says that it does not exist."""

    def __init__(self, addresses: Sequence[str], topic: str) -> None:
        super().__init__(name="prober", daemon=True)
        self.violations: list[str] = []
        self._addresses = addresses
        self._topic = topic
        self._is_over = threading.Event()

    def run(self) -> None:
        with ThreadPoolExecutor(max(len(self._addresses), 1)) as pool:
            list(pool.map(self._probe, self._addresses))

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def _probe(self, address: str) -> None:
        while not self._is_over.wait(PROBE_SECONDS):
            found = described_by(address, self._topic)
            if found is not None and found[0] == UNKNOWN_TOPIC:
                now = time.strftime("%H:%M:%S")
                self.violations.append(f"{now}: {address} answered that there is no topic {self._topic}")


READERS: tuple[type[Reader], ...] = (ConfluentReader, AiokafkaReader, HeadraceReader)
