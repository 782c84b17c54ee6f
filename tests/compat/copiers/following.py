"""Reads the copy, committed records alone, and tells where it is not the original."""

import threading
import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Place

TOLD_MAX: Final = 5
READ_SECONDS: Final = 120.0


class Copy:
    """What was read of a copy so far, number by number. `count` of each partition are as they must be."""

    def __init__(self, partitions: int) -> None:
        self.counts = [0] * partitions
        self.violations: list[str] = []

    @property
    def total(self) -> int:
        return sum(self.counts)

    def take(self, partition: int, offset: int, value: bytes) -> None:
        expected = self.counts[partition]
        if value == b"%d" % expected:
            self.counts[partition] += 1
            return
        if not value.isdigit():
            what = "was aborted in the original"
        elif int(value) < expected:
            what = "is there more than once"
        else:
            what = f"comes where {expected} was due: those between are lost, or late"
            self.counts[partition] = int(value) + 1
        if len(self.violations) < TOLD_MAX:
            self.violations.append(f"partition {partition}, offset {offset}: {value.decode()} {what}")


class Follower(threading.Thread):
    """Reads along until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="follower", daemon=True)
        self.copy = Copy(partitions)
        self.trouble: str | None = None
        self._is_over = threading.Event()
        self._consumer = consumer_of(bootstrap, topic, partitions)

    def run(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    self.copy.take(message.partition(), message.offset(), message.value())
                elif message.error().code() != KafkaError._PARTITION_EOF:
                    self.trouble = f"the follower: {message.error()}"

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def read_again(bootstrap: str, topic: str, partitions: int) -> Copy:
    """All of it, from the start to the end."""
    copy, consumer = Copy(partitions), consumer_of(bootstrap, topic, partitions)
    for message in messages_to_the_end(consumer, partitions):
        copy.take(message.partition(), message.offset(), message.value())
    return copy


def messages_to_the_end(consumer: Consumer, partitions: int) -> Iterator[Message]:
    """All messages until each partition has told its end; the consumer is closed then."""
    ended: set[int] = set()
    deadline = time.monotonic() + READ_SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"only {ended} have told their ends in {READ_SECONDS} s"
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                yield message
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    consumer.close()


def consumer_of(bootstrap: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([Place(topic, at, 0) for at in range(partitions)])
    return consumer
