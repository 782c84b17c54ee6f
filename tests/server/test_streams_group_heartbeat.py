"""StreamsGroupHeartbeat gives every member its tasks, and has the topics made that they need."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.security.acl import CLUSTER_NAME, Operation, Resource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.coordinators.streams.streams_world import statuses, topology
from tests.server.node_world import NodeWorld, simulated
from tests.server.streams_members import NOTHING, StreamsMember
from tests.server.test_authorizer import allow, stranger, with_authorizer

AT_ONCE = {"group_streams_initial_rebalance_delay_ms": "0", "group_streams_assignment_interval_ms": "0"}


async def until_it_has_tasks(world: NodeWorld, member: StreamsMember) -> None:
    while not member.active:
        await world.pass_time(500)
        assert (await member.heartbeat()).error_code == 0


@simulated(**AT_ONCE)
async def test_internal_topics_are_made_and_then_there_are_tasks(world: NodeWorld) -> None:
    await world.create_topic("in", 3)
    member = await StreamsMember.connect(world)
    reply = await member.join("in > g-r-repartition\n*g-r-repartition = g-s-changelog")
    assert (reply.error_code, reply.member_id, statuses(reply), reply.active_tasks) == (0, "m1", [3], [])
    await until_it_has_tasks(world, member)
    assert member.active == [TaskIds("0", [0, 1, 2]), TaskIds("1", [0, 1, 2])]
    made = world.node.image.topics_by_name
    assert [len(made[name].partitions) for name in ("g-r-repartition", "g-s-changelog")] == [3, 3]
    quiet = await member.ask(member.epoch)
    assert (quiet.active_tasks, quiet.status) == (None, [])


@simulated()
async def test_with_default_settings_a_group_waits_for_members_first(world: NodeWorld) -> None:
    await world.create_topic("in", 2)
    one, two = [await StreamsMember.connect(world, member_id=each) for each in ("m1", "m2")]
    for member in (one, two):
        assert statuses(await member.join("in = kept")) == [5, 3]
    while not (one.active and two.active):
        await world.pass_time(500)
        for member in (one, two):
            reply = await member.heartbeat()
            assert reply.error_code == 0, reply
    assert sorted(each.partitions for each in one.active + two.active) == [[0], [1]]


@simulated(**AT_ONCE)
async def test_why_a_topic_cannot_be_made_is_told_until_it_can(world: NodeWorld) -> None:
    """Two changelogs whose names differ in a dot would have the same metrics."""
    await world.create_topic("in", 1)
    await world.create_topic("g.s", 1)
    member = await StreamsMember.connect(world)
    await member.join("in = g_s")
    await world.pass_time(500)
    reply = await member.heartbeat()
    (status,) = reply.status or []
    assert (status.status_code, "Creation failed: g_s (" in status.status_detail) == (3, True), status
    assert "collides" in status.status_detail
    await world.delete_topic("g.s")
    await until_it_has_tasks(world, member)


@simulated(**AT_ONCE, group_streams_min_session_timeout_ms="1000", group_streams_session_timeout_ms="6000")
async def test_a_silent_member_loses_its_tasks_to_the_other(world: NodeWorld) -> None:
    await world.create_topic("in", 2)
    one, two = [await StreamsMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join()
    await two.join()
    while len(two.active) < 1 or two.active[0].partitions != [0, 1]:
        await world.pass_time(1_000)
        await two.heartbeat()
    assert (await one.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@simulated(**AT_ONCE)
async def test_a_group_survives_its_coordinator(world: NodeWorld) -> None:
    await world.create_topic("in", 2)
    member = await StreamsMember.connect(world)
    await member.join()
    world.kill()
    await world.start()
    again = await StreamsMember.connect(world)
    again.epoch, again.active = member.epoch, member.active
    reply = await again.heartbeat()
    assert (reply.error_code, reply.member_epoch, reply.active_tasks) == (0, member.epoch, None)


@simulated(**AT_ONCE)
async def test_a_groups_own_settings_count_at_once(world: NodeWorld) -> None:
    await world.create_topic("in", 1)
    member = await StreamsMember.connect(world)
    await member.join()
    asked = [AlterableConfig("streams.heartbeat.interval.ms", 0, "7000")]
    change = IncrementalAlterConfigsRequest([AlterConfigsResource(32, "g", asked)])
    reply = await member.client.ask(change, 1)
    assert reply.responses[0].error_code == 0, reply
    assert (await member.heartbeat()).heartbeat_interval_ms == 7_000


@simulated(**AT_ONCE)
async def test_members_commit_offsets_with_their_epoch(world: NodeWorld) -> None:
    await world.create_topic("in", 1)
    member = await StreamsMember.connect(world)
    await member.join()

    async def commit(epoch: int) -> int:
        topic = OffsetCommitRequestTopic("in", partitions=[OffsetCommitRequestPartition(0, 1)])
        reply = await member.client.ask(OffsetCommitRequest("g", epoch, "m1", topics=[topic]), 9)
        return int(reply.topics[0].partitions[0].error_code)

    assert await commit(member.epoch) == 0
    assert await commit(member.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize("by", ["broker", "cluster"])
def test_where_they_are_not_offered_there_are_none(by: str) -> None:
    settings = {"group_coordinator_rebalance_protocols": "classic,consumer"} if by == "broker" else {}

    @simulated(**settings)
    async def ask_the_node(world: NodeWorld) -> None:
        member = await StreamsMember.connect(world)
        if by == "cluster":
            level = FeatureUpdateKey("streams.version", 0, upgrade_type=2)
            update = UpdateFeaturesRequest(feature_updates=[level])
            assert (await member.client.ask(update, 2)).error_code == 0
            await world.until(lambda: not world.node.image.features.get("streams.version"))
        assert (await member.join()).error_code == ErrorCode.UNSUPPORTED_VERSION

    ask_the_node()


@simulated(**AT_ONCE)
async def test_what_no_client_should_send_is_refused(world: NodeWorld) -> None:
    member = await StreamsMember.connect(world)
    wrong: dict[str, dict[str, Any]] = {
        "RebalanceTimeoutMs must be provided in first request.": {"rebalance_timeout_ms": -1},
        "Topology must be non-null when (re-)joining.": {"topology": None},
        "ActiveTasks must be empty when (re-)joining.": {"active_tasks": [TaskIds("0", [0])]},
        "Static membership is not yet supported.": {"instance_id": "i"},
        "WarmupTasks are not supported yet.": {"warmup_tasks": [TaskIds("0", [0])]},
        "TaskOffsets are not supported yet.": {"task_offsets": []},
        "RackId can't be empty.": {"rack_id": " "},
        "Topology epoch must be non-negative.": {"topology": topology("in", epoch=-1)},
        "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.": {
            "topology": topology("__consumer_offsets")
        },
        "Topic names a&b are not valid topic names.": {"topology": topology("a&b")},
    }
    for words, fields in wrong.items():
        reply = await member.join(**fields)
        assert (reply.error_code != 0, reply.error_message) == (True, words)
    reply = await member.ask(1, active_tasks=[])
    assert reply.error_message == "If one task-type is non-null, all must be non-null."


@with_authorizer
async def test_rights_to_the_group_its_topics_and_to_make_some(world: NodeWorld) -> None:
    await world.create_topic("in", 1)
    client = await stranger(world)
    asked = StreamsGroupHeartbeatRequest(
        "g", "m1", 0, topology=topology("in = kept"), rebalance_timeout_ms=1_000, process_id="p", **NOTHING
    )

    async def code() -> int:
        return int((await client.ask(asked, 0)).error_code)

    assert await code() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await allow(world, (Resource.GROUP, "g", Operation.READ))
    assert await code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await allow(world, *((Resource.TOPIC, name, Operation.DESCRIBE) for name in ("in", "kept")))
    await StreamsMember.connect(world)  # makes the coordinator
    reply = await client.ask(asked, 0)
    (status,) = [each for each in reply.status if each.status_code == 3]
    assert status.status_detail == "Internal topics are missing: kept; Unauthorized to CREATE on topics kept."
    await allow(world, (Resource.CLUSTER, CLUSTER_NAME, Operation.CREATE))
    await client.ask(asked, 0)
    await world.until(lambda: "kept" in world.node.image.topics_by_name)
