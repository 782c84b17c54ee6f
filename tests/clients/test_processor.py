"""Consume, transform, produce with real nodes: members come, fail and go, and every record is there once."""

import threading
import uuid
from collections.abc import Iterable, Iterator

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, ConsumerRecord, Output, Processor, Producer
from headrace.clients.errors import FencedError
from headrace.settings.definition import SettingError
from headrace.testing import Cluster
from tests.spark.whole_topics import await_markers_on

RECORDS = 3_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


class Work:
    """A topic to copy, and where to."""

    def __init__(self, cluster: Cluster) -> None:
        name = uuid.uuid4().hex[:8]
        self.servers = cluster.bootstrap_servers
        self.source, self.target, self.group = f"in-{name}", f"out-{name}", f"g-{name}"
        for topic in (self.source, self.target):
            cluster.create_topic(topic, 3)
        with Producer(bootstrap_servers=self.servers) as producer:
            for number in range(RECORDS):
                producer.send(self.source, b"%d" % number, key=b"%d" % (number % 31))

    def copy(self, record: ConsumerRecord) -> Iterable[Output]:
        yield Output(self.target, record.value, key=record.key, headers=(("from", b"%d" % record.offset),))

    def processor(self, name: str, protocol: str = "consumer") -> Processor:
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "transactional.id": f"{self.group}-{name}",
            "group.protocol": protocol,
        }
        return Processor(settings, [self.source], self.copy, max_records=100)

    def copied(self) -> list[int]:
        """What a reader of committed records finds now."""
        with Consumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            partitions = consumer.partitions_for(self.target)
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            found: list[int] = []
            while any(consumer.position(each) < ends[each] for each in partitions):
                found += [int(record.value) for record in consumer.poll(1)]
        return found


@pytest.fixture
def work(cluster: Cluster) -> Work:
    return Work(cluster)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_come_and_go_copy_every_record_once(work: Work, protocol: str) -> None:
    finished = threading.Event()

    def member(number: int) -> None:
        steps = 0
        while not finished.is_set():
            # Each leaves after a while and comes back: its partitions go to the others in between.
            with work.processor(f"member-{number}", protocol) as processor:
                left = 5 + 3 * number + steps
                while left and not finished.is_set():
                    left -= processor.step(0.2) > 0
                    steps += 1

    members = [threading.Thread(target=member, args=(number,)) for number in range(3)]
    for each in members:
        each.start()
    try:
        while len(work.copied()) < RECORDS:
            pass
    finally:
        finished.set()
        for each in members:
            each.join()
    assert sorted(work.copied()) == list(range(RECORDS))


def test_what_the_transform_raises_is_read_again(work: Work) -> None:
    fails = iter([False] * 150 + [True])

    def copy(record: ConsumerRecord) -> Iterable[Output]:
        if next(fails, False):
            raise ZeroDivisionError
        return work.copy(record)

    settings = {"bootstrap.servers": work.servers, "group.id": work.group, "transactional.id": work.group}
    count = failures = 0
    with Processor(settings, [work.source], copy, max_records=100) as processor:
        while count < RECORDS:
            try:
                count += processor.step(1)
            except ZeroDivisionError:
                failures += 1
    assert failures == 1
    await_markers_on(work.servers, work.target)
    assert sorted(work.copied()) == list(range(RECORDS))


def test_whoever_takes_over_the_name_fences_the_other(work: Work) -> None:
    with work.processor("same") as old:
        while not old.step(1):
            pass
        with work.processor("same"):
            with pytest.raises(FencedError):
                _step_for_ever(old)
            await_markers_on(work.servers, work.target)
            copied = work.copied()
            assert len(copied) == len(set(copied)) > 0


def _step_for_ever(processor: Processor) -> None:
    while True:
        processor.step(1)


def test_offsets_and_output_agree(work: Work) -> None:
    with work.processor("one") as processor:
        for _ in range(3):
            while not processor.step(1):
                pass
    await_markers_on(work.servers, work.target)
    with Consumer(bootstrap_servers=work.servers, group_id=work.group) as consumer:
        places = consumer.committed([TopicPartition(work.source, number) for number in range(3)])
    assert sum(place.offset for place in places.values()) == len(work.copied()) > 0


def test_names_that_are_needed() -> None:
    with pytest.raises(SettingError, match=r"transactional\.id"):
        Processor({"bootstrap.servers": "h:1", "group.id": "g"}, ["t"], lambda record: ())
    with pytest.raises(SettingError, match=r"group\.id"):
        Processor({"bootstrap.servers": "h:1", "transactional.id": "x"}, ["t"], lambda record: ())
