"""Writes the original: numbers 0, 1, 2, … into each partition, in transactions, of which some are aborted."""

import random
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException, Producer

RECORDS: Final = 120  # of a transaction, over all partitions
ABORTED: Final = b"aborted"
ABORT_CHANCE: Final = 0.2
SECONDS: Final = 120.0


class Feeder(threading.Thread):
    """Keeps ahead of the copiers by `ahead` records. `fed` is how many numbers each partition has."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, seed: int, ahead: int, copied: Callable[[], int]
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self.fed = [0] * partitions
        self.trouble: str | None = None
        self._topic = topic
        self._chance = random.Random(seed)
        self._ahead = ahead
        self._copied = copied
        self._is_over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "feeder", "linger.ms": 2, "log_level": 0}
        )

    @property
    def total(self) -> int:
        return sum(self.fed)

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        try:
            self._producer.init_transactions(SECONDS)
            while not self._is_over.is_set():
                if self.total - self._copied() < self._ahead:
                    self._feed()
                else:
                    self._is_over.wait(0.02)
        except KafkaException as error:
            self.trouble = f"the feeder: {error!r}"

    def _feed(self) -> None:
        """One transaction; one that must be aborted is written again."""
        is_kept = self._chance.random() >= ABORT_CHANCE
        each = RECORDS // len(self.fed)
        self._producer.begin_transaction()
        try:
            for partition, first in enumerate(self.fed):
                for number in range(first, first + each):
                    value = b"%d" % number if is_kept else ABORTED
                    self._producer.produce(self._topic, value, partition=partition)
            if not is_kept:
                self._producer.flush(SECONDS)  # so that it is there to be passed over
                self._producer.abort_transaction(SECONDS)
                return
            self._producer.commit_transaction(SECONDS)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(SECONDS)
            return
        self.fed = [count + each for count in self.fed]
