"""The demonstration's machinery: what is written comes back, is counted, and is shown."""

import io
import random
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.demo import Seen, page_of, run_demo, sample_page_view
from headrace.cli.demo_view import LiveView, PlainView
from headrace.clients.consumer import ConsumedRecord
from headrace.records.batch import batches, stamp
from headrace.wire.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.clients.scripted import TOPIC_ID, ScriptedCluster


def with_a_log(scripted: ScriptedCluster) -> None:
    """One partition that keeps what is produced and gives it to fetches."""
    log: list[tuple[int, bytes]] = []

    def produce(request: Any, node: int) -> ProduceResponse:
        (data,) = request.topic_data[0].partition_data
        batch = bytearray(data.records)
        ((_, header),) = batches(batch)
        first = log[-1][0] if log else 0
        stamp(batch, 0, base_offset=first, leader_epoch=0)
        log.append((first + header.record_count, bytes(batch)))
        result = PartitionProduceResponse(index=0, base_offset=first)
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[result])
        return ProduceResponse(responses=[topic])

    def fetch(request: Any, node: int) -> FetchResponse | None:
        (wanted,) = request.topics[0].partitions
        data = b"".join(batch for end, batch in log if end > wanted.fetch_offset)
        found = PartitionData(high_watermark=log[-1][0], records=data)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[found])]
        )

    def list_offsets(request: Any, node: int) -> ListOffsetsResponse:
        result = ListOffsetsPartitionResponse(partition_index=0, offset=0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[result])])

    def create(request: Any, node: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=36)])

    scripted.handlers |= {
        "Produce": produce,
        "Fetch": fetch,
        "ListOffsets": list_offsets,
        "CreateTopics": create,
    }


class Watcher:
    """A view that remembers, and lets time pass as the loop goes round."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.records: list[ConsumedRecord] = []
        self._scripted = scripted

    def record(self, record: ConsumedRecord, delay_ms: int) -> None:
        self.records.append(record)

    def update(self, seen: Seen) -> None:
        self._scripted.now += 100


def test_what_is_written_comes_back() -> None:
    scripted = ScriptedCluster()
    with_a_log(scripted)
    watcher = Watcher(scripted)
    seen = run_demo(
        scripted.client(),
        scripted.client(),
        watcher,
        topic="t",
        per_second=20,
        rng=random.Random(1),
        records_max=30,
    )
    assert (seen.written, seen.read, seen.pages.total()) == (30, 30, 30)
    assert [each.offset for each in watcher.records] == list(range(30))
    assert len(scripted.asked("Produce")) > 5


def test_a_sample_is_a_page_view() -> None:
    key, value = sample_page_view(random.Random(3), 1000)
    assert key.startswith(b"user-")
    assert page_of(ConsumedRecord("t", 0, 0, 0, key, value, ())).startswith("/")
    assert page_of(ConsumedRecord("t", 0, 0, 0, None, b"not json", ())) == "?"
    assert page_of(ConsumedRecord("t", 0, 0, 0, None, b"[1]", ())) == "?"


def test_the_plain_view_is_a_line_for_each_record(capsys: pytest.CaptureFixture[str]) -> None:
    PlainView().record(ConsumedRecord("t", 2, 7, 0, b"k", b"v", ()), 5)
    assert capsys.readouterr().out == "t-2@7  v  read 5 ms after it was written\n"


def test_the_live_view_shows_pages_and_records() -> None:
    seen = Seen(read=2, elapsed_ms=1000)
    value = b'{"user": "user-1", "page": "/docs", "ms": 12}'
    seen.latest.append(ConsumedRecord("t", 0, 41, 0, b"user-1", value, ()))
    seen.pages["/docs"] = 2
    out = io.StringIO()
    Console(file=out, width=100).print(LiveView("127.0.0.1:9092", "t").picture(seen))
    shown = out.getvalue()
    for part in ("127.0.0.1:9092", "2 records read", "/docs", "user-1", "41"):
        assert part in shown
