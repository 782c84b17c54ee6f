"""Records of `__remote_log_metadata` are lost in every way there is: nothing leaves the store for that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.base.ids import TopicPartition, uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.controller import replication_control
from headrace.tiered.metadata_serde import metadata_partition_of
from headrace.tiered.segment_metadata import TopicIdPartition
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.remote_log.test_deleted_topics import BrokersApart
from tests.remote_log.test_remote_log_manager import SETTINGS, TOPIC, TieredWorld

HOMES = int(SETTINGS["rlmm.config.remote.log.metadata.topic.num.partitions"])
A_SWEEP_MS = 700_000
Loss = Callable[[TieredWorld], Awaitable[None]]


async def lost_with_the_disk(world: TieredWorld) -> None:
    await world.stop()
    for number in range(HOMES):
        world.machine.disk.remove_tree(f"/data/{REMOTE_LOG_TOPIC}-{number}")
    await world.start()


async def deleted_by_their_offset(world: TieredWorld) -> None:
    for number in range(HOMES):
        world.partition(REMOTE_LOG_TOPIC, number).delete_records(-1)
    await world.stop()
    await world.start()


async def first_ones_deleted_by_their_offset(world: TieredWorld) -> None:
    """Of some copies it is told that they were finished, and not that there are any."""
    for number in range(HOMES):
        log = world.log(REMOTE_LOG_TOPIC, number)
        world.partition(REMOTE_LOG_TOPIC, number).delete_records(min(3, log.high_watermark))
    await world.stop()
    await world.start()


async def out_of_retention(world: TieredWorld) -> None:
    await world.configure(REMOTE_LOG_TOPIC, retention_ms="1000", segment_ms="1000", file_delete_delay_ms="0")

    def is_empty() -> bool:
        logs = [world.log(REMOTE_LOG_TOPIC, number) for number in range(HOMES)]
        return all(log.log_start_offset == log.high_watermark for log in logs)

    await world.until(is_empty, "no record is left", timeout_s=100)
    await world.stop()
    await world.start()


async def in_another_place(world: TieredWorld) -> None:
    """Somebody added partitions: records are looked for elsewhere. One node finds them all the same: it leads
    every partition, and reads what it leads.
    """
    asked = CreatePartitionsRequest([CreatePartitionsTopic(REMOTE_LOG_TOPIC, HOMES + 2, None)], 30_000)

    async def add() -> Any:
        return await world.node.parts.controller.ask(asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replication_control, "REMOTE_LOG_TOPIC", "")
        assert (await world.on_node(add())).results[0].error_code == 0
    await world.stop()
    await world.start()


async def deleted_with_their_topic(world: TieredWorld) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replication_control, "REMOTE_LOG_TOPIC", "")
        await world.delete_topic(REMOTE_LOG_TOPIC)
    await world.stop()
    await world.start()


@pytest.mark.parametrize(
    "lose",
    [
        lost_with_the_disk,
        deleted_by_their_offset,
        first_ones_deleted_by_their_offset,
        out_of_retention,
        in_another_place,
        deleted_with_their_topic,
    ],
)
def test_what_records_no_longer_tell_of_is_kept(lose: Loss, caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: TieredWorld) -> None:
        await world.start()
        topic_id = await world.create_topic("rows", partitions=4, configs=TOPIC | {"retention.ms": "-1"})
        for number in range(4):
            world.write("rows", 10, number=number)
        logs = [world.log("rows", number) for number in range(4)]
        await world.until(lambda: all(log.local_start_offset == 9 for log in logs), "short tails")
        names = [TopicIdPartition(topic_id, TopicPartition("rows", number)) for number in range(4)]
        assert any(metadata_partition_of(n, HOMES) != metadata_partition_of(n, HOMES + 2) for n in names)
        objects = set(world.objects())
        assert len(objects) == 4 * 3 * 5
        await lose(world)
        for _ in range(2):
            await world.pass_time(A_SWEEP_MS)
        assert objects <= set(world.objects())
        told = [each for each in caplog.messages if "so records were lost" in each]
        if lose is not in_another_place:
            assert 1 <= len(told) <= 4, "once of each partition"
            assert "rows" in told[0]
        await world.stop()

    with TieredWorld() as world:
        world.run(script(world))


def test_partitions_added_to_the_records_topic_cost_nothing() -> None:
    """Two brokers, each of which leads some of its partitions and looks for the records of some topics in
    another one than they were written to.
    """
    apart = BrokersApart(partitions=2, retention_ms="-1")

    async def add() -> Any:
        asked = CreatePartitionsRequest([CreatePartitionsTopic(REMOTE_LOG_TOPIC, 5, None)], 30_000)
        return await apart.cluster.nodes[2].parts.controller.ask(asked)

    async def script() -> None:
        await apart.cluster.start()
        await apart.create()
        apart.write(10)
        await apart.cluster.until(lambda: all(log.local_start_offset == 9 for log in apart.logs()), "tails")
        objects = {name for name, _ in apart.store.list("")}
        assert len(objects) == 2 * 3 * 5
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replication_control, "REMOTE_LOG_TOPIC", "")
            assert (await apart.cluster.on_node(2, add())).results[0].error_code == 0
        for node_id in (2, 3):
            await apart.cluster.stop(node_id)
            await apart.cluster.start(node_id)
        await apart.cluster.until(lambda: len(apart.logs()) == 4, "both are back")
        await asyncio.sleep(A_SWEEP_MS / 1000)
        assert objects <= {name for name, _ in apart.store.list("")}

    apart.world.run(script())


def test_what_lies_under_a_deleted_topic_goes_without_a_record(caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC)
        world.write("rows", 4)
        await world.copied_to("rows", 3)
        (segment,) = world.segments("rows")
        stray = segment.object_name(".log").replace(uuid_text(segment.segment_id), "A" * 22)
        world.store.put_bytes(stray, b"whose?")
        await world.pass_time(A_SWEEP_MS)
        assert stray in world.objects()
        assert [each for each in caplog.messages if stray in each and "are kept" in each]
        await world.delete_topic("rows")
        await world.until(lambda: not world.objects(), "nothing is left")
        await world.stop()

    with TieredWorld() as world:
        world.run(script(world))
