"""The producer: every record's value is the number of its offset, so that any reader sees what is missing."""

import threading
import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.compat.mixed_groups.roster import TOPIC

_BURST_SECONDS: Final = 0.05


class Numbering:
    """Writes to all partitions in turn on a thread of its own until it is stopped."""

    def __init__(self, bootstrap: str, *, partitions: int, records_per_second: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
        )
        self.ends = [0] * partitions
        self.failures: list[str] = []
        self._burst = max(1, int(records_per_second * _BURST_SECONDS))
        self._is_over = threading.Event()
        self._turn = 0
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._flush()

    def write_last(self) -> None:
        """One more to every partition, after everything has settled."""
        self.write(len(self.ends))
        self._flush()

    def _flush(self) -> None:
        if left := self._producer.flush(60):
            self.failures.append(f"{left} records were not acknowledged")

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._is_over.is_set():
            self.write(self._burst)
            next_at += _BURST_SECONDS
            self._is_over.wait(max(0.0, next_at - time.monotonic()))

    def write(self, count: int) -> None:
        for _ in range(count):
            partition = self._turn % len(self.ends)
            self._turn += 1
            number = self.ends[partition]
            self.ends[partition] += 1
            while True:
                try:
                    self._producer.produce(
                        TOPIC, b"%d" % number, partition=partition, on_delivery=self._check
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.poll(0)

    def _check(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        elif message.value() != b"%d" % message.offset():
            self.failures.append(f"{message.value()!r} was written at offset {message.offset()}")
