"""A consumer and its partition's leader: a log that was cut back, a replica nearby, a hint, an old leader."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Consumer, Producer
from headrace.clients.errors import ClientError, LogTruncatedError
from headrace.clients.internals.consumer import offset_fetcher
from headrace.clients.internals.consumer.subscription_state import PartitionStates
from headrace.wire.schemas.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from headrace.wire.schemas.produce import LeaderIdAndEpoch as ProduceLeader
from headrace.wire.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.clients.scripted import TOPIC_ID, Log, ScriptedCluster, Written
from tests.compat.clients.face import eventually

T0 = TopicPartition("t", 0)
NOT_LEADER = 6


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(nodes=2) as cluster:
        yield cluster


def consumer(scripted: ScriptedCluster, **settings: Any) -> Consumer:
    options = {"retry_backoff_ms": 1, "metadata_max_age_ms": 50, "fetch_max_wait_ms": 20, **settings}
    return Consumer(bootstrap_servers=scripted.address, **options)


def partition_answer(**fields: Any) -> FetchResponse:
    data = PartitionData(**fields)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[data])])


def cut_back_to(scripted: ScriptedCluster, offset: int, *, epoch: int = 0) -> None:
    def handle(request: Any, node: int) -> OffsetForLeaderEpochResponse:
        assert request.topics[0].partitions[0].leader_epoch == epoch
        end = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=offset)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    scripted.handlers["OffsetForLeaderEpoch"] = handle
    scripted.leader_epoch = 1


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_a_log_that_was_cut_back_is_noticed(scripted: ScriptedCluster, policy: str) -> None:
    log = Log(scripted)
    log.add(0, b"a", b"b", b"c")
    with consumer(scripted, auto_offset_reset=policy) as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert [row.value for row in reader.poll(60)] == [b"a", b"b", b"c"]
        log.batches.clear()
        log.add(0, b"a")
        log.add(1, b"x")
        cut_back_to(scripted, 1)
        if policy == "none":
            with pytest.raises(LogTruncatedError, match="cut back from offset 3 to 1"):
                reader.poll(60)
        else:
            assert [row.value for row in reader.poll(60)] == [b"x"]


def test_a_new_leader_that_has_everything_is_read_on(scripted: ScriptedCluster) -> None:
    log = Log(scripted)
    log.add(0, b"a", b"b", b"c")
    with consumer(scripted) as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert len(reader.poll(60)) == 3
        cut_back_to(scripted, 3)
        scripted.leaders["t", 0] = 2
        log.add(3, b"d")
        assert [row.value for row in reader.poll(60)] == [b"d"]


@pytest.mark.parametrize(("end", "is_cut"), [(3, False), (2, True)])
def test_what_is_read_on_while_a_position_is_validated_is_not_judged_by_it(
    monkeypatch: pytest.MonkeyPatch, end: int, is_cut: bool
) -> None:
    """Three records of epoch 4 were read when epoch 5 began; two of its records were buffered already."""
    failures: list[ClientError] = []
    positions = PartitionStates()
    positions.replace([T0])
    (state,) = positions
    state.seek(3, 4)
    asked: list[int] = []

    async def find_epoch_ends(_: Any, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        asked.append(epochs[T0])
        if len(asked) == 1:
            state.position, state.position_epoch = 5, 5
            return {T0: EpochEndOffset(partition=0, leader_epoch=4, end_offset=end)}
        return {T0: EpochEndOffset(partition=0, leader_epoch=5, end_offset=9)}

    monkeypatch.setattr(offset_fetcher, "find_epoch_ends", find_epoch_ends)
    client = SimpleNamespace(
        config=SimpleNamespace(str=lambda _: "none"),
        metadata=SimpleNamespace(leader=lambda _: SimpleNamespace(node=1, epoch=5)),
        environment=SimpleNamespace(now_ms=lambda: 0.0),
    )
    finder = offset_fetcher.OffsetFetcher(
        cast(Any, client), positions, is_committed=False, on_failure=failures.append, on_stale=lambda: None
    )
    asyncio.run(finder.work())
    assert [type(each) for each in failures] == ([LogTruncatedError] if is_cut else [])
    if not is_cut:
        assert state.must_validate
        asyncio.run(finder.work())
        assert asked == [4, 5]
        assert not state.must_validate
        assert not failures


def test_a_replica_nearby_is_read(scripted: ScriptedCluster) -> None:
    log = Log(scripted)
    log.add(0, b"a")

    def handle(request: Any, node: int) -> FetchResponse:
        assert request.rack_id == "here"
        return partition_answer(preferred_read_replica=2) if node == 1 else log.handle(request, node)

    scripted.handlers["Fetch"] = handle
    with consumer(scripted, client_rack="here") as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert [row.value for row in reader.poll(60)] == [b"a"]


def test_the_hint_of_an_old_leader_is_followed_without_asking(scripted: ScriptedCluster) -> None:
    log = Log(scripted)
    log.add(0, b"a")

    def handle(request: Any, node: int) -> FetchResponse:
        if node == 1:
            return partition_answer(error_code=NOT_LEADER, current_leader=LeaderIdAndEpoch(2, 5))
        return log.handle(request, node)

    scripted.handlers["Fetch"] = handle
    with consumer(scripted, metadata_max_age_ms=300_000) as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert [row.value for row in reader.poll(60)] == [b"a"]
        asked = len(scripted.asked("Metadata"))
    assert asked <= 2


def test_a_producer_follows_the_hint_too(scripted: ScriptedCluster) -> None:
    written = Written(scripted)

    def handle(request: Any, node: int) -> ProduceResponse | None:
        if node == 2:
            return written.handle(request, node)
        refused = PartitionProduceResponse(index=0, error_code=NOT_LEADER, current_leader=ProduceLeader(2, 5))
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=[refused])
        return ProduceResponse(responses=[topic])

    scripted.handlers["Produce"] = handle
    with Producer(bootstrap_servers=scripted.address, retry_backoff_ms=1) as producer:
        assert producer.send("t", b"v").result(60).offset == 100
    assert written.values(0) == [b"v"]
    assert len(scripted.asked("Metadata")) == 1


@pytest.mark.parametrize("is_found", [True, False])
def test_a_leader_from_before_what_was_read_is_not_believed_at_once(
    scripted: ScriptedCluster, is_found: bool
) -> None:
    """One that does not know that it was deposed lacks what was written since. A topic that was made anew
    has old epochs too: doubts end.
    """
    log = Log(scripted)
    log.add(0, b"a", b"b", leader_epoch=1)
    with consumer(scripted, auto_offset_reset="earliest", retry_backoff_max_ms=2) as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert [row.value for row in reader.poll(60)] == [b"a", b"b"]
        refused: list[int] = []

        def fetch(request: Any, node: int) -> FetchResponse:
            if scripted.leader_epoch == 0 and request.topics:
                refused.append(request.topics[0].partitions[0].fetch_offset)
                if is_found and len(refused) == 3:
                    cut_back_to(scripted, 9, epoch=1)
                    log.add(2, b"c", leader_epoch=1)
                return partition_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            return log.handle(request, node)

        def earliest(request: Any, node: int) -> ListOffsetsResponse:
            scripted.leader_epoch = 1
            place = ListOffsetsPartitionResponse(partition_index=0, offset=0, leader_epoch=1)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[place])])

        scripted.handlers |= {"Fetch": fetch, "ListOffsets": earliest}
        rows = reader.poll(60)
    assert [row.value for row in rows] == ([b"c"] if is_found else [b"a", b"b"])
    assert bool(scripted.asked("ListOffsets")) is not is_found


def test_a_partition_without_a_leader_holds_no_other_up(scripted: ScriptedCluster) -> None:
    """One that nobody led kept all from finding where they begin, until the time-out."""
    scripted.leaders[("t", 1)] = -1
    log = Log(scripted)
    log.add(0, b"a", b"b")

    def find(request: Any, node: int) -> ListOffsetsResponse:
        found = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=0)
            for each in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])

    scripted.handlers["ListOffsets"] = find
    with consumer(scripted, auto_offset_reset="earliest") as reader:
        reader.assign([T0, TopicPartition("t", 1)])
        read: list[bytes | None] = []
        for _ in range(1_200):
            read += [each.value for each in reader.poll(0.05)]
            if len(read) == 2:
                break
        assert read == [b"a", b"b"]
        eventually(
            lambda: reader.poll(0.05) == [] and "t-1: leader not available" in str(reader.trouble),
            "the trouble",
        )
