"""Who waits: clients with their default settings that do one thing over and over, and note when it worked.

`stock` is librdkafka from Python, `own` are headrace's clients. A success counts for what was begun after the
kill: an answer that was already on its way tells nothing.
"""

import threading
import time
from abc import ABC, abstractmethod
from typing import Self

from confluent_kafka import Consumer as StockConsumer
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as StockProducer
from confluent_kafka import TopicPartition as StockPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, Producer, ResourceKind
from headrace.clients.errors import ClientError

EVERY_S = 0.01
LONGEST_S = 60.0
PATIENCE_S = 1.0
SETTING = "retention.ms"


class Client(ABC):
    """Works in a thread of its own between `with` and its end. `errors` are those a program would see."""

    def __init__(self, servers: str, topic: str, group: str = "") -> None:
        self.servers = servers
        self.topic = topic
        self.group = group
        self.errors: list[str] = []
        self._done: list[tuple[float, float]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def successes(self) -> int:
        return len(self._done)

    def succeeded(self, began: float) -> None:
        self._done.append((began, time.monotonic()))

    def first_after(self, moment: float) -> float:
        """When the first success came of what was begun after a moment; waits for it."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            done = [ended for began, ended in list(self._done) if began > moment]
            if done:
                return min(done)
            time.sleep(EVERY_S / 4)
        raise TimeoutError(f"{type(self).__name__}: nothing worked for {LONGEST_S} s: {self.errors[-3:]}")

    def _run(self) -> None:
        try:
            self.begin()
            while not self._ending.wait(EVERY_S):
                began = time.monotonic()
                try:
                    self.do_once(began)
                except (KafkaException, ClientError) as error:
                    self.errors.append(str(error))
        finally:
            self.end()

    @abstractmethod
    def begin(self) -> None:
        """Connect, join."""

    @abstractmethod
    def do_once(self, began: float) -> None:
        """One attempt; `succeeded` is told of it, now or later."""

    @abstractmethod
    def end(self) -> None: ...


class StockWriter(Client):
    def begin(self) -> None:
        self._producer = StockProducer({"bootstrap.servers": self.servers, "enable.idempotence": True})

    def do_once(self, began: float) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.succeeded(began)
            else:
                self.errors.append(str(error))

        self._producer.produce(self.topic, b"x" * 100, partition=0, on_delivery=delivered)
        self._producer.poll(0)

    def end(self) -> None:
        self._producer.flush(LONGEST_S)


class OwnWriter(Client):
    def begin(self) -> None:
        self._producer = Producer(bootstrap_servers=self.servers)

    def do_once(self, began: float) -> None:
        def delivered(delivery: object) -> None:
            error = sent.exception(0)
            if error is None:
                self.succeeded(began)
            else:
                self.errors.append(str(error))

        sent = self._producer.send(self.topic, b"x" * 100, partition=0)
        sent.add_done_callback(delivered)

    def end(self) -> None:
        self._producer.close()


class StockAdmin(Client):
    """Changes a setting: what only the active controller can answer.

    librdkafka sends it to the broker that it was told to be the controller, which is any, and keeps to that
    one while it is down: a program that gets no answer begins anew.
    """

    def begin(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.servers})

    def do_once(self, began: float) -> None:
        entry = ConfigEntry(SETTING, str(int(began * 1000)), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        try:
            asked = self._admin.incremental_alter_configs([resource], request_timeout=PATIENCE_S)
            for future in asked.values():
                future.result()
        except KafkaException:
            self.begin()
            raise
        self.succeeded(began)

    def end(self) -> None:
        pass


class OwnAdmin(Client):
    def begin(self) -> None:
        self._admin = Admin(bootstrap_servers=self.servers)

    def do_once(self, began: float) -> None:
        self._admin.alter_configs(ResourceKind.TOPIC, self.topic, set_to={SETTING: str(int(began * 1000))})
        self.succeeded(began)

    def end(self) -> None:
        self._admin.close()


class StockCommitter(Client):
    """A member of a group that commits offsets: what only the group's coordinator can answer."""

    def begin(self) -> None:
        self._consumer = StockConsumer(
            {"bootstrap.servers": self.servers, "group.id": self.group, "enable.auto.commit": False}
        )
        self._consumer.subscribe([self.topic])
        while not self._consumer.assignment() and not self._ending.is_set():
            self._consumer.poll(EVERY_S)

    def do_once(self, began: float) -> None:
        self._consumer.poll(0)
        offset = StockPartition(self.topic, 0, self.successes + 1)
        for committed in self._consumer.commit(offsets=[offset], asynchronous=False) or []:
            if committed.error is not None:
                raise KafkaException(committed.error)
        self.succeeded(began)

    def end(self) -> None:
        self._consumer.close()


class OwnCommitter(Client):
    def begin(self) -> None:
        self._consumer = Consumer(
            bootstrap_servers=self.servers, group_id=self.group, enable_auto_commit=False
        )
        self._consumer.subscribe([self.topic])
        while not self._consumer.assignment and not self._ending.is_set():
            self._consumer.poll(EVERY_S)

    def do_once(self, began: float) -> None:
        self._consumer.poll(0)
        self._consumer.commit({TopicPartition(self.topic, 0): self.successes + 1})
        self.succeeded(began)

    def end(self) -> None:
        self._consumer.close()
