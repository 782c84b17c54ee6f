"""The demonstration: sample page views are written to a topic at a gentle pace and read back as they arrive.

One loop does both: write what is due, wait a moment for what comes back, tell the view. It needs nothing
but a cluster's address, so it shows any Kafka as well. What is seen is counted here; how it looks is the
view's (`demo_view.py`).
"""

import json
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, ConsumedRecord, Consumer, Producer
from headrace.clients.errors import RefusedError

PARTITIONS: Final = 3
PAGES: Final = ("/", "/pricing", "/docs", "/docs/start", "/blog", "/login", "/cart")
# How often people look at each page, roughly.
WEIGHTS: Final = (30, 12, 18, 14, 9, 11, 6)
USERS: Final = 40
_POLL_S: Final = 0.1
_LAST_SHOWN: Final = 12


@dataclass(slots=True)
class Seen:
    """What has come back so far."""

    written: int = 0
    read: int = 0
    pages: Counter[str] = field(default_factory=Counter)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    latest: deque[ConsumedRecord] = field(default_factory=lambda: deque(maxlen=_LAST_SHOWN))
    delays_ms: deque[int] = field(default_factory=lambda: deque(maxlen=100))
    elapsed_ms: int = 0

    @property
    def delay_ms(self) -> int:
        """How long a record took from being written to being read, in the middle of the last hundred."""
        return sorted(self.delays_ms)[len(self.delays_ms) // 2] if self.delays_ms else 0


class View(Protocol):
    """Shows a demonstration."""

    def record(self, record: ConsumedRecord, delay_ms: int) -> None:
        """A record has arrived."""
        ...

    def update(self, seen: Seen) -> None:
        """Some time has passed."""
        ...


def sample_page_view(rng: random.Random, now_ms: int) -> tuple[bytes, bytes]:
    """Somebody looks at a page: the key is the user, so that one user's views stay in order."""
    user = f"user-{rng.randrange(USERS)}"
    page = rng.choices(PAGES, WEIGHTS)[0]
    value = {"user": user, "page": page, "ms": int(rng.lognormvariate(4.2, 0.6)), "at": now_ms}
    return user.encode(), json.dumps(value).encode()


def run_demo(
    admin: Admin,
    producer: Producer,
    consumer: Consumer,
    view: View,
    *,
    topic: str,
    per_second: int,
    rng: random.Random,
    clock: Clock,
    records_max: int | None = None,
) -> Seen:
    """Write and read until `records_max` records were read; without it until KeyboardInterrupt."""
    _prepare(admin, consumer, topic)
    seen = Seen()
    started = clock.monotonic_ms()
    while records_max is None or seen.read < records_max:
        seen.elapsed_ms = clock.monotonic_ms() - started
        _write_due(producer, topic, seen, per_second, rng, clock.now_ms(), records_max)
        for record in consumer.poll(_POLL_S):
            delay_ms = max(0, clock.now_ms() - record.timestamp_ms)
            _count(seen, record, delay_ms)
            view.record(record, delay_ms)
        seen.ends = consumer.positions()
        view.update(seen)
    return seen


def _prepare(admin: Admin, consumer: Consumer, topic: str) -> None:
    """See that the topic is there, and begin to read at its end before anything is written."""
    try:
        admin.create_topic(topic, partitions=PARTITIONS)
    except RefusedError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    consumer.assign(consumer.partitions_for(topic))
    for each in consumer.assignment:
        consumer.position(each)


def _write_due(
    producer: Producer,
    topic: str,
    seen: Seen,
    per_second: int,
    rng: random.Random,
    now_ms: int,
    records_max: int | None,
) -> None:
    # The first one at once, so that there is something to see.
    due = 1 + seen.elapsed_ms * per_second // 1000
    for _ in range((due if records_max is None else min(due, records_max)) - seen.written):
        key, value = sample_page_view(rng, now_ms)
        producer.send(topic, value, key=key, timestamp_ms=now_ms)
        seen.written += 1
    producer.flush()


def _count(seen: Seen, record: ConsumedRecord, delay_ms: int) -> None:
    seen.read += 1
    seen.latest.append(record)
    seen.delays_ms.append(delay_ms)
    seen.pages[page_of(record)] += 1


def page_of(record: ConsumedRecord) -> str:
    """The page that was looked at; the topic may hold other people's records as well."""
    try:
        return str(json.loads(record.value or b"{}").get("page", "?"))
    except (ValueError, AttributeError):
        return "?"
