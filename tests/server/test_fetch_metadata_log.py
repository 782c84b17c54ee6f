"""Fetch of the metadata log: records, long polls, the leader by name, and logs that differ."""

from headrace.base.error_codes import ErrorCode
from headrace.raft.metadata_log import METADATA_TOPIC_ID
from headrace.raft.records import read_data
from headrace.records.batch import batches
from headrace.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tests.server.node_world import Client, NodeWorld, simulated


def asked(offset: int = 0, epoch: int = 0, *, leader_epoch: int = 1, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch,
        partition_max_bytes=1 << 20,
        replica_directory_id=b"r" * 16,
    )
    return FetchRequest(
        replica_state=ReplicaState(9, -1),
        max_wait_ms=wait_ms,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


async def fetched(client: Client, request: FetchRequest) -> PartitionData:
    response = await client.ask(request, 18)
    assert response.error_code == 0
    data: PartitionData = response.responses[0].partitions[0]
    return data


def end_of(world: NodeWorld) -> int:
    return world.node.quorum.client.next_offset


@simulated()
async def test_an_observer_gets_the_whole_log(world: NodeWorld) -> None:
    await world.create_topic("orders")
    client = await world.connect_controller()
    data = await fetched(client, asked())
    assert (data.error_code, data.high_watermark) == (0, end_of(world))
    assert isinstance(data.records, bytes | memoryview)
    whole = memoryview(data.records)
    records = [
        record
        for at, header in batches(whole)
        if not header.is_control
        for record in read_data(whole[at : at + header.size])
    ]
    assert "orders" in [getattr(record, "name", "") for record in records]
    leader = data.current_leader
    assert leader is not None
    assert (leader.leader_id, leader.leader_epoch) == (1, 1)


@simulated()
async def test_at_the_end_a_fetch_waits_for_more(world: NodeWorld) -> None:
    client = await world.connect_controller()
    waiting = client.ask(asked(end_of(world), 1, wait_ms=5_000), 18)
    await world.pass_time(1_000)
    assert not waiting.done()
    await world.create_topic("orders")
    assert (await waiting).responses[0].partitions[0].records
    before_ms = world.now_ms()
    data = await fetched(client, asked(end_of(world), 1, wait_ms=200))
    assert not data.records
    assert 150 < world.now_ms() - before_ms < 300


@simulated()
async def test_errors_of_the_epoch_name_the_leader(world: NodeWorld) -> None:
    client = await world.connect_controller()
    old = await fetched(client, asked(leader_epoch=0))
    assert (old.error_code, old.high_watermark) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
    new = await fetched(client, asked(leader_epoch=5))
    assert new.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert new.current_leader is not None
    assert (new.current_leader.leader_id, new.current_leader.leader_epoch) == (1, 1)


@simulated()
async def test_a_log_that_differs_is_told_where(world: NodeWorld) -> None:
    client = await world.connect_controller()
    longer = await fetched(client, asked(end_of(world) + 10, 1))
    assert longer.diverging_epoch is not None
    assert (longer.diverging_epoch.epoch, longer.diverging_epoch.end_offset) == (1, end_of(world))
    other = await fetched(client, asked(4, 3))
    assert other.diverging_epoch is not None
    assert (other.diverging_epoch.epoch, other.diverging_epoch.end_offset) == (1, end_of(world))


@simulated()
async def test_nothing_else_is_given(world: NodeWorld) -> None:
    client = await world.connect_controller()
    request = asked()
    request.topics[0].topic_id = b"x" * 16
    assert (await client.ask(request, 18)).error_code == ErrorCode.INVALID_REQUEST
    request = asked()
    request.cluster_id = "another"
    assert (await client.ask(request, 18)).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
