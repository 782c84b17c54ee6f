"""Reading from offsets on: what is returned, what is passed over, and how a consumer follows its leader."""

from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients.consumer import Consumer
from headrace.clients.errors import ClientError, RefusedError
from headrace.clients.offsets import Place, find_offsets
from headrace.records.batch import ControlType, Record, build_batch, build_control_batch
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.clients.scripted import TOPIC_ID, ScriptedCluster

T0 = TopicPartition("t", 0)
NOT_LEADER = 6
OUT_OF_RANGE = 1


class Log:
    """Answers Fetch of one partition out of whole batches, as brokers do."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.batches: list[tuple[int, int, bytes]] = []  # first and last offset, bytes
        self.errors: list[int] = []
        self.tail = b""
        self._scripted = scripted
        scripted.handlers["Fetch"] = self.handle

    def add(self, first: int, *values: bytes, batch: bytes | None = None) -> None:
        records = [Record(value=value, timestamp=5) for value in values]
        data = bytes(build_batch(records, base_offset=first)) if batch is None else batch
        self.batches.append((first, first + max(1, len(values)) - 1, data))

    def handle(self, request: Any, node: int) -> FetchResponse:
        (wanted,) = request.topics[0].partitions
        data = b"".join(each for _, last, each in self.batches if last >= wanted.fetch_offset)
        if not data:
            self._scripted.now += request.max_wait_ms  # a broker waits for records so long
        end = max((last + 1 for _, last, _ in self.batches), default=0)
        error = self.errors.pop(0) if self.errors else 0
        found = PartitionData(
            error_code=error, high_watermark=end, records=b"" if error else data + self.tail
        )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[found])]
        )


def values(consumer: Consumer) -> list[bytes | None]:
    return [each.value for each in consumer.poll(1_000)]


def test_from_an_offset_on_within_a_batch() -> None:
    scripted = ScriptedCluster()
    log = Log(scripted)
    log.add(0, b"a", b"b", b"c")
    log.add(3, b"d")
    log.tail = log.batches[0][2][:30]  # brokers cut the last batch where their limit lies
    consumer = Consumer(scripted.client(), {T0: 1})
    assert not consumer.at_end()
    assert values(consumer) == [b"b", b"c", b"d"]
    assert consumer.positions == {T0: 4}
    assert consumer.at_end()


def test_markers_are_passed_over() -> None:
    scripted = ScriptedCluster()
    log = Log(scripted)
    log.add(0, b"a")
    marker = build_control_batch(ControlType.COMMIT, b"\0\0\0\0\0\0", base_offset=1, timestamp_ms=0)
    log.add(1, batch=bytes(marker))
    log.add(2, b"b")
    consumer = Consumer(scripted.client(), {T0: 0})
    assert values(consumer) == [b"a", b"b"]
    assert consumer.positions == {T0: 3}


def test_nothing_there_takes_the_time_given() -> None:
    scripted = ScriptedCluster()
    scripted.handlers["Fetch"] = lambda request, node: None
    consumer = Consumer(scripted.client(), {T0: 0})
    before = scripted.now
    assert consumer.poll(300) == []
    assert scripted.now == before + 300
    assert consumer.poll(300) == []
    assert len(scripted.asked("Fetch")) == 1


def test_a_leader_that_moves_is_followed() -> None:
    scripted = ScriptedCluster({1: 9092, 2: 9093})
    log = Log(scripted)
    log.add(0, b"a")
    log.errors = [NOT_LEADER]
    client = scripted.client()
    client.refresh(["t"])
    scripted.leaders[T0] = 2
    assert values(Consumer(client, {T0: 0})) == [b"a"]
    assert [node for node, name, _, _ in scripted.requests if name == "Fetch"] == [1, 2]


def test_a_leader_that_dies_is_followed() -> None:
    scripted = ScriptedCluster({1: 9092, 2: 9093})
    scripted.leaders[T0] = 2
    log = Log(scripted)
    log.add(0, b"a")
    consumer = Consumer(scripted.client(), {T0: 0})
    assert values(consumer) == [b"a"]
    scripted.dead_ports.add(9093)
    scripted.leaders[T0] = 1
    log.add(1, b"b")
    assert values(consumer) == [b"b"]


def test_an_offset_that_is_gone_is_told() -> None:
    scripted = ScriptedCluster()
    Log(scripted).errors = [OUT_OF_RANGE]
    with pytest.raises(RefusedError, match=r"cannot read t-0 from offset 9: .*from the beginning"):
        Consumer(scripted.client(), {T0: 9}).poll(1_000)


def test_broken_bytes_are_told() -> None:
    scripted = ScriptedCluster()
    log = Log(scripted)
    log.add(0, b"a")
    log.batches[0] = (0, 0, log.batches[0][2][:-1] + b"\xff")
    with pytest.raises(ClientError, match=r"t-0 at offset 0 is broken"):
        Consumer(scripted.client(), {T0: 0}).poll(1_000)


def test_offsets_are_asked_of_each_leader() -> None:
    scripted = ScriptedCluster({1: 9092, 2: 9093})
    scripted.leaders = {("t", 0): 1, ("t", 1): 2}

    def handle(request: Any, node: int) -> ListOffsetsResponse:
        (wanted,) = request.topics[0].partitions
        assert wanted.timestamp == Place.LATEST
        result = ListOffsetsPartitionResponse(partition_index=wanted.partition_index, offset=10 * node)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[result])])

    scripted.handlers["ListOffsets"] = handle
    wanted = [T0, TopicPartition("t", 1)]
    assert find_offsets(scripted.client(), wanted, Place.LATEST) == {wanted[0]: 10, wanted[1]: 20}


def test_what_keeps_it_from_reading_is_known() -> None:
    scripted = ScriptedCluster()
    log = Log(scripted)
    log.add(0, b"a")
    consumer = Consumer(scripted.client(), {T0: 0})
    assert values(consumer) == [b"a"]
    scripted.dead_ports.add(9092)
    assert consumer.poll(1_000) == []
    assert "127.0.0.1:9092" in str(consumer.trouble)
    scripted.dead_ports.clear()
    log.add(1, b"b")
    assert values(consumer) == [b"b"]
    assert consumer.trouble is None
