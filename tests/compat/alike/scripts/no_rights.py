"""Every request kind in every version, asked by somebody who may do nothing, and by one who may look only.

Everyone is User:ANONYMOUS here, so rights go by address: the first client's has all of them, `nobody`'s none,
`onlooker`'s DESCRIBE on everything but the cluster. Requests are made from the schemas, so that a new kind is
asked as soon as it has a row; what needs more than one of each name is asked by hand behind them.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, Resource
from headrace.server.api_table import BROKER
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.wire.apis import API, API_BY_NAME, Api, ApiKey
from headrace.wire.plan import StructPlan, plan_message
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.describe_acls import DescribeAclsRequest
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.schemas.fetch import FetchRequest, ReplicaState
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.compat.alike.session import UNKNOWN_ID, Session, versions
from tests.server.beside_kafka.talk import batch

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "share.coordinator.state.topic.num.partitions": "50",  # Kafka's default: it is told to onlookers
}

NOBODY, ONLOOKER = "nobody", "onlooker"
EVERYONES = (
    *(ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    *(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
)
"""Kinds that nobody needs a right for."""
SERVED = {row.key for row in BROKER}
KINDS = sorted((SERVED | {ApiKey(key) for key in (38, 39, 40, 41, 48, 49, 50, 51)}) - {*EVERYONES})
RESOURCES = (
    *((Resource.TOPIC, "*"), (Resource.GROUP, "*"), (Resource.CLUSTER, CLUSTER_NAME)),
    *((Resource.TRANSACTIONAL_ID, "*"), (Resource.DELEGATION_TOKEN, "*"), (Resource.USER, "*")),
)


async def script(session: Session) -> None:
    topic_id = await session.topic("topic", 2)
    await share_out_rights(session)
    for client in (NOBODY, ONLOOKER):
        await sweep(session, client, "topic", topic_id)
        await sweep(session, client, "missing", UNKNOWN_ID)
        await by_hand(session, client, topic_id)
    await about_acls(session)


async def share_out_rights(session: Session) -> None:
    everything = [_acl(resource, name, session.host_of("c"), Operation.ALL) for resource, name in RESOURCES]
    looking = [
        _acl(resource, "*", session.host_of(ONLOOKER), Operation.DESCRIBE)
        for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
    ]
    reply = await session.get(CreateAclsRequest([*everything, *looking]))
    assert not any(result.error_code for result in reply.results), reply
    await session.until(
        MetadataRequest(topics=None),
        lambda reply: len(reply.topics) >= 1,
        client=ONLOOKER,
    )
    await session.until(MetadataRequest(topics=None), lambda reply: not reply.topics, client=NOBODY)
    for key_type in (0, 1):
        await session.until(
            FindCoordinatorRequest("", key_type, [session.name("group")]),
            lambda reply: not reply.coordinators[0].error_code,
        )
    await session.until(
        DescribeGroupsRequest([session.name("group")]),
        lambda reply: reply.groups[0].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    await session.until(ListTransactionsRequest(), lambda reply: not reply.error_code)
    for topic in (await session.get(MetadataRequest(topics=None))).topics:
        if topic.is_internal:
            session.know(bytes(topic.topic_id), f"id of {topic.name}")


def _acl(resource: Resource, name: str, host: str, operation: Operation) -> AclCreation:
    return AclCreation(
        resource, name, PatternType.LITERAL, "User:ANONYMOUS", host, operation, Permission.ALLOW
    )


def is_served(label: str) -> bool:
    """Whether what Kafka was asked under this label is served here."""
    name = label.rpartition(", ")[2].partition(" ")[0]
    return API_BY_NAME[name].key in SERVED


# -- every kind ----------------------------------------------------------------------------------------------


async def sweep(session: Session, client: str, topic: str, topic_id: bytes) -> None:
    """All request kinds that both serve, about one topic, group and transactional id."""
    filler = Filler(session, topic, topic_id)
    for key in KINDS:
        api = API[key]
        if session.is_simulated and key not in SERVED:
            continue
        for version in versions(api.name):
            await session.ask(f"{client}, {topic}", filler.fill(api, version), version, client=client)


class Filler:
    """Makes requests out of their schemas: a list has one item, a name is one of ours."""

    def __init__(self, session: Session, topic: str, topic_id: bytes) -> None:
        self._topic = session.name(topic)
        self._topic_id = topic_id
        self._group = session.name("group")
        self._transactional_id = session.name("transaction")

    def fill(self, api: Api, version: int) -> Any:
        return self._struct(plan_message(api.request, version))

    def _struct(self, plan: StructPlan) -> Any:
        made = plan.cls()
        for field in plan.fields:
            name = field.spec.name
            value = self._value(name)
            if field.spec.is_array:
                if field.struct is not None:
                    setattr(made, name, [self._struct(field.struct)])
                elif value is not None:
                    setattr(made, name, [value])
                elif field.spec.wire.name not in ("string", "uuid"):
                    setattr(made, name, [0])
            elif value is not None:
                setattr(made, name, value)
        return made

    def _value(self, name: str) -> Any:
        if name in ("name", "topic", "topic_name", "topic_names", "subscribed_topic_names", "resource_name"):
            return self._topic
        if name in ("group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"):
            return self._group
        if name.endswith(("transactional_id", "transactional_ids")):
            return self._transactional_id
        return {
            "topic_id": self._topic_id,
            "records": batch(),
            "resource_type": Resource.TOPIC,
            "resource_type_filter": Resource.ANY,
            "operation": Operation.READ,
            "permission_type": Permission.ALLOW,
            "principal": "User:somebody",
            "host": "*",
            "acks": 1,
            "num_partitions": 1,
            "replication_factor": 1,
            "endpoint_type": 1,
            "timeout_ms": 5_000,
            "response_partition_limit": 10,
            "isolation_level": 0,
        }.get(name)


# -- more than one of each -----------------------------------------------------------------------------------


async def by_hand(session: Session, client: str, topic_id: bytes) -> None:
    async def every(label: str, make: Any, **options: Any) -> None:
        await session.every(f"{client}, {label}", make, client=client, **options)

    topic, missing, group = session.name("topic"), session.name("missing"), session.name("group")
    for cluster, topics in ((True, False), (False, True)):
        await every(
            f"all, bits {cluster} {topics}",
            lambda v, bits=(cluster, topics): MetadataRequest(None if v else [], False, *bits),
        )
    both = [MetadataRequestTopic(name=topic), MetadataRequestTopic(name=missing)]
    await every("both, bits", lambda v: MetadataRequest(both, True, True, True))
    ids = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(UNKNOWN_ID, None)]
    await every("ids", lambda v: MetadataRequest(ids, False), only=(12, 13))
    await every("all", lambda v: DescribeTopicPartitionsRequest())
    for key_type in (0, 1):
        await every(
            f"key type {key_type}",
            lambda v, kind=key_type: FindCoordinatorRequest(group, kind, [group, missing]),
            only=range(1, 6),
        )
    await every(
        "follower",
        lambda v: _as_follower(Filler(session, "topic", topic_id).fill(API[ApiKey.FETCH], v), v),
        only=versions("Fetch"),
    )
    await every("idempotent", lambda v: InitProducerIdRequest(None, 60_000))
    await every(
        "all offsets",
        lambda v: OffsetFetchRequest(group, None, [OffsetFetchRequestGroup(group, topics=None)]),
        only=range(2, 11),
    )
    for bits in (False, True):
        await every(f"bits {bits}", lambda v, wanted=bits: DescribeClusterRequest(wanted))
    resources = [(2, topic), (2, missing), (4, ""), (4, "1"), (8, "1"), (16, "s"), (32, group)]
    await every(
        "kinds",
        lambda v: DescribeConfigsRequest(
            [DescribeConfigsResource(kind, name, ["none"]) for kind, name in resources]
        ),
    )
    for kind, name in resources:
        await every(
            f"of kind {kind} {len(name) > 0}",
            lambda v, of=(kind, name): IncrementalAlterConfigsRequest(
                [AlterConfigsResource(*of, [AlterableConfig("retention.ms", 0, "5")])], True
            ),
        )
    topics = [CreatableTopic(missing, 1, 1), CreatableTopic("__cluster_metadata", 1, 1)]
    await every("two", lambda v: CreateTopicsRequest(topics, 5_000, True))
    doomed = [DeleteTopicState(topic), DeleteTopicState(missing), DeleteTopicState(None, UNKNOWN_ID)]
    await every("several", lambda v: DeleteTopicsRequest(doomed, [topic, missing], 5_000))
    await every(
        "by id", lambda v: DeleteTopicsRequest([DeleteTopicState(None, topic_id)], [], 5_000), only=(6,)
    )


def _as_follower(request: FetchRequest, version: int) -> FetchRequest:
    return replace(request, replica_id=1, replica_state=ReplicaState(1, -1) if version >= 15 else None)


# -- rules themselves ----------------------------------------------------------------------------------------


async def about_acls(session: Session) -> None:
    """Made, shown and taken away by the one who may."""
    for label, creation in wrong_acls(session):
        await session.every(label, lambda v, made=creation: CreateAclsRequest([made]))
    name, prefix = session.name("acl"), session.name("ac")
    rules = [
        _rule(Resource.TOPIC, name, "User:a", Operation.READ),
        replace(_rule(Resource.TOPIC, name, "User:a", Operation.WRITE), permission_type=Permission.DENY),
        replace(
            _rule(Resource.TOPIC, prefix, "User:b"), resource_pattern_type=PatternType.PREFIXED, host="h"
        ),
        _rule(Resource.GROUP, session.name("acl-group"), "User:a", Operation.READ),
        _rule(Resource.USER, "User:u", "User:a", Operation.CREATE_TOKENS),
    ]
    await session.ask("made", CreateAclsRequest(rules))
    await session.ask("made again", CreateAclsRequest(rules[:2]))
    literal = DescribeAclsRequest(Resource.TOPIC, name, PatternType.LITERAL, None, None, 1, 1)
    await session.until(literal, lambda reply: reply.resources)
    for number, wanted in enumerate(filters(name, prefix)):
        await session.every(f"filter {number}", lambda v, asked=wanted: DescribeAclsRequest(*asked))
    # One of two rules of a resource, and then what is left (CVE-2024-27309).
    one = (Resource.TOPIC, name, PatternType.LITERAL, "User:a", None, Operation.READ, Permission.ANY)
    await session.ask("one of two", DeleteAclsRequest([DeleteAclsFilter(*one)]))
    await session.until(literal, lambda reply: len(reply.resources[0].acls) == 1)
    await session.ask("left", literal)
    both = [DeleteAclsFilter(1, name, 1, None, None, 1, 1), DeleteAclsFilter(2, name, 1, None, None, 1, 1)]
    await session.ask("twice", DeleteAclsRequest(both))
    await session.until(literal, lambda reply: not reply.resources)
    await session.ask("none left", DeleteAclsRequest(both))
    await session.ask("by principal", DeleteAclsRequest([DeleteAclsFilter(1, None, 1, "User:b", None, 1, 1)]))


def _rule(resource: Resource, name: str, principal: str, operation: Operation = Operation.ALL) -> AclCreation:
    return AclCreation(resource, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)


def wrong_acls(session: Session) -> Iterator[tuple[str, AclCreation]]:
    good = AclCreation(
        Resource.TOPIC,
        session.name("t"),
        PatternType.LITERAL,
        "User:a",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    yield "cluster of another name", replace(good, resource_type=Resource.CLUSTER, resource_name="other")
    yield "no name", replace(good, resource_name="")
    yield "any type", replace(good, resource_type=Resource.ANY)
    yield "any pattern", replace(good, resource_pattern_type=PatternType.ANY)
    yield "matching pattern", replace(good, resource_pattern_type=PatternType.MATCH)
    yield "any operation", replace(good, operation=Operation.ANY)
    yield "any permission", replace(good, permission_type=Permission.ANY)
    yield "no type of principal", replace(good, principal="a")
    yield "no principal", replace(good, principal="")
    yield "no host", replace(good, host="")


def filters(name: str, prefix: str) -> list[tuple[Any, ...]]:
    return [
        (Resource.ANY, name, PatternType.ANY, None, None, 1, 1),
        (Resource.TOPIC, name, PatternType.LITERAL, None, None, 1, 1),
        (Resource.TOPIC, name, PatternType.PREFIXED, None, None, 1, 1),
        (Resource.TOPIC, prefix, PatternType.PREFIXED, None, None, 1, 1),
        (Resource.TOPIC, name, PatternType.MATCH, "User:a", None, 1, 1),
        (Resource.TOPIC, name, PatternType.MATCH, "User:b", None, 1, 1),
        (Resource.TOPIC, name + "x", PatternType.MATCH, "User:a", None, 1, 1),
        (Resource.ANY, None, PatternType.ANY, "User:a", None, 1, 1),
        (Resource.ANY, None, PatternType.ANY, None, "h", 1, 1),
        (Resource.ANY, name, PatternType.ANY, None, None, Operation.READ, 1),
        (Resource.ANY, name, PatternType.ANY, None, None, 1, Permission.DENY),
        (Resource.CLUSTER, name, PatternType.ANY, None, None, 1, 1),
    ]
