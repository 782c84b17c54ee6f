"""Large batches: others are served meanwhile, everything stays in order, and nobody is forgotten."""

import asyncio
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.large_write import LargeWrite
from headrace.records.batch import Codec
from headrace.server.large_batches import CHECKS_MAX, LargeBatches
from headrace.server.txn_partitions import TxnPartitions
from headrace.testing.disk import Crash
from headrace.testing.loop import SimulatedLoop
from headrace.transport.connection import Connection
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.produce import ProduceRequest
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas
from tests.server.txn_requests import add, end
from tests.server.txn_world import begin, state_of, try_produce

BY_NAME, NEWEST = 12, 13
LARGE = LARGE_BYTES + 300_000
ROOMY = {"max.message.bytes": "20000000"}
SLOW_S = 2.0


def slow_threads(world: NodeWorld, seconds: float = SLOW_S) -> None:
    """From now on a thread begins so late, and tells so late that it is done."""
    loop = world.node.parts.loop
    assert isinstance(loop, SimulatedLoop)
    loop.job_seconds = (seconds, seconds)


def usual_threads(world: NodeWorld) -> None:
    loop = world.node.parts.loop
    assert isinstance(loop, SimulatedLoop)
    loop.run_jobs_at_usual_speed()


def large(codec: Codec = Codec.NONE, size: int = LARGE, **options: Any) -> ProduceRequest:
    return produce("t", batch(size=size, codec=codec, **options))


def result(response: Any, partition: int = 0) -> tuple[ErrorCode, int]:
    found = response.responses[0].partition_responses[partition]
    return ErrorCode(found.error_code), found.base_offset


def tail_bytes(world: NodeWorld, topic: str = "t") -> int:
    """What the active segment's file has behind the segment's end."""
    segment = world.log(topic).segments.active
    return world.machine.disk.size(segment.path) - segment.size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@simulated()
async def test_others_are_served_while_a_thread_checks_it(world: NodeWorld, codec: Codec) -> None:
    await world.create_topic("t", configs=ROOMY)
    client, other = await world.connect(), await world.connect()
    slow_threads(world)
    began = world.now_ms()
    waiting = client.ask(large(codec), BY_NAME)
    await world.pass_time(500)
    assert result(await other.ask(produce("t", batch()), BY_NAME)) == (ErrorCode.NONE, 0)
    assert not waiting.done()
    assert world.now_ms() - began < 1_000
    assert result(await waiting) == (ErrorCode.NONE, 1)
    assert world.now_ms() - began >= 2 * SLOW_S * 1000
    assert (world.log("t").log_end_offset, tail_bytes(world)) == (2, 0)
    usual_threads(world)


@simulated()
async def test_requests_of_a_connection_stay_in_order(world: NodeWorld) -> None:
    """A small one behind a large one is appended behind it, and answered behind it."""
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    slow_threads(world)
    answered: list[int] = []

    def ask(number: int, request: ProduceRequest) -> "asyncio.Future[Any]":
        asked = client.ask(request, BY_NAME)
        asked.add_done_callback(lambda _: answered.append(number))
        return asked

    numbers = {"producer_id": 5, "producer_epoch": 0}
    requests = [
        produce("t", batch(base_sequence=0, **numbers)),
        large(base_sequence=1, **numbers),
        produce("t", batch(base_sequence=2, **numbers)),
        large(Codec.GZIP, base_sequence=3, **numbers),
        produce("t", batch(base_sequence=4, **numbers)),
    ]
    asked = [ask(number, request) for number, request in enumerate(requests)]
    results = [result(await each) for each in asked]
    assert results == [(ErrorCode.NONE, offset) for offset in range(5)]
    await world.until(lambda: answered == [0, 1, 2, 3, 4])
    usual_threads(world)


@simulated()
async def test_no_more_than_a_few_are_checked_at_once(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create_topic("t", configs=ROOMY)
    clients = [await world.connect() for _ in range(5)]
    slow_threads(world)
    most = 0
    begin_work = LargeBatches._begin

    def noting(self: LargeBatches) -> None:
        nonlocal most
        begin_work(self)
        most = max(most, self._at_work)

    monkeypatch.setattr(LargeBatches, "_begin", noting)
    waiting = [client.ask(large(), BY_NAME) for client in clients]
    offsets = sorted([result(await each)[1] for each in waiting])
    assert (offsets, most) == ([0, 1, 2, 3, 4], CHECKS_MAX)
    usual_threads(world)


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The node's ends of connections whose frames were kept."""
    found: list[Connection] = []
    keep_frame = Connection.keep_frame

    def noting(self: Connection) -> None:
        found.append(self)
        keep_frame(self)

    monkeypatch.setattr(Connection, "keep_frame", noting)
    return found


@simulated()
async def test_who_is_gone_is_passed_over(world: NodeWorld, working: list[Connection]) -> None:
    await world.create_topic("t", configs=ROOMY)
    clients = [await world.connect() for _ in range(4)]
    slow_threads(world)
    for client in clients[:3]:
        client.tell(large(), BY_NAME)
    await world.until(lambda: len(working) == 3)
    for connection in working:
        connection.abort("the test ends it")
    assert result(await clients[3].ask(large(), BY_NAME)) == (ErrorCode.NONE, 0)
    await world.pass_time(20_000)
    assert (world.log("t").log_end_offset, tail_bytes(world), world.log("t").large_write) == (1, 0, None)
    usual_threads(world)


@simulated()
async def test_a_leader_that_was_replaced_meanwhile_refuses_it(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    slow_threads(world)
    waiting = client.ask(large(), BY_NAME)
    await world.pass_time(500)
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    assert result(await waiting)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (world.log("t").log_end_offset, tail_bytes(world)) == (0, 0)
    usual_threads(world)


@pytest.mark.parametrize("version", [BY_NAME, NEWEST])
@simulated()
async def test_a_topic_that_was_made_anew_does_not_get_it(world: NodeWorld, version: int) -> None:
    topic_id = await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    slow_threads(world, 20.0)
    waiting = client.ask(produce("t", batch(size=LARGE), topic_id=topic_id), version, timeout_ms=100_000)
    await world.pass_time(500)
    usual_threads(world)
    await world.delete_topic("t")
    if version == NEWEST:
        await world.create_topic("t", configs=ROOMY)
        assert result(await waiting)[0] is ErrorCode.UNKNOWN_TOPIC_ID
        assert world.log("t").log_end_offset == 0
    else:
        assert result(await waiting)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@simulated()
async def test_a_node_that_stops_lets_it_be(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    slow_threads(world, 60.0)
    waiting = client.ask(large(), BY_NAME, timeout_ms=600_000)
    await world.pass_time(500)
    usual_threads(world)
    await world.stop()
    with pytest.raises(ConnectionError):
        await waiting
    await world.start()
    assert (world.log("t").log_end_offset, tail_bytes(world)) == (0, 0)


@pytest.mark.parametrize("crash", [Crash.KILL, Crash.POWER_CUT])
@simulated()
async def test_a_node_that_dies_meanwhile_starts_again(world: NodeWorld, crash: Crash) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    assert result(await client.ask(produce("t", batch()), BY_NAME))[0] is ErrorCode.NONE
    slow_threads(world)
    client.tell(large(), BY_NAME)
    await world.pass_time(500)
    world.kill(crash)
    await world.start()
    client = await world.connect()
    assert result(await client.ask(large(), BY_NAME))[0] is ErrorCode.NONE


@simulated()
async def test_what_is_bad_is_refused_as_ever(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    broken = batch(size=LARGE)
    broken[-1] ^= 1
    assert result(await client.ask(produce("t", broken), BY_NAME))[0] is ErrorCode.CORRUPT_MESSAGE
    huge = batch(size=21_000_000)
    assert result(await client.ask(produce("t", huge), BY_NAME))[0] is ErrorCode.MESSAGE_TOO_LARGE
    bomb = large(Codec.GZIP, size=170_000_000)
    assert result(await client.ask(bomb, BY_NAME))[0] is ErrorCode.MESSAGE_TOO_LARGE
    assert result(await client.ask(produce("t", batch()), BY_NAME)) == (ErrorCode.NONE, 0)


@simulated()
async def test_without_acknowledgement_a_refusal_ends_the_connection(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    client.tell(produce("t", batch(size=LARGE), acks=0), BY_NAME)
    client.tell(produce("t", batch(), acks=0), BY_NAME)
    await client.ask(ApiVersionsRequest(), 0)
    assert world.log("t").log_end_offset == 2
    broken = batch(size=LARGE)
    broken[-1] ^= 1
    client.tell(produce("t", broken, acks=0), BY_NAME)
    with pytest.raises(ConnectionError):
        await client.ask(ApiVersionsRequest(), 0)


@simulated()
async def test_many_batches_in_one_request_are_appended_in_slices(world: NodeWorld) -> None:
    """The same partition twice among them: its batches keep their order."""
    await world.create_topic("t", 8)
    client = await world.connect()
    numbers = {"producer_id": 5, "producer_epoch": 0}
    sent = [batch(size=900_000) for _ in range(6)]
    sent += [batch(size=100 + number, base_sequence=number, **numbers) for number in range(3)]
    request = produce("t", *sent, partitions=(0, 1, 2, 3, 4, 5, 7, 7, 7))
    response = await client.ask(request, BY_NAME)
    assert [result(response, number) for number in range(9)] == [(ErrorCode.NONE, 0)] * 7 + [
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 2),
    ]


@simulated()
async def test_it_waits_for_the_replicas_as_others_do(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    world.partition("t").follow_metadata(two_replicas(1, 2))
    waiting = client.ask(produce("t", batch(size=LARGE), acks=-1), BY_NAME)
    await world.pass_time(2_000)
    assert (world.log("t").log_end_offset, waiting.done()) == (1, False)
    world.partition("t").follow_metadata(two_replicas(1))
    assert result(await waiting) == (ErrorCode.NONE, 0)


@simulated()
async def test_who_comes_while_it_is_written_waits(
    world: NodeWorld, working: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the lane and by the handler; when the one who writes is gone, they go on."""
    await world.create_topic("t", configs=ROOMY)
    clients = [await world.connect() for _ in range(4)]
    gate: asyncio.Future[None] = world.node.parts.loop.create_future()
    slices = LargeWrite.slices

    def stopping(self: LargeWrite) -> Any:
        writing = slices(self)
        next(writing)
        yield gate
        yield from writing

    monkeypatch.setattr(LargeWrite, "slices", stopping)
    writer = clients[0].ask(large(), BY_NAME)
    await world.until(lambda: world.log("t").large_write is not None)
    others = [
        clients[1].ask(produce("t", batch()), BY_NAME),
        clients[2].ask(produce("t", batch(2, codec=Codec.GZIP)), BY_NAME),
        clients[3].ask(large(), BY_NAME),
    ]
    await world.pass_time(1_000)
    assert not any(each.done() for each in others)
    assert tail_bytes(world) > 0
    monkeypatch.setattr(LargeWrite, "slices", slices)
    working[0].abort("the test ends it")
    assert [result(await each)[0] for each in others] == [ErrorCode.NONE] * 3
    assert (world.log("t").log_end_offset, tail_bytes(world)) == (4, 0)
    with pytest.raises(ConnectionError):
        await writer


@simulated()
async def test_in_a_transaction(world: NodeWorld) -> None:
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    who = await begin(client, "x")
    slow_threads(world, 0.5)
    sent = [
        asyncio.ensure_future(try_produce(client, who, "t", 0, b"v" * size, sequence=sequence))
        for sequence, size in enumerate((LARGE, 10, LARGE, 10))
    ]
    assert [await each for each in sent] == [0, 0, 0, 0]
    usual_threads(world)
    assert (await client.ask(end(who), 5)).error_code == 0
    await world.until(lambda: world.log("t").last_stable_offset == 5)


@simulated()
async def test_in_a_transaction_of_which_the_coordinator_tells_late(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection has gone on by then: what the same producer sent behind it waits all the same."""
    await world.create_topic("t", configs=ROOMY)
    client = await world.connect()
    who = await begin(client, "x")
    ask, loop = TxnPartitions.ask, world.node.parts.loop

    def late(self: TxnPartitions, *args: Any, done: Any, **options: Any) -> None:
        ask(self, *args, done=lambda errors: loop.call_later(0.2, done, errors), **options)

    monkeypatch.setattr(TxnPartitions, "ask", late)
    slow_threads(world, 0.5)
    sent = [
        asyncio.ensure_future(try_produce(client, who, "t", 0, b"v" * size, sequence=sequence))
        for sequence, size in enumerate((LARGE, 10, LARGE))
    ]
    assert [await each for each in sent] == [0, 0, 0]
    usual_threads(world)
    assert (world.log("t").log_end_offset, tail_bytes(world)) == (3, 0)


@simulated()
async def test_a_transaction_that_ends_meanwhile_is_not_opened_again(world: NodeWorld) -> None:
    """A client of transaction.version 1: the epoch stays the same, and only the marker tells."""
    await world.create_topic("t", configs=ROOMY)
    client, other = await world.connect(), await world.connect()
    who = await begin(client, "x")
    await other.ask(add(who, t=[0]), 3)
    assert await try_produce(client, who, "t", 0, b"one", version=11) == 0
    slow_threads(world)
    waiting = asyncio.ensure_future(try_produce(client, who, "t", 0, b"v" * LARGE, sequence=1, version=11))
    await world.pass_time(200)
    usual_threads(world)
    assert (await other.ask(end(who), 4)).error_code == 0
    await world.until(lambda: state_of(world, "x") == "CompleteCommit")
    assert await waiting == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log("t").last_stable_offset == world.log("t").log_end_offset == 2
