"""What a node is filled with, and everything that clients can read from it.

Everything is read twice: by librdkafka, which checks CRCs here, and by our own client. Where a reader is
refused, that is noted, and reading goes on behind the record that should have been there.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Stock
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer as OwnConsumer
from tests.compat.clients.face import eventually

GROUP: Final = "readers"
SMALL: Final = {"internal.segment.bytes": "9000", "index.interval.bytes": "400"}
TOPICS: Final = {
    "plain": SMALL,
    "trimmed": SMALL,
    "decided": SMALL,
    "keyed": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "tiered": SMALL | {"remote.storage.enable": "true", "local.retention.bytes": "9000"},
}
COMPACTED: Final = frozenset({"keyed", "__consumer_offsets", "__transaction_state"})
GROWING: Final = frozenset({"__consumer_offsets", "__transaction_state", "__remote_log_metadata"})
START_MS: Final = 1_700_000_000_000
STALL_SECONDS: Final = 30.0
EARLY_END_SECONDS: Final = 3.0
REFUSALS_MAX: Final = 12
STALLS_MAX: Final = 2

Place = tuple[str, int]
T = TypeVar("T")


class Row(NamedTuple):
    """A record, as far as it is compared."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class Contents:
    """All that clients have read from a node."""

    bounds: dict[Place, tuple[int, int]] = field(default_factory=dict)
    stock: dict[Place, list[Row]] = field(default_factory=dict)
    committed: dict[Place, list[Row]] = field(default_factory=dict)
    own: dict[Place, list[Row]] = field(default_factory=dict)
    by_time: dict[Place, int] = field(default_factory=dict)
    groups: dict[Place, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """What readers were told instead of records."""


# -- writing -------------------------------------------------------------------------------------------------


def fill(bootstrap: str) -> None:
    """Make the topics, and write enough that each has closed segments."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(topic, 1, config=dict(config)) for topic, config in TOPICS.items()])
    for each in made.values():
        each.result(30)
    write(bootstrap, 0, 300)
    admin.delete_records([Stock("trimmed", 0, 137)])[Stock("trimmed", 0)].result(30)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, "log_level": 0}
    )
    places = [Stock(topic, 0, 40 + at) for at, topic in enumerate(TOPICS)]

    def commits() -> object:
        try:
            return consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return None  # the coordinator is still coming up

    eventually(commits, "the group's coordinator")
    consumer.close()


def write(bootstrap: str, first: int, end: int) -> None:
    """So many records to each topic; `decided` gets them in transactions, of which every third is aborted."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 7, "linger.ms": 5}
    producer = Producer(settings | {"enable.idempotence": True})
    failures: list[object] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for topic in TOPICS:
        if topic != "decided":
            for number in range(first, end):
                key = b"k%d" % (number % 20) if topic == "keyed" else None
                _produce(producer, topic, number, key, note)
    assert producer.flush(60) == 0
    decider = Producer(settings | {"transactional.id": "decider"})
    decider.init_transactions(30)
    for number in range(first, end, 20):
        decider.begin_transaction()
        for each in range(number, min(number + 20, end)):
            _produce(decider, "decided", each, None, note)
        decider.flush(30)  # an abort would purge what has not been sent yet
        (decider.abort_transaction if number // 20 % 3 == 1 else decider.commit_transaction)(30)
    assert not failures, failures[:3]


def _produce(
    producer: Producer, topic: str, number: int, key: bytes | None, note: Callable[..., None]
) -> None:
    value = b"%s %d " % (topic.encode(), number)
    producer.produce(
        topic,
        value.ljust(140, b"%d" % (number % 10)),
        key,
        partition=0,
        timestamp=START_MS + 1000 * number,
        on_delivery=note,
    )


# -- reading -------------------------------------------------------------------------------------------------


def read(bootstrap: str, before: Contents | None = None) -> Contents:
    """Everything, by a process of its own: damaged bytes may end librdkafka, and whoever uses it."""
    global _process
    try:
        return _process.submit(_read, bootstrap, before).result()
    except BrokenProcessPool:
        _process = _new_process()
        return Contents(refusals=["the reader's process ended"])


def _new_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


_process = _new_process()


def _read(bootstrap: str, before: Contents | None) -> Contents:
    """`before` tells where to go on behind what cannot be read."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = Contents()
    known = admin.list_topics(timeout=60).topics
    places = sorted((name, each) for name, topic in known.items() for each in topic.partitions)
    for place in places:
        starts, ends = (
            _ask(admin, place, spec, found) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        if starts is not None and ends is not None:
            found.bounds[place] = (starts, ends)
        if place[0] in TOPICS:
            spec = OffsetSpec.for_timestamp(START_MS + 150_500)
            found.by_time[place] = _or(_ask(admin, place, spec, found), -2)
    expected = {} if before is None else before.stock
    found.stock = _read_stock(bootstrap, found, expected, {})
    found.committed = _read_stock(bootstrap, found, expected, {"isolation.level": "read_committed"})
    found.own = _read_own(bootstrap, found, expected)
    found.groups = _read_groups(admin, found)
    return found


def _or(found: int | None, otherwise: int) -> int:
    return otherwise if found is None else found


def _ask(admin: AdminClient, place: Place, spec: OffsetSpec, found: Contents) -> int | None:
    """An offset by ListOffsets; a leader that has just begun may not know it yet."""

    def ask() -> int:
        (answer,) = admin.list_offsets(
            {Stock(*place): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=20
        ).values()
        return answer.result(30).offset

    return _told(ask, f"ListOffsets {place}", found)


def _told(ask: Callable[[], T], what: str, found: Contents) -> T | None:
    """The answer; None, and a note, where it is an error for too long."""
    errors: list[KafkaException] = []

    def tried() -> list[T]:
        try:
            return [ask()]
        except KafkaException as error:
            errors.append(error)
            return []

    try:
        return eventually(tried, what, STALL_SECONDS)[0]
    except AssertionError:
        found.refusals.append(f"{what}: {errors[-1]}")
        return None


class _Progress:
    """How far a reader is in one partition."""

    def __init__(self, place: Place, bounds: tuple[int, int], expected: list[Row], found: Contents) -> None:
        self.place = place
        self.position, self.end = bounds
        self.rows: list[Row] = []
        self.is_over = self.position >= self.end
        self._expected = [row.offset for row in expected]
        self._found = found
        self._refused = 0
        self._since = time.monotonic()
        self.ends_early = False
        self._stalls = 0

    def take(self, row: Row) -> None:
        self.rows.append(row)
        self.ends_early = False
        self.reach(row.offset + 1)

    def meet_end(self, offset: int) -> None:
        """The reader is told that there is no more. An open transaction, whose marker was lost, ends what is
        committed for good; a leader that has just begun may not know all yet."""
        self.reach(offset)
        self.ends_early = not self.is_over

    def give_up(self) -> None:
        self._found.refusals.append(
            f"{self.place[0]}-{self.place[1]} ends at {self.position}, not {self.end}"
        )
        self.is_over = True

    def reach(self, offset: int) -> None:
        if offset > self.position:
            self.position, self._since = offset, time.monotonic()
        self.is_over = self.is_over or self.position >= self.end

    def refuse(self, why: str) -> int | None:
        """Where to go on; None where nothing more is to be had."""
        self._refused += 1
        self._found.refusals.append(f"{self.place[0]}-{self.place[1]} at offset {self.position}: {why}")
        following = next((offset for offset in self._expected if offset > self.position), None)
        if following is None or self._refused > REFUSALS_MAX:
            self.is_over = True
            return None
        self.reach(following)
        return following

    @property
    def is_stalled(self) -> bool:
        seconds = EARLY_END_SECONDS if self.ends_early else STALL_SECONDS
        return not self.is_over and time.monotonic() > self._since + seconds

    def stall(self) -> int | None:
        """The same as `refuse`, without a word from the client: one that does not go on behind that twice
        does not either."""
        self._stalls += 1
        if self.ends_early or self._stalls > STALLS_MAX:
            self.give_up()
            return None
        return self.refuse("no record and no error")


def _progress(found: Contents, expected: dict[Place, list[Row]]) -> dict[Place, _Progress]:
    return {
        place: _Progress(place, bounds, expected.get(place, []), found)
        for place, bounds in found.bounds.items()
    }


def _read_stock(
    bootstrap: str, found: Contents, expected: dict[Place, list[Row]], more: dict[str, str]
) -> dict[Place, list[Row]]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "any",
        "log_level": 0,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
    }
    consumer = Consumer(settings | more)
    readers = _progress(found, expected)
    consumer.assign(
        [Stock(*place, reader.position) for place, reader in readers.items() if not reader.is_over]
    )
    while not all(reader.is_over for reader in readers.values()):
        for message in consumer.consume(1000, timeout=0.05):
            reader = readers[message.topic(), message.partition()]
            error = message.error()
            if error is None and not reader.is_over:
                reader.take(Row(message.offset(), message.key(), message.value()))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                reader.meet_end(message.offset())
            elif error is not None and not reader.is_over:
                _seek(consumer, reader, reader.refuse(str(error)))
        for reader in readers.values():
            if reader.is_stalled:
                _seek(consumer, reader, reader.stall())
    consumer.close()
    return {place: reader.rows for place, reader in readers.items()}


def _seek(consumer: Consumer, reader: _Progress, following: int | None) -> None:
    if following is None:
        return
    try:
        consumer.seek(Stock(*reader.place, following))
    except KafkaException:  # not while it looks for its leader: then it starts there
        consumer.incremental_unassign([Stock(*reader.place)])
        consumer.incremental_assign([Stock(*reader.place, following)])


def _read_own(bootstrap: str, found: Contents, expected: dict[Place, list[Row]]) -> dict[Place, list[Row]]:
    readers = _progress(found, expected)
    with OwnConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", fetch_max_wait_ms=50) as consumer:
        for place, reader in readers.items():
            if reader.is_over:
                continue
            partition = TopicPartition(*place)
            consumer.assign([partition])
            consumer.seek(partition, reader.position)
            while not reader.is_over:
                try:
                    records = consumer.poll(0.1)
                except Exception as error:  # whatever it is, it is what a user would see
                    following = reader.refuse(f"{type(error).__name__}: {error}")
                    if following is not None:
                        consumer.seek(partition, following)
                    continue
                for record in records:
                    reader.take(Row(record.offset, record.key, record.value))
                reader.reach(consumer.position(partition))
                following = reader.stall() if reader.is_stalled else None
                if following is not None:
                    consumer.seek(partition, following)
    return {place: reader.rows for place, reader in readers.items()}


def _read_groups(admin: AdminClient, found: Contents) -> dict[Place, int]:
    def ask() -> dict[Place, int]:
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP]
        return {(each.topic, each.partition): each.offset for each in answer.result(30).topic_partitions}

    return _told(ask, f"the offsets of group {GROUP}", found) or {}


# -- comparing -----------------------------------------------------------------------------------------------


def differences(before: Contents, after: Contents) -> list[str]:
    """What is not as it was. Logs of the node itself may have grown."""
    found = list(after.refusals)
    for place, bounds in before.bounds.items():
        now = after.bounds.get(place)
        is_same = now == bounds if place[0] not in GROWING else now is not None and now[1] >= bounds[1]
        if not is_same:
            found.append(f"{place} has offsets {now}, not {bounds}")
    for name in ("stock", "committed", "own"):
        for place, rows in getattr(before, name).items():
            found += _row_differences(place, rows, getattr(after, name).get(place, []), name)
    for name in ("by_time", "groups"):
        if getattr(before, name) != getattr(after, name):
            found.append(f"{name}: {getattr(after, name)}, not {getattr(before, name)}")
    return found


def _row_differences(place: Place, before: list[Row], after: list[Row], reader: str) -> list[str]:
    if place[0] in COMPACTED:
        was, now = ({row.key: row.value for row in rows} for rows in (before, after))
        return [f"{place} by {reader}: key {key!r} differs" for key in was if now.get(key) != was[key]]
    if before == after[: len(before)] and (len(before) == len(after) or place[0] in GROWING):
        return []
    lacking, more = set(before) - set(after), set(after) - set(before)
    told = [
        f"{len(each)} {what} from {min(row.offset for row in each)}"
        for each, what in ((lacking, "lack"), (more, "more"))
        if each
    ]
    return [f"{place} by {reader}: {', '.join(told) or 'in another order'}"]
