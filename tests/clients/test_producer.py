"""Where records go, what is sent again, and what is told about the rest."""

import random
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError, RefusedError
from headrace.clients.producer import BATCH_BYTES, Delivery, Producer
from headrace.records.batch import Codec, batches, read_records
from headrace.wire.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.clients.scripted import TOPIC_ID, ScriptedCluster

NOT_LEADER = 6
TOO_LARGE = 10


class Written:
    """Answers Produce: takes everything, except where `errors` says otherwise, once each."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.errors: list[int] = []
        scripted.handlers["Produce"] = self.handle

    def handle(self, request: Any, node: int) -> ProduceResponse | None:
        results = []
        for data in request.topic_data[0].partition_data:
            error = self.errors.pop(0) if self.errors else 0
            if not error:
                self.batches.setdefault(data.index, []).append(bytes(data.records))
            results.append(PartitionProduceResponse(index=data.index, error_code=error, base_offset=100))
        if request.acks == 0:
            return None
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=results)
        return ProduceResponse(responses=[topic])

    def values(self, partition: int) -> list[bytes | None]:
        return [each.value for batch in self.batches.get(partition, []) for each in read_records(batch)]


def producer(scripted: ScriptedCluster, deliveries: list[Delivery] | None = None, **options: Any) -> Producer:
    heard = [] if deliveries is None else deliveries
    return Producer(scripted.client(), rng=random.Random(7), on_delivery=heard.append, **options)


def test_keys_choose_partitions_as_everywhere() -> None:
    scripted = ScriptedCluster()
    scripted.leaders = {("t", partition): 1 for partition in range(5)}
    written = Written(scripted)
    writer = producer(scripted)
    # What Kafka's Java producer chooses among five partitions.
    for key, value in ((b"a", b"1"), (b"kafka", b"2"), (b"", b"3")):
        writer.send("t", value, key=key)
    writer.flush()
    assert {value: partition for partition in range(5) for value in written.values(partition)} == {
        b"1": 4,
        b"2": 0,
        b"3": 1,
    }


def test_a_batch_for_each_partition_to_its_leader() -> None:
    scripted = ScriptedCluster({1: 9092, 2: 9093})
    scripted.leaders = {("t", 0): 1, ("t", 1): 2}
    written = Written(scripted)
    deliveries: list[Delivery] = []
    writer = producer(scripted, deliveries, codec=Codec.GZIP)
    for number in range(10):
        writer.send("t", b"%d" % number, partition=number % 2, headers=(("h", None),))
    writer.flush()
    assert [node for node, name, _, _ in scripted.requests if name == "Produce"] == [1, 2]
    assert written.values(0) == [b"0", b"2", b"4", b"6", b"8"]
    assert [header.codec for _, header in batches(written.batches[1][0])] == [Codec.GZIP]
    assert [(each.partition, each.first_offset, len(each.records)) for each in deliveries] == [
        (TopicPartition("t", 0), 100, 5),
        (TopicPartition("t", 1), 100, 5),
    ]


def test_a_full_batch_leaves_by_itself() -> None:
    scripted = ScriptedCluster()
    written = Written(scripted)
    writer = producer(scripted)
    for _ in range(3):
        writer.send("t", bytes(BATCH_BYTES // 2))
    assert len(written.batches[0]) == 2
    writer.flush()
    assert len(written.values(0)) == 3


def test_what_may_pass_is_sent_again_and_only_that() -> None:
    scripted = ScriptedCluster()
    scripted.leaders = {("t", 0): 1, ("t", 1): 1}
    written = Written(scripted)
    written.errors = [NOT_LEADER]
    writer = producer(scripted)
    writer.send("t", b"a", partition=0)
    writer.send("t", b"b", partition=1)
    writer.flush()
    assert (written.values(0), written.values(1)) == ([b"a"], [b"b"])
    assert len(scripted.asked("Produce")) == 2


def test_what_will_not_pass_is_told() -> None:
    scripted = ScriptedCluster()
    Written(scripted).errors = [TOO_LARGE]
    writer = producer(scripted)
    writer.send("t", b"a")
    with pytest.raises(RefusedError, match=r"cannot write to t-0: .*max\.message\.bytes"):
        writer.flush()


def test_nothing_is_waited_for_without_acks() -> None:
    scripted = ScriptedCluster()
    written = Written(scripted)
    writer = producer(scripted, acks=0)
    writer.send("t", b"a")
    writer.flush()
    assert written.values(0) == [b"a"]


def test_a_partition_that_is_not_there() -> None:
    with pytest.raises(ClientError, match=r"no partition 3: it has 0 to 0"):
        producer(ScriptedCluster()).send("t", b"a", partition=3)


def test_topics_are_named_for_a_broker_without_ids() -> None:
    scripted = ScriptedCluster()
    scripted.versions[0] = (0, 9)
    written = Written(scripted)
    writer = producer(scripted)
    writer.send("t", b"a")
    writer.flush()
    assert scripted.asked("Produce")[0].topic_data[0].name == "t"
    assert written.values(0) == [b"a"]
