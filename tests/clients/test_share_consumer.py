"""Share consumers over real sockets, with headrace in this process and with Apache Kafka."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import (
    AcknowledgeType,
    Admin,
    AsyncShareConsumer,
    ClientError,
    ClosedError,
    Producer,
    SettingError,
    ShareConsumer,
    ShareRecord,
)
from headrace.clients.internals.share.acknowledgements import Delivered, ranges_of
from tests.compat.clients.face import eventually
from tests.compat.stock_kafka import EITHER, running_either

SETTINGS = {
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_either(request.param, tmp_path_factory, SETTINGS) as bootstrap:
        yield bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=1)
    return name


@pytest.fixture
def group(bootstrap: str) -> str:
    """A group that begins with the oldest record."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        wanted = {"share.auto.offset.reset": "earliest"}
        admin.alter_configs("group", name, set_to=wanted)

        def is_known() -> bool:
            found = {each.name: each.value for each in admin.describe_configs("group", name)}
            return wanted.items() <= found.items()

        eventually(is_known, "the group's setting")  # Apache Kafka's broker hears of it after the answer
    return name


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number)


def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Poll until so many came."""
    taken: list[ShareRecord] = []
    for _ in range(600):
        taken += consumer.poll(0.1)
        if len(taken) >= count:
            return taken
    raise AssertionError(f"{len(taken)} of {count}")


def values(records: list[ShareRecord]) -> list[int]:
    return sorted(int(each.value) for each in records)


def test_a_poll_accepts_what_the_last_one_gave(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, 0, 50)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 50)) == list(range(50))
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert consumer.acquisition_lock_timeout_ms == 30_000
        assert consumer.assignment == {TopicPartition(topic, 0)}
    write(bootstrap, topic, 50, 1)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe(topic)
        assert values(take(consumer, 1)) == [50], "nothing that was accepted comes again"


def test_the_program_says_what_becomes_of_each(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, 0, 3)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        done, later, hopeless = sorted(take(consumer, 3), key=lambda each: each.offset)
        assert {each.delivery_count for each in (done, later, hopeless)} == {1}
        with pytest.raises(ClientError, match=r"not acknowledged.*before the next poll"):
            consumer.poll(0.1)
        consumer.acknowledge(done)
        consumer.acknowledge(later, AcknowledgeType.RELEASE)
        consumer.acknowledge(hopeless, AcknowledgeType.REJECT)
        with pytest.raises(ClientError, match=r"is not held here"):
            consumer.acknowledge(done)
        [again] = take(consumer, 1)
        assert (again.offset, again.delivery_count) == (later.offset, 2)
        consumer.acknowledge(again, AcknowledgeType.RENEW)
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        consumer.acknowledge(again)
        assert consumer.commit() == {TopicPartition(topic, 0): None}
    write(bootstrap, topic, 3, 1)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 1)) == [3]


def test_what_is_held_is_given_back_at_the_end(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, 0, 5)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        first, *_ = sorted(take(consumer, 5), key=lambda each: each.offset)
        consumer.acknowledge(first)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        rest = take(consumer, 4)
        assert values(rest) == [1, 2, 3, 4]
        assert {each.delivery_count for each in rest} == {2}


def test_members_share_one_partition(bootstrap: str, topic: str, group: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "max.poll.records": 10}
    write(bootstrap, topic, 0, 200)

    async def work() -> dict[int, list[int]]:
        taken: dict[int, list[int]] = {0: [], 1: []}
        both = asyncio.Event()

        async def member(number: int) -> None:
            async with AsyncShareConsumer(settings | {"share.acquire.mode": "record_limit"}) as consumer:
                consumer.subscribe([topic])
                while sum(map(len, taken.values())) < 200:
                    rows = await consumer.poll(0.2)
                    assert len(rows) <= 10
                    taken[number] += [int(each.value) for each in rows]
                    if all(taken.values()):
                        both.set()
                    if rows:
                        await both.wait()  # the other may join later: nobody takes all before it

        await asyncio.gather(member(0), member(1))
        return taken

    taken = asyncio.run(work())
    assert sorted(taken[0] + taken[1]) == list(range(200)), "each once"
    assert all(taken.values()), "both had some"


def test_markers_of_transactions_hold_nobody_up(bootstrap: str, topic: str, group: str) -> None:
    """They have offsets of their own, where there is no record."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            producer.commit_transaction()
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 3)) == [0, 1, 2]
        consumer.commit()
    write(bootstrap, topic, 3, 1)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert values(take(consumer, 1)) == [3]


def test_a_record_that_cannot_be_deserialized_is_released(bootstrap: str, topic: str, group: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b"1", b"one", b"2"):
            producer.send(topic, value)
    seen: list[int] = []
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group, value_deserializer=int) as consumer:
        consumer.subscribe([topic])
        failures: list[str] = []
        while len(seen) < 2 or not failures:
            try:
                seen += [each.value for each in consumer.poll(0.5)]
            except ClientError as error:
                failures.append(str(error))
    assert seen == [1, 2]
    assert f"offset 1 of {topic}-0 cannot be deserialized, and is released: invalid literal" in failures[0]


def test_what_is_wrong_is_said(bootstrap: str, topic: str, group: str) -> None:
    with pytest.raises(SettingError, match=r"member of a group"):
        ShareConsumer(bootstrap_servers=bootstrap)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        with pytest.raises(ClientError, match=r"subscribe\(\[...\]\) before poll"):
            consumer.poll()
        write(bootstrap, topic, 0, 1)
        consumer.subscribe([topic])
        [record] = take(consumer, 1)
        with pytest.raises(ClientError, match=r"is for share.acknowledgement.mode=explicit"):
            consumer.acknowledge(record)
    with pytest.raises(ClosedError, match=r"make another one"):
        consumer.poll()


def test_ranges_have_one_answer_and_no_hole() -> None:
    answers = {4: 1, 1: 1, 2: 1, 3: 2, 7: 1}
    assert ranges_of(answers) == [(1, 2, [1]), (3, 3, [2]), (4, 4, [1]), (7, 7, [1])]
    assert ranges_of({}) == []


def test_a_renewed_record_is_still_held() -> None:
    held, place = Delivered(), TopicPartition("t", 0)
    held.give(place, 5)
    held.answer(place, 5, AcknowledgeType.RENEW)
    assert held.take([place]) == {place: {5: 4}}
    assert held.is_any_open
    with pytest.raises(ClientError, match=r"a gap is where there is no record"):
        held.answer(place, 5, AcknowledgeType.GAP)
    held.answer_all(AcknowledgeType.ACCEPT)
    assert not held.is_any_open
    assert held.answered == {place}
    assert held.take([place, TopicPartition("t", 1)]) == {place: {5: 1}}
    assert held.take([place]) == {}
