"""ShareGroupDescribe, and what else is told of share groups."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.share_group_describe import ShareGroupDescribeRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ShareMember


@simulated()
async def test_a_group_and_its_members_are_described_listed_and_deleted(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    member = await ShareMember.connect(world)
    await member.join("t")
    client = member.client
    reply = await client.ask(ShareGroupDescribeRequest(["g", "none", ""]), 1)
    group, unknown, unnamed = reply.groups
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert group.assignment_epoch == group.group_epoch == member.epoch
    (described,) = group.members
    assert (described.member_id, described.client_id, described.subscribed_topic_names) == ("m1", "c", ["t"])
    (assigned,) = described.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id, "t", [0])
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    listed = (await client.ask(ListGroupsRequest(types_filter=["share"]), 5)).groups
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        ("g", "share", "Stable", "share")
    ]
    deletion = DeleteGroupsRequest(["g"])
    assert (await client.ask(deletion, 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    await member.heartbeat(-1)
    assert (await client.ask(deletion, 2)).results[0].error_code == 0
    assert (await client.ask(ListGroupsRequest(), 5)).groups == []
    states = [
        shard.states for shard in world.node.parts.share_groups.coordinator.runtime.shards() if shard.states
    ]
    assert states == []


@simulated()
async def test_a_group_has_one_kind(world: NodeWorld) -> None:
    member = await ShareMember.connect(world)
    await member.join("t")
    request = ConsumerGroupHeartbeatRequest(
        "g", "c1", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert (await member.client.ask(request, 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request.group_id = "other"
    assert (await member.client.ask(request, 1)).error_code == 0
    other = ShareMember(member.client, "other", "m1")
    reply = await other.join("t")
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group other is not a share group.",
    )
