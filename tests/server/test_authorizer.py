"""An authorizer on a node: what is refused by the data path, in mid-flight, and when requests are forwarded.

Everyone is User:ANONYMOUS, so rules go by address: `world.connect()` comes from a machine that may do all,
and `stranger(world)` from one that may do nothing but what a test gives it.
"""

import inspect
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.security.acl import CIDR_SINCE, CLUSTER_NAME, Operation, PatternType, Permission, Resource
from headrace.settings.definition import SettingError
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.wire.codec import encode, join_chunks
from headrace.wire.framing import read_response, request_frame
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.envelope import EnvelopeRequest
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.principal import DefaultPrincipalData
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import CONTROLLER_PORT, PORT, Client, NodeWorld, simulated

AUTHORIZER = {"authorizer_class_name": STANDARD_AUTHORIZER}
NEWEST = 12


def with_authorizer(test: Any) -> Any:
    """A node on which the client's machine has all rights and a stranger's has none."""

    async def script(world: NodeWorld, **parameters: Any) -> None:
        admin = await world.connect()
        everything = [
            rule(
                resource, "*" if resource is not Resource.CLUSTER else CLUSTER_NAME, Operation.ALL, host=host
            )
            for resource in Resource
            if resource > Resource.ANY
            for host in (world.address_of("client"),)
        ]
        reply = await admin.ask(CreateAclsRequest(everything), 3)
        assert not any(result.error_code for result in reply.results)
        await test(world, **parameters)

    script.__name__, script.__doc__, script.__module__ = test.__name__, test.__doc__, test.__module__
    script.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return simulated(**AUTHORIZER, allow_everyone_if_no_acl_found="true")(script)


def rule(
    resource: Resource,
    name: str,
    operation: Operation,
    *,
    host: str,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:ANONYMOUS",
) -> AclCreation:
    return AclCreation(resource, name, PatternType.LITERAL, principal, host, operation, permission)


async def stranger(world: NodeWorld, port: int = PORT) -> Client:
    return await world.connect("stranger", port, machine="elsewhere")


async def allow(world: NodeWorld, *rights: tuple[Resource, str, Operation]) -> None:
    """Give a stranger rights."""
    admin = await world.connect()
    rules = [rule(*right, host=world.address_of("elsewhere")) for right in rights]
    reply = await admin.ask(CreateAclsRequest(rules), 3)
    assert not any(result.error_code for result in reply.results), reply


async def revoke(world: NodeWorld, resource: Resource, name: str) -> None:
    admin = await world.connect()
    wanted = DeleteAclsFilter(resource, name, PatternType.LITERAL, None, world.address_of("elsewhere"), 1, 1)
    reply = await admin.ask(DeleteAclsRequest([wanted]), 3)
    assert reply.filter_results[0].matching_acls


def produce(
    topic: str, *, acks: int = 1, transactional_id: str | None = None, **options: Any
) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch(**options))])
    return ProduceRequest(transactional_id, acks, 5_000, [data])


def fetch(topic: str, **fields: Any) -> FetchRequest:
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[wanted], **fields)


def code_of(reply: Any) -> int:
    """Of a Produce or Fetch about one partition."""
    (topic,) = reply.responses
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return int(partition.error_code)


def end_of(world: NodeWorld, topic: str) -> int:
    return world.partition(topic).log.log_end_offset


# -- the data path -------------------------------------------------------------------------------------------


@with_authorizer
async def test_the_lane_asks_for_every_run(world: NodeWorld) -> None:
    """Plain requests go by the produce lane, which must not take what the handler would refuse."""
    await world.create_topic("t")
    client = await stranger(world)
    refused = [client.ask(produce("t"), 9) for _ in range(5)]
    assert {code_of(await each) for each in refused} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert end_of(world, "t") == 0
    await allow(world, (Resource.TOPIC, "t", Operation.WRITE))
    assert [code_of(await client.ask(produce("t"), 9)) for _ in range(3)] == [0, 0, 0]
    await revoke(world, Resource.TOPIC, "t")
    refused = [client.ask(produce("t"), 9) for _ in range(5)]
    assert {code_of(await each) for each in refused} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert end_of(world, "t") == 3


@with_authorizer
async def test_a_producer_without_acknowledgements_hears_the_end_of_its_connection(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await stranger(world)
    client.tell(produce("t", acks=0), 9)
    await world.until(lambda: not client.is_open)
    assert end_of(world, "t") == 0


@with_authorizer
async def test_a_transactional_id_is_asked_for_before_anything_is_written(world: NodeWorld) -> None:
    """CVE-2018-17196."""
    await world.create_topic("t")
    await allow(world, (Resource.TOPIC, "t", Operation.WRITE))
    client = await stranger(world)
    options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    reply = await client.ask(produce("t", transactional_id="x", **options), 9)
    assert code_of(reply) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert end_of(world, "t") == 0


@with_authorizer
async def test_one_refused_topic_does_not_keep_the_others(world: NodeWorld) -> None:
    await world.create_topic("mine")
    await world.create_topic("theirs")
    await allow(world, (Resource.TOPIC, "mine", Operation.WRITE))
    client = await stranger(world)
    both = produce("mine")
    both.topic_data += produce("theirs").topic_data
    reply = await client.ask(both, 9)
    codes = {each.name: each.partition_responses[0].error_code for each in reply.responses}
    assert codes == {"mine": 0, "theirs": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert (end_of(world, "mine"), end_of(world, "theirs")) == (1, 0)


@with_authorizer
async def test_a_fetch_that_waits_ends_with_the_right_to_it(world: NodeWorld) -> None:
    await world.create_topic("t")
    await allow(world, (Resource.TOPIC, "t", Operation.READ))
    client = await stranger(world)
    opened = await client.ask(fetch("t", session_epoch=0), NEWEST)
    assert opened.session_id
    going_on = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=[], session_id=opened.session_id, session_epoch=1
    )
    waiting = client.ask(going_on, NEWEST, timeout_ms=100_000)
    await revoke(world, Resource.TOPIC, "t")
    await (await world.connect()).ask(produce("t"), 9)
    assert code_of(await waiting) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@with_authorizer
async def test_whoever_says_to_be_a_follower_must_be_a_node(world: NodeWorld) -> None:
    """CVE-2018-1288: the right to read a topic is not enough, and no replica is noted."""
    await world.create_topic("t")
    await allow(world, (Resource.TOPIC, "t", Operation.READ))
    client = await stranger(world)
    assert code_of(await client.ask(fetch("t"), NEWEST)) == 0
    as_follower = fetch("t", replica_id=1)
    assert code_of(await client.ask(as_follower, NEWEST)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await allow(world, (Resource.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION))
    assert code_of(await client.ask(as_follower, NEWEST)) != ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- what may be known ---------------------------------------------------------------------------------------


@with_authorizer
async def test_many_topics_are_told_to_those_who_may_see_them(world: NodeWorld) -> None:
    """The prepared replies of many topics are not for everyone."""
    for number in range(300):
        await world.create_topic(f"t{number}")
    await allow(world, (Resource.TOPIC, "t7", Operation.DESCRIBE), (Resource.TOPIC, "t8", Operation.READ))
    admin, client = await world.connect(), await stranger(world)
    for _ in range(2):
        assert len((await admin.ask(MetadataRequest(topics=None), NEWEST)).topics) == 300
        seen = (await client.ask(MetadataRequest(topics=None), NEWEST)).topics
        assert {topic.name for topic in seen} == {"t7", "t8"}
    named = [MetadataRequestTopic(name=f"t{number}") for number in range(300)]
    told = (await client.ask(MetadataRequest(topics=named), NEWEST)).topics
    assert sum(not topic.error_code for topic in told) == 2
    assert all(not topic.partitions and not any(topic.topic_id) for topic in told if topic.error_code)


@with_authorizer
async def test_nobody_makes_a_topic_by_asking_for_it_without_the_right_to(world: NodeWorld) -> None:
    client = await stranger(world)
    await allow(world, (Resource.TOPIC, "new", Operation.DESCRIBE))
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    (told,) = (await client.ask(wanted, NEWEST)).topics
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "new" not in world.node.image.topics_by_name
    await allow(world, (Resource.TOPIC, "new", Operation.CREATE))
    (told,) = (await client.ask(wanted, NEWEST)).topics
    assert told.error_code == 0


@with_authorizer
async def test_no_internal_topic_is_made_for_a_stranger(world: NodeWorld) -> None:
    client = await stranger(world)
    old, new = FindCoordinatorRequest("g", 0), FindCoordinatorRequest(coordinator_keys=["g"])
    assert (await client.ask(old, 3)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (await client.ask(new, 4)).coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not world.node.image.topics_by_name


@with_authorizer
async def test_groups_are_listed_to_those_who_may_see_them(world: NodeWorld) -> None:
    admin, client = await world.connect(), await stranger(world)
    for group in ("mine", "theirs"):
        await admin.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
        protocol = JoinGroupRequestProtocol("range", b"")
        await admin.ask(JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [protocol]), 2)
    await allow(world, (Resource.GROUP, "mine", Operation.DESCRIBE))
    assert {each.group_id for each in (await admin.ask(ListGroupsRequest(), 4)).groups} == {"mine", "theirs"}
    assert [each.group_id for each in (await client.ask(ListGroupsRequest(), 4)).groups] == ["mine"]
    # CVE-2026-41115: what a group is, is for those who may look at it; whether there is one, too.
    told = (await client.ask(DescribeGroupsRequest(["mine", "theirs"], True), 5)).groups
    codes = {each.group_id: each.error_code for each in told}
    assert codes == {"mine": 0, "theirs": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert (
        next(each for each in told if each.group_id == "mine").authorized_operations
        == 1 << Operation.DESCRIBE
    )


@with_authorizer
async def test_what_may_be_done_to_the_cluster_is_told_to_who_may_look(world: NodeWorld) -> None:
    client = await stranger(world)
    assert (await client.ask(DescribeClusterRequest(True), 1)).cluster_authorized_operations == 0
    await allow(world, (Resource.CLUSTER, CLUSTER_NAME, Operation.ALTER))
    told = (await client.ask(DescribeClusterRequest(True), 1)).cluster_authorized_operations
    assert told == 1 << Operation.ALTER | 1 << Operation.DESCRIBE


@with_authorizer
async def test_a_consumer_must_be_able_to_see_what_it_subscribes_to(world: NodeWorld) -> None:
    await world.create_topic("t")
    await (await world.connect()).ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await allow(world, (Resource.GROUP, "g", Operation.READ))
    client = await stranger(world)
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert (await client.ask(joining, 1)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await allow(world, (Resource.TOPIC, "t", Operation.READ))
    assert (await client.ask(joining, 1)).error_code == 0


@with_authorizer
async def test_a_pattern_finds_only_topics_that_its_member_may_know_of(world: NodeWorld) -> None:
    """As in Kafka, and its rights are followed: what is given is found, what is taken is let go of."""
    first, second = [await world.create_topic(name) for name in ("logs.a", "logs.b")]
    await (await world.connect()).ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await allow(world, (Resource.GROUP, "g", Operation.READ), (Resource.TOPIC, "logs.a", Operation.DESCRIBE))
    client = await stranger(world)
    joined = await client.ask(
        ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_regex="logs.*", topic_partitions=[]
        ),
        1,
    )
    found = {each.topic_id for each in joined.assignment.topic_partitions}
    assert found == {first}

    async def owned_after(epoch: int) -> tuple[int, set[bytes]]:
        """Heartbeats until the member is given something else."""
        while True:
            reply = await client.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch), 1)
            assert reply.error_code == 0
            epoch = reply.member_epoch
            if reply.assignment is not None:
                return epoch, {each.topic_id for each in reply.assignment.topic_partitions}

    await allow(world, (Resource.TOPIC, "logs.b", Operation.DESCRIBE))
    epoch, found = await owned_after(joined.member_epoch)
    assert found == {first, second}
    await revoke(world, Resource.TOPIC, "logs.a")
    _, found = await owned_after(epoch)
    assert found == {second}


@with_authorizer
async def test_a_group_that_reads_what_must_not_be_known_is_not_shown(world: NodeWorld) -> None:
    await world.create_topic("t")
    admin, client = await world.connect(), await stranger(world)
    await admin.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert (await admin.ask(joining, 1)).assignment.topic_partitions
    await allow(world, (Resource.GROUP, "g", Operation.DESCRIBE))
    (told,) = (await client.ask(ConsumerGroupDescribeRequest(["g"]), 1)).groups
    assert (told.error_code, told.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    await allow(world, (Resource.TOPIC, "t", Operation.DESCRIBE))
    (told,) = (await client.ask(ConsumerGroupDescribeRequest(["g"]), 1)).groups
    assert (told.error_code, len(told.members)) == (0, 1)


# -- nodes ---------------------------------------------------------------------------------------------------


def envelope(request: object, version: int, user: str) -> EnvelopeRequest:
    frame = join_chunks(request_frame(request, version, 5, "someone"))
    return EnvelopeRequest(
        frame[4:], b"\0\0" + encode(DefaultPrincipalData("User", user), 0), bytes([10, 9, 9, 9])
    )


@with_authorizer
async def test_only_nodes_forward_requests_and_nobody_gains_by_it(world: NodeWorld) -> None:
    """Who could send envelopes would be whoever he likes; and a forwarded request has its client's rights."""
    create = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 1_000)
    nobody = await stranger(world, CONTROLLER_PORT)
    refused = await nobody.ask(envelope(create, 7, "root"), 0)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node = await world.connect_controller()
    answered = await node.ask(envelope(create, 7, "alice"), 0)
    (told,) = read_response(CreateTopicsResponse, 7, answered.response_data).topics
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    admin = await world.connect()
    alice = rule(Resource.TOPIC, "orders", Operation.CREATE, host="10.9.9.9", principal="User:alice")
    await admin.ask(CreateAclsRequest([alice]), 3)
    answered = await node.ask(envelope(create, 7, "alice"), 0)
    (told,) = read_response(CreateTopicsResponse, 7, answered.response_data).topics
    # She may make it, and not see its settings.
    assert (told.error_code, told.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert "orders" in world.node.image.topics_by_name


@with_authorizer
async def test_a_controller_refuses_strangers(world: NodeWorld) -> None:
    client = await stranger(world, CONTROLLER_PORT)
    reply = await client.ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert reply.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@with_authorizer
async def test_a_rule_may_be_about_a_range_of_addresses_from_4_4_iv1_on(world: NodeWorld) -> None:
    await world.create_topic("t")
    client, admin = await stranger(world), await world.connect()
    hosts = [
        f"{world.address_of('elsewhere')}/24",
        "192.0.2.0/24",
        "10.0.0.0/33",
        "10.0.0.0/255.0.0.0",
        "h/8",
    ]
    write, *others = [rule(Resource.TOPIC, "t", Operation.WRITE, host=host) for host in (*hosts, "")]
    (told,) = (await admin.ask(CreateAclsRequest([write]), 3)).results
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert told.error_message == "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    level = FeatureUpdateKey("metadata.version", CIDR_SINCE, upgrade_type=1)
    assert (await admin.ask(UpdateFeaturesRequest(10_000, [level]), 2)).error_code == 0
    results = (await admin.ask(CreateAclsRequest(others), 3)).results
    assert [told.error_code for told in results] == [0] + 4 * [ErrorCode.INVALID_REQUEST]
    assert str(results[1].error_message).startswith("Invalid CIDR notation '10.0.0.0/33'")
    assert code_of(await client.ask(produce("t"), 9)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not (await admin.ask(CreateAclsRequest([write]), 3)).results[0].error_code
    assert code_of(await client.ask(produce("t"), 9)) == 0
    back = FeatureUpdateKey("metadata.version", CIDR_SINCE - 1, upgrade_type=2)
    refused = await admin.ask(UpdateFeaturesRequest(10_000, [back]), 2)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION, "ranges would become words"


@with_authorizer
async def test_rules_outlive_the_process(world: NodeWorld) -> None:
    await world.create_topic("t")
    await allow(world, (Resource.TOPIC, "t", Operation.WRITE))
    await world.stop()
    await world.start()
    client = await stranger(world)
    assert code_of(await client.ask(produce("t"), 9)) == 0
    assert code_of(await client.ask(fetch("t"), NEWEST)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_super_users_are_principals() -> None:
    with NodeWorld({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "root"}) as world:

        async def script() -> None:
            with pytest.raises(SettingError, match="'root' is no principal"):
                await world.start()

        world.run(script())


def test_listeners_that_start_early_are_listeners() -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "early.start.listeners": "NOWHERE"}
    with NodeWorld(settings) as world:

        async def script() -> None:
            with pytest.raises(SettingError, match="NOWHERE is not among listeners"):
                await world.start()

        world.run(script())


@simulated(**AUTHORIZER, super_users="User:ANONYMOUS", early_start_listeners="PLAINTEXT")
async def test_a_controllers_listener_may_open_after_the_rules_are_known(world: NodeWorld) -> None:
    client = await world.connect_controller()
    assert (await client.ask(DescribeClusterRequest(endpoint_type=2), 1)).error_code == 0
