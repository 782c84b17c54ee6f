"""StreamsGroupDescribe, and what else is told of streams groups."""

from headrace.base.error_codes import ErrorCode
from headrace.security.acl import Operation, Resource
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.streams_group_describe import StreamsGroupDescribeRequest, TaskIds
from headrace.wire.schemas.streams_group_heartbeat import Endpoint, KeyValue
from tests.server.node_world import NodeWorld, simulated
from tests.server.streams_members import StreamsMember
from tests.server.test_authorizer import allow, stranger, with_authorizer
from tests.server.test_streams_group_heartbeat import AT_ONCE, until_it_has_tasks


@simulated(**AT_ONCE)
async def test_a_group_and_its_members_are_described_listed_and_deleted(world: NodeWorld) -> None:
    await world.create_topic("in", 2)
    member = await StreamsMember.connect(world)
    await member.join(
        "in = kept", user_endpoint=Endpoint("here", 80), client_tags=[KeyValue("zone", "a")], rack_id="r"
    )
    await until_it_has_tasks(world, member)
    client = member.client
    reply = await client.ask(StreamsGroupDescribeRequest(["g", "none", ""]), 0)
    group, unknown, unnamed = reply.groups
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert group.assignment_epoch == group.group_epoch == member.epoch
    (part,) = group.topology.subtopologies
    (changelog,) = part.state_changelog_topics
    assert (part.subtopology_id, part.source_topics) == ("0", ["in"])
    assert (changelog.name, changelog.partitions) == ("kept", 2)
    (described,) = group.members
    assert (described.member_id, described.member_epoch, described.process_id) == (
        "m1",
        member.epoch,
        "process of m1",
    )
    assert (described.user_endpoint.host, described.client_tags[0].key, described.rack_id) == (
        "here",
        "zone",
        "r",
    )
    assert described.assignment == described.target_assignment
    assert described.assignment.active_tasks == [TaskIds("0", [0, 1])]
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    listed = (await client.ask(ListGroupsRequest(types_filter=["streams"]), 5)).groups
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        ("g", "streams", "Stable", "streams")
    ]
    (classic,) = (await client.ask(DescribeGroupsRequest(["g"]), 6)).groups
    assert (classic.group_state, classic.error_message) == ("Dead", "Group g is not a classic group.")
    deletion = DeleteGroupsRequest(["g"])
    assert (await client.ask(deletion, 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    await member.ask(-1)
    assert (await client.ask(deletion, 2)).results[0].error_code == 0
    assert (await client.ask(ListGroupsRequest(), 5)).groups == []


@with_authorizer
async def test_a_group_is_shown_to_who_may_see_all_of_its_topics(world: NodeWorld) -> None:
    await world.create_topic("in", 1)
    member = await StreamsMember.connect(world)
    await member.join("in = kept")
    client = await stranger(world)

    async def code() -> int:
        reply = await client.ask(StreamsGroupDescribeRequest(["g"]), 0)
        return int(reply.groups[0].error_code)

    assert await code() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await allow(world, (Resource.GROUP, "g", Operation.DESCRIBE), (Resource.TOPIC, "in", Operation.DESCRIBE))
    assert await code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await allow(world, (Resource.TOPIC, "kept", Operation.DESCRIBE))
    assert await code() == 0
