"""A whole node: how it starts and stops, what it finds again, and what it refuses to start with."""

import contextlib
import errno

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.coordinators.drivers.coordinator_runtime import CoordinatorRuntime
from headrace.coordinators.group.shard import GroupCoordinatorShard
from headrace.replication.partition import Partition
from headrace.settings.definition import SettingError
from headrace.testing.disk import Crash
from headrace.wire.schemas.list_offsets import ListOffsetsResponse
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.beside_kafka.list_offsets import find
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated

LATEST = -1
CLEAN = "/data/.kafka_cleanshutdown"


async def put(world: NodeWorld, topic: str = "t", count: int = 1) -> None:
    client = await world.connect()
    response = await client.ask(produce(topic, batch(count), acks=-1), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


async def end_of(world: NodeWorld, topic: str = "t", partition: int = 0) -> tuple[ErrorCode, int]:
    client = await world.connect()
    response: ListOffsetsResponse = await client.ask(find(topic, LATEST, partition=partition), 11)
    found = response.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


# --- starting and stopping --------------------------------------------------------------------------------


@simulated()
async def test_a_clean_restart_needs_no_recovery(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world, count=5)
    await world.stop()
    assert world.machine.disk.exists(CLEAN)
    await world.start()
    assert all(folder.was_clean for folder in world.node.parts.log_manager.log_dirs)
    assert world.progress == []
    assert not world.machine.disk.exists(CLEAN)
    assert await end_of(world) == (ErrorCode.NONE, 5)


@simulated()
async def test_after_a_kill_logs_are_recovered_and_nothing_is_lost(world: NodeWorld) -> None:
    await world.create_topic("t")
    for _ in range(3):
        await put(world, count=5)
    world.kill()
    await world.start()
    assert not any(folder.was_clean for folder in world.node.parts.log_manager.log_dirs)
    assert await end_of(world) == (ErrorCode.NONE, 15)
    await put(world)
    assert await end_of(world) == (ErrorCode.NONE, 16)


@simulated()
async def test_a_power_cut_takes_what_was_not_synced_and_no_more(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world, count=5)
    await world.stop()
    await world.start()
    await put(world, count=5)
    world.kill(Crash.POWER_CUT)
    await world.start()
    code, end = await end_of(world)
    assert code is ErrorCode.NONE
    assert 5 <= end <= 10
    await put(world)


@simulated()
async def test_topics_and_settings_survive(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t", 3, {"max.message.bytes": "1234"})
    for how in (Crash.KILL, Crash.POWER_CUT):
        world.kill(how)
        await world.start()
        assert world.node.image.topics_by_name["t"].id == topic_id
        assert len(world.node.image.topics_by_name["t"].partitions) == 3
        assert world.log("t", 2).config.max_message_bytes == 1234
    assert len(world.node.cluster_id) == 22


@simulated()
async def test_a_node_keeps_its_identity(world: NodeWorld) -> None:
    before = world.node.cluster_id, world.machine.disk.read_file("/data/meta.properties")
    await world.stop()
    await world.start()
    assert (world.node.cluster_id, world.machine.disk.read_file("/data/meta.properties")) == before


@simulated()
async def test_a_stop_is_quick_when_nothing_is_due(world: NodeWorld) -> None:
    await world.create_topic("t")
    await world.connect()
    begun_ms = world.now_ms()
    await world.stop()
    assert world.now_ms() - begun_ms < 1_000


@simulated()
async def test_nobody_is_served_before_the_node_is_ready(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world, count=3)
    world.kill()
    start = world.begin_start()
    client = None
    while client is None:
        with contextlib.suppress(ConnectionError):
            client = await world.connect()
    # The port is open before the logs are: who comes early waits, and is answered in full.
    assert not start.done()
    response = await client.ask(find("t", LATEST), 11)
    assert start.done()
    assert response.topics[0].partitions[0].offset == 3


@pytest.mark.parametrize("how", [None, Crash.KILL])
@simulated(offsets_topic_num_partitions="3")
async def test_groups_are_loaded_once(world: NodeWorld, how: Crash | None) -> None:
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    if how is None:
        await world.stop()
    else:
        world.kill(how)
    loads: list[str] = []
    original = CoordinatorRuntime._load

    def load(runtime: "CoordinatorRuntime[GroupCoordinatorShard]", index: int, partition: Partition) -> None:
        loads.append(str(partition.topic_partition))
        original(runtime, index, partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoordinatorRuntime, "_load", load)
        await world.start()
    assert sorted(loads) == [f"__consumer_offsets-{index}" for index in range(3)]


# --- what it refuses to start with ------------------------------------------------------------------------


@simulated()
async def test_a_second_node_in_the_same_folder_is_refused(world: NodeWorld) -> None:
    with pytest.raises(BlockingIOError, match="/data is in use by another process"):
        await world.start_another(listeners="PLAINTEXT://node:9999,CONTROLLER://node:9998")
    await world.create_topic("t")
    await put(world)  # the first one did not notice


@simulated()
async def test_a_port_that_is_taken_is_named(world: NodeWorld) -> None:
    with pytest.raises(OSError, match="9092") as refused:
        await world.start_another(log_dirs="/elsewhere")
    assert refused.value.errno == errno.EADDRINUSE
    assert refused.value.filename == "PLAINTEXT://node:9092"
    # What it had taken by then is free again.
    another = await world.start_another(
        log_dirs="/elsewhere", listeners="PLAINTEXT://node:9999,CONTROLLER://node:9998"
    )
    assert another.addresses == [("node", 9999)]


@pytest.mark.parametrize("broken", ["/other/meta.properties", "/other/__cluster_metadata-0/quorum-state"])
@simulated()
async def test_a_start_that_fails_lets_go_of_its_folders(world: NodeWorld, broken: str) -> None:
    elsewhere = {"log_dirs": "/other", "listeners": "PLAINTEXT://node:9999,CONTROLLER://node:9998"}
    another = await world.start_another(**elsewhere)
    await world.on_node(another.stop())
    disk = world.machine.disk
    before = disk.read_file(broken)
    disk.replace_file(broken, b"version=9")
    with pytest.raises(InvalidBytesError):
        await world.start_another(**elsewhere)
    disk.replace_file(broken, before)
    await world.on_node((await world.start_another(**elsewhere)).stop())


@simulated()
async def test_another_nodes_folder_is_refused(world: NodeWorld) -> None:
    await world.stop()
    with pytest.raises(InvalidBytesError, match="/data belongs to node 1"):
        await world.start(node_id="2", controller_quorum_voters="2@node:9093")


@simulated()
async def test_a_listener_with_tls_and_without_a_key_is_refused(world: NodeWorld) -> None:
    await world.stop()
    with pytest.raises(SettingError, match="a listener with TLS needs a private key"):
        await world.start(
            listeners="PLAINTEXT://node:9092,SSL://node:9094,CONTROLLER://node:9093",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        )


@simulated()
async def test_a_folder_whose_disk_is_gone(world: NodeWorld) -> None:
    await world.stop()
    world.machine.disk.faults.is_gone = True
    with pytest.raises(OSError):  # noqa: PT011 - what the disk says
        await world.start()
    world.machine.disk.faults.calm()


# --- logs that do not belong ------------------------------------------------------------------------------


@simulated()
async def test_a_log_of_a_topic_that_nobody_knows_is_set_aside(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world)
    await world.stop()
    disk = world.machine.disk
    disk.make_folder("/data/stranger-0")
    disk.open("/data/stranger-0/00000000000000000000.log", create=True)
    await world.start()
    names = disk.list("/data")
    assert "stranger-0" not in names
    assert [name for name in names if name.startswith("stranger-0.") and name.endswith("-stray")]
    assert await end_of(world) == (ErrorCode.NONE, 1)


@simulated()
async def test_a_topic_deleted_just_before_a_kill_does_not_come_back(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world)
    await world.delete_topic("t")
    topic_id = await world.create_topic("t")
    world.kill()
    await world.start()
    assert await end_of(world) == (ErrorCode.NONE, 0)
    assert world.log("t").topic_id == topic_id


# --- several folders --------------------------------------------------------------------------------------

TWO = {"log_dirs": "/data,/more"}


def directory_of(world: NodeWorld, index: int) -> bytes | None:
    """What the cluster believes."""
    return world.node.image.topics_by_name["t"].partitions[index].directory_of(1)


def true_directory_of(world: NodeWorld, index: int) -> bytes:
    folder = world.node.parts.log_manager.folder_of(TopicPartition("t", index))
    assert folder is not None
    assert folder.meta is not None
    return folder.meta.directory_id


def is_told(world: NodeWorld, count: int) -> bool:
    return all(directory_of(world, index) == true_directory_of(world, index) for index in range(count))


@simulated(**TWO)
async def test_the_cluster_learns_which_folder_holds_which_replica(world: NodeWorld) -> None:
    await world.create_topic("t", 6)
    await world.until(lambda: is_told(world, 6), "the directories")
    assert len({directory_of(world, index) for index in range(6)}) == 2
    epochs = [world.partition("t", index).leader_epoch for index in range(6)]
    assert epochs == [0] * 6  # a place is no new leader
    world.kill()
    await world.start()
    assert is_told(world, 6)


@simulated(**TWO)
async def test_what_could_not_be_told_before_a_kill_is_told_after_it(world: NodeWorld) -> None:
    world.node._assignments_manager.stop()
    await world.create_topic("t", 4)
    await world.pass_time(5_000)
    assert not is_told(world, 4)
    world.kill()
    await world.start()
    await world.until(lambda: is_told(world, 4), "the directories")


@simulated()
async def test_one_folder_needs_no_telling(world: NodeWorld) -> None:
    await world.create_topic("t", 4)
    assert is_told(world, 4)


@simulated(**TWO)
async def test_a_folder_that_fails_while_the_node_runs(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await client.ask(produce("t", batch(), batch()), 12)
    await world.until(lambda: is_told(world, 2), "the directories")
    lost = next(index for index in (0, 1) if world.log("t", index).folder.startswith("/more/"))
    world.handle_log_dir_failure("/more")
    partitions = world.node.image.topics_by_name["t"].partitions
    await world.until(lambda: partitions[lost].leader == -1, "a replica without a leader")
    assert partitions[1 - lost].leader == 1
    assert (await end_of(world, partition=lost))[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert await end_of(world, partition=1 - lost) == (ErrorCode.NONE, 1)
    assert world.failures == []
    await world.create_topic("new", 2)
    assert all(world.log("new", index).folder.startswith("/data/") for index in (0, 1))
    await world.stop()
    world.machine.disk.faults.calm()
    await world.start()
    assert [await end_of(world, partition=index) for index in (0, 1)] == [(ErrorCode.NONE, 1)] * 2


@simulated(**TWO)
async def test_a_start_with_one_of_two_folders(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await client.ask(produce("t", batch(), batch()), 12)
    await world.until(lambda: is_told(world, 2), "the directories")
    lost = next(index for index in (0, 1) if world.log("t", index).folder.startswith("/more/"))
    await world.stop()
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith("/more")
    faults.read_error_rate = faults.write_error_rate = faults.name_error_rate = 1.0
    await world.start()
    assert (await end_of(world, partition=lost))[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert await end_of(world, partition=1 - lost) == (ErrorCode.NONE, 1)
    await world.stop()
    faults.calm()
    await world.start()
    assert await end_of(world, partition=lost) == (ErrorCode.NONE, 1)
    client = await world.connect()
    response = await client.ask(fetch("t", partitions=(lost,)), 12)
    assert len(response.responses[0].partitions[0].records) == len(batch())


@simulated(**TWO)
async def test_a_topic_made_again_while_its_folder_was_offline(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await client.ask(produce("t", batch(), batch()), 12)
    await world.until(lambda: is_told(world, 2), "the directories")
    world.handle_log_dir_failure("/more")
    await world.delete_topic("t")
    topic_id = await world.create_topic("t", 2)
    await world.stop()
    world.machine.disk.faults.calm()
    await world.start()
    assert [await end_of(world, partition=index) for index in (0, 1)] == [(ErrorCode.NONE, 0)] * 2
    assert {world.log("t", index).topic_id for index in (0, 1)} == {topic_id}
    assert [name for name in world.machine.disk.list("/more") if name.endswith("-stray")]


@simulated(**TWO)
async def test_the_last_folder_that_fails_ends_the_node(world: NodeWorld) -> None:
    world.handle_log_dir_failure("/more")
    assert world.failures == []
    world.handle_log_dir_failure("/data")
    assert len(world.failures) == 1
    world.kill()
