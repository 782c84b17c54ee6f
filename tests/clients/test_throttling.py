"""Producers and consumers whose broker throttles them: they wait, and lose and repeat nothing (KIP-219)."""

import time
from typing import Any

from headrace.clients import Consumer, Producer, TopicPartition
from tests.clients.scripted import Log, ScriptedCluster, Written

THROTTLE_MS = 400
TICK_MS = 5  # timers count whole milliseconds


class Times:
    """When requests of a kind came; the first reply tells to wait."""

    def __init__(self, scripted: ScriptedCluster, name: str) -> None:
        self.came: list[float] = []
        self._handle = scripted.handlers[name]
        scripted.handlers[name] = self.handle

    def handle(self, request: Any, node: int) -> Any:
        self.came.append(time.monotonic())
        response = self._handle(request, node)
        response.throttle_time_ms = THROTTLE_MS if len(self.came) == 1 else 0
        return response

    def waited_ms(self) -> float:
        return (self.came[1] - self.came[0]) * 1000


def test_a_producer_sends_nothing_until_the_time_is_over() -> None:
    with ScriptedCluster() as scripted:
        written = Written(scripted)
        times = Times(scripted, "Produce")
        with Producer(bootstrap_servers=scripted.address, linger_ms=0) as producer:
            producer.send("t", b"0").result(30)
            sent = [producer.send("t", str(number).encode()) for number in range(1, 20)]
            is_in_time = (time.monotonic() - times.came[0]) * 1000 < THROTTLE_MS - TICK_MS
            for each in sent:
                each.result(60)
        assert times.waited_ms() >= THROTTLE_MS - TICK_MS
        assert written.values(0) == [str(number).encode() for number in range(20)]
        # What had to wait has become one batch, unless this thread was held up for so long itself.
        assert len(written.batches[0]) <= 3 or not is_in_time


def test_a_consumer_asks_for_nothing_until_the_time_is_over() -> None:
    with ScriptedCluster() as scripted:
        log = Log(scripted)
        log.add(0, b"a")
        times = Times(scripted, "Fetch")
        with Consumer(bootstrap_servers=scripted.address) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek(TopicPartition("t", 0), 0)
            found: list[bytes | None] = []
            deadline = time.monotonic() + 60
            while len(found) < 2 and time.monotonic() < deadline:
                found += [each.value for each in consumer.poll(0.5)]
                if len(found) == 1 and len(log.batches) == 1:
                    log.add(1, b"b")
        assert found == [b"a", b"b"]
        assert times.waited_ms() >= THROTTLE_MS - TICK_MS
