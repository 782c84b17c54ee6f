"""Share consumers over real sockets, with headrace in this process and with Apache Kafka."""

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import (
    AcknowledgeType,
    Admin,
    AsyncShareConsumer,
    ClientError,
    ClosedError,
    ErrorCode,
    GroupBusyError,
    NoPartitionError,
    NoSuchGroupError,
    Producer,
    RefusedError,
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
    return group_with(bootstrap, {"share.auto.offset.reset": "earliest"})


def group_with(bootstrap: str, settings: dict[str, str]) -> str:
    """A new group's name, once the broker knows its settings."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs("group", name, set_to=settings)

        def is_known() -> bool:
            found = {each.name: each.value for each in admin.describe_configs("group", name)}
            return settings.items() <= found.items()

        eventually(is_known, "the group's settings")  # Apache Kafka's broker hears of them after the answer
    return name


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number)


def write_old(bootstrap: str, topic: str, age_ms: dict[bytes, int]) -> None:
    now_ms = int(time.time() * 1000)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value, own_ms in age_ms.items():
            producer.send(topic, value, timestamp_ms=now_ms - own_ms).result(30)


def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Poll until so many came."""
    taken: list[ShareRecord] = []
    for _ in range(600):
        taken += consumer.poll(0.1)
        if len(taken) >= count:
            return taken
    raise AssertionError(f"{len(taken)} of {count}")


def take_one(consumer: ShareConsumer) -> ShareRecord:
    """One record; what came with it waits."""
    for _ in range(600):
        if rows := consumer.poll(0.1, max_records=1):
            return rows[0]
    raise AssertionError("nothing came")


def take_table(consumer: ShareConsumer, count: int, columns: list[str] | None = None) -> Any:
    """One poll that brings so many: all else needs an answer first."""
    for _ in range(600):
        if (table := consumer.poll_arrow(0.1, columns=columns)).num_rows:
            assert table.num_rows == count
            return table
    raise AssertionError("nothing came")


def assert_all_done(bootstrap: str, group: str) -> None:
    """What was never handed out (aborted records, markers) holds no group back."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        eventually(
            lambda: [each.lag for each in admin.list_share_group_offsets(group).values()] == [0], "no lag"
        )


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


@pytest.mark.parametrize("ends", ["commits", "aborts"])
def test_read_committed_waits_for_open_transactions(bootstrap: str, topic: str, ends: str) -> None:
    """Aborted records are never handed out, and nothing is behind the first open transaction."""
    settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    group = group_with(bootstrap, settings)
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        for value, is_kept in ((b"1", False), (b"2", True), (b"3", False), (b"4", True)):
            producer.begin_transaction()
            producer.send(topic, value).result(30)
            if is_kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"5").result(30)
        write(bootstrap, topic, 6, 1)
        with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert values(take(consumer, 2)) == [2, 4]
            assert consumer.poll(0.3) == [], "the transaction is open"
            if ends == "commits":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            left = [5, 6] if ends == "commits" else [6]
            assert values(take(consumer, len(left))) == left
            consumer.commit()
            assert_all_done(bootstrap, group)


def test_read_uncommitted_gives_out_whatever_is_written(bootstrap: str, topic: str, group: str) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"1").result(30)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"2").result(30)
        with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert values(take(consumer, 2)) == [1, 2]
        producer.abort_transaction()


def test_isolation_that_changes_counts_for_what_is_acquired_then(bootstrap: str, topic: str) -> None:
    """A record of an open transaction that was handed out and given back is not handed out again."""
    group = group_with(bootstrap, {"share.auto.offset.reset": "earliest"})
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"1").result(30)
        with ShareConsumer(settings) as consumer:
            consumer.subscribe([topic])
            [record] = take(consumer, 1)
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
            consumer.commit()
        producer.abort_transaction()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs("group", group, set_to={"share.isolation.level": "read_committed"})
    write(bootstrap, topic, 2, 1)
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        [record] = take(consumer, 1)
        assert record.value == b"2"


@pytest.mark.parametrize(("duration", "expected"), [("PT1H", [2, 3]), ("P1D", [1, 2, 3]), ("PT10M", [3])])
def test_a_group_begins_so_long_before_now(
    bootstrap: str, topic: str, duration: str, expected: list[int]
) -> None:
    group = group_with(bootstrap, {"share.auto.offset.reset": f"by_duration:{duration}"})
    write_old(bootstrap, topic, {b"1": 7_200_000, b"2": 1_800_000})
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        if len(expected) == 1:
            assert consumer.poll(0.3) == [], "Apache Kafka has no offset for it yet"
        write(bootstrap, topic, 3, 1)
        assert values(take(consumer, len(expected))) == expected


@pytest.mark.parametrize("text", ["by_duration:1h", "by_duration:-PT1H", "by_duration:", "newest"])
def test_where_a_group_begins_is_checked(bootstrap: str, text: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin, pytest.raises(RefusedError) as told:
        admin.alter_configs("group", "g", set_to={"share.auto.offset.reset": text})
    assert told.value.code is ErrorCode.INVALID_CONFIG


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


def test_a_poll_for_few_records_holds_no_more(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, 0, 6)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acquire.mode": "record_limit"}
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        assert take_one(consumer).value == b"0"
        consumer.commit()
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert {each.delivery_count for each in take(consumer, 5)} == {1}


def test_tables_are_acknowledged_row_by_row(bootstrap: str, topic: str, group: str) -> None:
    """Rows and tables of one fetch: what was polled as rows is not in the table behind it."""
    write(bootstrap, topic, 0, 6)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        row = take_one(consumer)
        assert row.value == b"0"
        consumer.acknowledge(row)
        table = take_table(consumer, 5)
        assert table.column_names[:3] == ["topic", "partition", "offset"]
        assert table["value"].to_pylist() == [b"1", b"2", b"3", b"4", b"5"]
        assert table["delivery_count"].to_pylist() == [1] * 5
        with pytest.raises(ClientError, match=r"not acknowledged.*before the next poll"):
            consumer.poll_arrow(0.1)
        with pytest.raises(ClientError, match=r"has no column 'partition'"):
            consumer.acknowledge_arrow(table.select(["topic", "offset"]))
        consumer.acknowledge_arrow(table[:1], AcknowledgeType.REJECT)
        with pytest.raises(ClientError, match=r"offset 1 of .* is not held here"):
            consumer.acknowledge_arrow(table)  # and says nothing of the others
        consumer.acknowledge_arrow(table[1:3])
        consumer.acknowledge_arrow(table[3:], AcknowledgeType.RELEASE)
        again = take_table(consumer, 2, columns=["delivery_count", "value"])
        assert again.to_pylist() == [{"delivery_count": 2, "value": each} for each in (b"4", b"5")]
        with pytest.raises(ValueError, match=r"there is no column 'deliveries'"):
            consumer.poll_arrow(columns=["deliveries"])


def test_tables_on_a_loop_pass_over_markers(bootstrap: str, topic: str, group: str) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            producer.commit_transaction()

    async def script() -> list[bytes]:
        async with AsyncShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
            consumer.subscribe([topic])
            found: list[bytes] = []
            while len(found) < 3:
                found += (await consumer.poll_arrow(0.5))["value"].to_pylist()
            assert await consumer.commit() == {TopicPartition(topic, 0): None}
            return found

    assert asyncio.run(asyncio.wait_for(script(), 60)) == [b"0", b"1", b"2"]
    assert_all_done(bootstrap, group)


def test_an_administrator_moves_a_group_and_takes_it_away(bootstrap: str, topic: str, group: str) -> None:
    write(bootstrap, topic, 0, 5)
    place = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_share_group_offsets(group, {place: 3})
        assert admin.list_share_group_offsets(group)[place][::2] == (3, 2)
        with ShareConsumer(bootstrap_servers=bootstrap, group_id=group, client_id="worker") as consumer:
            consumer.subscribe([topic])
            assert values(take(consumer, 2)) == [3, 4]
            [described] = admin.describe_share_groups(group)
            [member] = described.members
            assert (described.state, described.assignor) == ("Stable", "simple")
            assert (member.client_id, member.subscription, member.assignment) == ("worker", [topic], [place])
            for change in (
                lambda: admin.alter_share_group_offsets(group, {place: 0}),
                lambda: admin.delete_share_group_offsets(group, topic),
                lambda: admin.delete_share_groups(group),
            ):
                with pytest.raises(GroupBusyError, match=r"it has members"):
                    change()
        assert admin.list_share_group_offsets(group)[place].lag == 0
        with pytest.raises(NoPartitionError, match=r"there is no such partition"):
            admin.alter_share_group_offsets(group, {TopicPartition(topic, 7): 0})
        with pytest.raises(NoPartitionError, match=r"offsets of topic 'nothing' in share group"):
            admin.delete_share_group_offsets(group, "nothing")
        admin.delete_share_group_offsets(group, topic)
        assert admin.list_share_group_offsets(group) == {}
        admin.delete_share_groups([group])
        with pytest.raises(NoSuchGroupError):
            admin.describe_share_groups([group])


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
    held.give(place, [5])
    held.answer({place: [5]}, AcknowledgeType.RENEW)
    assert held.take([place]) == {place: {5: 4}}
    assert held.is_any_open
    with pytest.raises(ClientError, match=r"a gap is where there is no record"):
        held.answer({place: [5]}, AcknowledgeType.GAP)
    held.answer_all(AcknowledgeType.ACCEPT)
    assert not held.is_any_open
    assert held.answered == {place}
    assert held.take([place, TopicPartition("t", 1)]) == {place: {5: 1}}
    assert held.take([place]) == {}
