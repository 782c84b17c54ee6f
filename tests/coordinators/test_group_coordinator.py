"""The group coordinator of a node: groups over restarts, sessions, and offsets that grow old."""

import asyncio

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.drivers import coordinator_runtime as runtime_module
from headrace.coordinators.group.classic.classic_group import ClassicGroup
from headrace.coordinators.group.group_config_manager import group_coordinator_config
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource
from headrace.settings.describe import describe_broker
from headrace.testing.disk import Crash
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_members import GroupMember, stable_group
from tests.server.group_requests import commit, subscription
from tests.server.node_world import NodeWorld, simulated
from tests.server.test_offset_commit import committed

MINUTE_MS = 60_000
BY_NAME = 9


def group_of(world: NodeWorld, name: str = "g") -> ClassicGroup | None:
    return world.node.parts.groups.shard_for(name).classic.groups.get(name)


def test_an_empty_group_waits_as_long_as_is_shown() -> None:
    name = "group.initial.rebalance.delay.ms"
    for said, source in (
        ({}, ConfigSource.DEFAULT),
        ({name: "3000"}, ConfigSource.STATIC),
        ({name: "0"}, ConfigSource.STATIC),
    ):
        config = BrokerConfig(said, check=False)
        (shown,) = [each for each in describe_broker(config) if each.name == name]
        assert shown.source is source
        assert shown.value == str(group_coordinator_config(config).classic.initial_rebalance_delay_ms)


async def restart(world: NodeWorld, how: str, members: list[GroupMember]) -> None:
    if how == "stop":
        await world.stop()
    else:
        world.kill(Crash.KILL)
    await world.start()
    for member in members:
        member.client = await world.connect("again")


# --- over a restart ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
@simulated()
async def test_members_go_on_after_a_restart(world: NodeWorld, how: str) -> None:
    members = await stable_group(world, "g", 3)
    await restart(world, how, members)
    for _ in range(3):
        assert [await each.heartbeat() for each in members] == [ErrorCode.NONE] * 3
        await world.pass_time(5_000)
    assert [await each.sync() for each in members] == [b"share"] * 3
    newcomer = await GroupMember.connect(world, "g", "new")
    joining = asyncio.ensure_future(newcomer.join())
    await world.pass_time(100)
    await asyncio.gather(joining, *(each.join() for each in members))
    assert newcomer.generation == members[0].generation == 4


@simulated()
async def test_a_member_that_did_not_survive_the_restart_is_out_though_nobody_asks(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 1, session_ms=10_000)
    await restart(world, "kill", members)
    await world.pass_time(9_900)
    group = group_of(world)
    assert group is not None
    assert list(group.members) == [members[0].id]
    await world.pass_time(200)
    assert (group.state, group.generation) == ("Empty", 2)


def test_the_same_after_a_load_in_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading ends long after the leadership was followed: its timers must run all the same."""
    monkeypatch.setattr(runtime_module, "LOAD_BYTES", 2_000)

    @simulated()
    async def script(world: NodeWorld) -> None:
        await world.create_topic("t")
        members = await stable_group(world, "g", 1, session_ms=10_000)
        for number in range(100):
            await members[0].client.ask(commit("other", "t", {0: number}, metadata="m" * 100), BY_NAME)
        await restart(world, "stop", members)
        await world.pass_time(10_200)
        group = group_of(world)
        assert group is not None
        assert group.state == "Empty"

    script()


@simulated()
async def test_an_interrupted_rebalance_is_forgotten(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 2)
    newcomer = await GroupMember.connect(world, "g", "new")
    newcomer.id = (await newcomer.begin_join()).member_id
    waiting = newcomer.begin_join()
    await world.pass_time(100)
    assert await members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    await restart(world, "kill", [*members, newcomer])
    with pytest.raises(ConnectionError):
        await waiting
    assert [await each.heartbeat() for each in members] == [ErrorCode.NONE] * 2
    assert (await newcomer.begin_join()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_a_node_that_stops_lets_nobody_wait(world: NodeWorld) -> None:
    await stable_group(world, "g", 2)
    newcomer = await GroupMember.connect(world, "g", "new")
    newcomer.id = (await newcomer.begin_join()).member_id
    waiting = newcomer.begin_join()
    await world.pass_time(100)
    begun_ms = world.now_ms()
    await world.stop()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert world.now_ms() - begun_ms < 2_000


@simulated()
async def test_static_members_keep_their_seats_over_a_restart(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 1, instance="seat", session_ms=60_000)
    await restart(world, "kill", members)
    again = await GroupMember.connect(world, "g", "again", instance="seat")
    assert await again.join() is ErrorCode.NONE
    assert (again.generation, await again.sync()) == (1, b"share")
    assert await members[0].heartbeat() is ErrorCode.FENCED_INSTANCE_ID


@simulated()
async def test_a_group_above_a_lowered_limit_loses_who_comes_last(world: NodeWorld) -> None:
    members = await stable_group(world, "g", 3)
    await world.stop()
    await world.start(group_max_size="2")
    for member in members:
        member.client = await world.connect("again")
    assert await members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    joining = [member.begin_join() for member in members[:2]]
    await world.pass_time(100)
    assert (await members[2].begin_join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [members[number].take(await joining[number]) for number in (0, 1)] == [ErrorCode.NONE] * 2


# --- offsets grow old -------------------------------------------------------------------------------------

SHORT = {"offsets_retention_minutes": "10", "offsets_retention_check_interval_ms": "60000"}


@simulated(**SHORT)
async def test_offsets_of_an_empty_group_expire_and_the_group_with_them(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 1, protocols={"range": subscription("t")})
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=1)
    await members[0].client.ask(request, BY_NAME)
    for _ in range(200):  # it is alive for longer than offsets are kept
        await world.pass_time(5_000)
        await members[0].heartbeat()
    assert await committed(members[0].client, "g", "t") == 5
    await members[0].leave()
    await world.pass_time(9 * MINUTE_MS)
    client = await world.connect()
    assert await committed(client, "g", "t") == 5
    await world.pass_time(3 * MINUTE_MS)
    client = await world.connect()
    assert await committed(client, "g", "t") == -1
    assert group_of(world) is None
    await restart(world, "stop", [])
    assert not world.node.parts.groups.shard_for("g").exists("g")


@simulated(**SHORT)
async def test_offsets_without_a_group_expire_one_by_one_after_their_commit(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    await client.ask(commit("g", "t", {0: 5}), BY_NAME)
    await world.pass_time(8 * MINUTE_MS)
    client = await world.connect()
    await client.ask(commit("g", "t", {1: 6}), BY_NAME)
    await world.pass_time(3 * MINUTE_MS)
    client = await world.connect()
    assert [await committed(client, "g", "t", index) for index in (0, 1)] == [-1, 6]
    await world.pass_time(9 * MINUTE_MS)
    assert not world.node.parts.groups.shard_for("g").exists("g")


@simulated(**SHORT)
async def test_a_commit_from_outside_gives_an_empty_group_more_time(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 1, protocols={"range": subscription("t")})
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=1)
    await members[0].client.ask(request, BY_NAME)
    await members[0].leave()
    await world.pass_time(8 * MINUTE_MS)
    client = await world.connect()
    await client.ask(commit("g", "t", {0: 7}), BY_NAME)
    await world.pass_time(8 * MINUTE_MS)
    client = await world.connect()
    assert await committed(client, "g", "t") == 7


@simulated(**SHORT)
async def test_a_group_forgets_topics_that_its_members_do_not_read_any_more(world: NodeWorld) -> None:
    for topic in ("read", "unread"):
        await world.create_topic(topic)
    members = await stable_group(world, "g", 1, protocols={"range": subscription("read")})
    for topic in ("read", "unread"):
        request = commit("g", topic, {0: 5}, member=members[0].id, generation=1)
        await members[0].client.ask(request, BY_NAME)
    for _ in range(140):
        await world.pass_time(5_000)
        await members[0].heartbeat()
    found = [await committed(members[0].client, "g", topic) for topic in ("read", "unread")]
    assert found == [5, -1]


@simulated(**SHORT)
async def test_a_group_of_another_kind_keeps_what_only_its_members_understand(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 1, protocol_type="connect")
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=1)
    await members[0].client.ask(request, BY_NAME)
    for _ in range(140):
        await world.pass_time(5_000)
        await members[0].heartbeat()
    assert await committed(members[0].client, "g", "t") == 5


@simulated()
async def test_a_deleted_topics_offsets_go(world: NodeWorld) -> None:
    for topic in ("gone", "kept"):
        await world.create_topic(topic)
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    for group in ("g", "h"):
        for topic in ("gone", "kept"):
            await client.ask(commit(group, topic, {0: 5}), BY_NAME)
    await world.delete_topic("gone")
    await restart(world, "kill", [])
    client = await world.connect()
    for group in ("g", "h"):
        assert [await committed(client, group, topic) for topic in ("gone", "kept")] == [-1, 5]
