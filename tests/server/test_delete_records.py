"""DeleteRecords: what is deleted stays so, and whoever reads or waits hears of it."""

from headrace.base.error_codes import ErrorCode
from headrace.testing.disk import Crash
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.delete_records import delete
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas

NEWEST = 2
EARLIEST = -2


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("delete_records")


@simulated()
async def test_the_new_start_survives_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(10)), 12)
    response = await client.ask(delete("t", (0, 4)), NEWEST)
    assert response.topics[0].partitions[0].low_watermark == 4
    await world.stop()
    await world.start()
    client = await world.connect()
    response = await client.ask(find("t", EARLIEST), 11)
    assert response.topics[0].partitions[0].offset == 4


@simulated()
async def test_the_new_start_survives_a_power_cut_once_it_is_checkpointed(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"flush.messages": "1"})
    client = await world.connect()
    await client.ask(produce("t", batch(10)), 12)
    await client.ask(delete("t", (0, 4)), NEWEST)
    await world.pass_time(61_000)  # log.flush.start.offset.checkpoint.interval.ms
    world.kill(Crash.POWER_CUT)
    await world.start()
    assert world.log("t").log_start_offset == 4


@simulated()
async def test_segments_below_the_new_start_go(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"segment.bytes": "1048576", "file.delete.delay.ms": "1000"})
    client = await world.connect()
    for _ in range(5):
        await client.ask(produce("t", batch(10, size=60_000)), 12)
    assert len(world.log("t").segments) == 5
    await client.ask(delete("t", (0, -1)), NEWEST)
    await world.pass_time(310_000)  # log.retention.check.interval.ms
    assert len(world.log("t").segments) == 1
    names = [name for name in world.machine.disk.list("/data/t-0") if name.endswith(".log")]
    assert names == ["00000000000000000040.log"]


@simulated()
async def test_only_what_all_replicas_have_can_be_deleted(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(2)), 12)
    world.partition("t").follow_metadata(two_replicas(1, 2))
    await client.ask(produce("t", batch(2)), 12)
    response = await client.ask(delete("t", (0, 3)), NEWEST)
    assert response.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    response = await client.ask(delete("t", (0, -1)), NEWEST)
    assert response.topics[0].partitions[0].low_watermark == 2


@simulated()
async def test_only_the_leader_deletes(world: NodeWorld) -> None:
    await world.create_topic("t")
    world.partition("t").follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    client = await world.connect()
    response = await client.ask(delete("t", (0, 0)), NEWEST)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@simulated()
async def test_a_session_is_told_of_the_new_start(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(5)), 12)
    opened = await client.ask(fetch("t", 5, session_epoch=0), 12)
    await client.ask(delete("t", (0, 3)), NEWEST)
    request = fetch("t", partitions=(), session_id=opened.session_id, session_epoch=1)
    response = await client.ask(request, 12)
    assert response.responses[0].partitions[0].log_start_offset == 3
