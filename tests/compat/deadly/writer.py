"""A producer that goes on after its broker was killed.

What was not acknowledged is sent again by a new producer, in order: one that was connected takes a second to
find out that its broker is back. So a record may be there twice, as with any producer that is not idempotent.
"""

import time
from collections import deque

from confluent_kafka import KafkaError, Message, Producer

from tests.compat.brokers import Broker

BATCH_RECORDS = 5
HOUR_MS = 3_600_000
Written = tuple[bytes, bytes | None]


class Writer:
    """Writes to partition 0 of a topic; `acknowledged` is all that has to be there, by offset.

    What is written at once is a second younger than what was before it, so `segment.ms` tells them apart.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.acknowledged: dict[int, Written] = {}
        self._broker = broker
        self._topic = topic
        self._pending: deque[Written] = deque()
        self._time_ms = time.time_ns() // 1_000_000 - HOUR_MS
        self._producer = self._open()

    def write(self, records: list[Written]) -> None:
        self._time_ms += 1000
        self._pending.extend(records)
        self._send(records)

    def is_done(self) -> bool:
        """Whether all of it is acknowledged."""
        self._producer.poll(0)
        return not self._pending

    def resume(self) -> None:
        """Have everything acknowledged by a broker that was started again."""
        self._producer.purge()
        self._producer = self._open()
        self._send(list(self._pending))
        assert self._producer.flush(60) == 0
        assert not self._pending

    def _send(self, records: list[Written]) -> None:
        producer = self._producer

        def note(error: KafkaError | None, message: Message) -> None:
            if producer is self._producer:
                assert error is None, error
                offset = message.offset()
                assert offset is not None
                self.acknowledged[offset] = self._pending.popleft()

        for key, value in records:
            producer.produce(self._topic, value, key, partition=0, timestamp=self._time_ms, on_delivery=note)

    def _open(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "max.in.flight": 1,  # what is sent again stays in order
                "batch.num.messages": BATCH_RECORDS,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
