"""Who may ask a controller for what: every request kind of its listener, in every version, with and without
the right that it needs.

The table is written down beside that of `server/api_table.py`, from Kafka's ControllerApis. Who has every
other right is refused all the same, and refused whole: nothing but refusals is in the answer. Who has that
one right alone is not refused.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.security.acl import CLUSTER_NAME, Operation, Resource
from headrace.server.api_table import CONTROLLER
from headrace.wire.apis import API, ApiKey
from headrace.wire.plan import fields_of
from headrace.wire.schemas import alter_configs, incremental_alter_configs
from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from headrace.wire.schemas.create_acls import CreateAclsRequest
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.server.node_world import CONTROLLER_PORT, NodeWorld
from tests.server.test_authorizer import envelope, rule, with_authorizer

TOPIC, BROKER = 2, 4  # types of resources with settings
NEW, THERE = "new", "there"

REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
IMPLYING: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
OF_ALL_OR_ONE: Final = {Operation.CREATE, Operation.DELETE}
"""Who may do it to the cluster may do it to every topic."""
EVERY: Final = [each for each in Operation if each > Operation.ALL and each is not Operation.TWO_PHASE_COMMIT]


class Need(NamedTuple):
    """The one right that lets a request through. `ask` makes the request for a version."""

    operation: Operation
    resource: Resource = Resource.CLUSTER
    name: str = CLUSTER_NAME
    ask: Callable[[int], Any] | None = None
    refusal: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def of_topic(operation: Operation, name: str, ask: Callable[[int], Any]) -> Need:
    return Need(operation, Resource.TOPIC, name, ask, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def delete_topics(version: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[THERE], timeout_ms=1_000)
    return DeleteTopicsRequest([DeleteTopicState(THERE)], timeout_ms=1_000)


def describe_configs(kind: int, name: str) -> Callable[[int], Any]:
    return lambda version: DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])


def change_configs(room: Any, request: Any, kind: int, name: str) -> Callable[[int], Any]:
    return lambda version: request([room.AlterConfigsResource(kind, name, [])], True)


def create_topics(version: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(NEW, 1, 1)], 1_000)


def create_partitions(version: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsTopic(THERE, 2)], 1_000)


def create_acls(version: int) -> CreateAclsRequest:
    return CreateAclsRequest([rule(Resource.TOPIC, THERE, Operation.READ, host="10.1.1.1")])


def delete_acls(version: int) -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsFilter(Resource.TOPIC, "none", 3, None, None, 1, 1)])


def elect_leaders(version: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [TopicPartitions(THERE, [0])], 1_000)


def alter_quotas(version: int) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        [RequestEntryData([EntityData("user", "eve")], [OpData("unknown", 1.0)])], True
    )


def alter_users(version: int) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest([ScramCredentialDeletion("eve", 1)])


REPLACE = (alter_configs, alter_configs.AlterConfigsRequest)
CHANGE = (incremental_alter_configs, incremental_alter_configs.IncrementalAlterConfigsRequest)
ALTER, NODE = Need(Operation.ALTER), Need(Operation.CLUSTER_ACTION)
DESCRIBE = Need(Operation.DESCRIBE)

NEEDS: Final[dict[ApiKey, list[Need]]] = {
    # What nodes ask each other.
    ApiKey.FETCH: [NODE],
    ApiKey.VOTE: [NODE],
    ApiKey.BEGIN_QUORUM_EPOCH: [NODE],
    ApiKey.END_QUORUM_EPOCH: [NODE],
    ApiKey.FETCH_SNAPSHOT: [NODE],
    ApiKey.ALTER_PARTITION: [NODE],
    ApiKey.ENVELOPE: [NODE._replace(ask=lambda version: envelope(DescribeClusterRequest(), 0, "alice"))],
    ApiKey.BROKER_REGISTRATION: [NODE],
    ApiKey.BROKER_HEARTBEAT: [NODE],
    ApiKey.ALLOCATE_PRODUCER_IDS: [NODE],
    ApiKey.CONTROLLER_REGISTRATION: [NODE],
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: [NODE],
    ApiKey.UPDATE_RAFT_VOTER: [NODE],
    # What administrators ask.
    ApiKey.CREATE_TOPICS: [
        Need(Operation.CREATE, ask=create_topics, refusal=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        of_topic(Operation.CREATE, NEW, create_topics),
    ],
    ApiKey.DELETE_TOPICS: [
        Need(Operation.DELETE, ask=delete_topics, refusal=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        of_topic(Operation.DELETE, THERE, delete_topics),
    ],
    ApiKey.CREATE_PARTITIONS: [of_topic(Operation.ALTER, THERE, create_partitions)],
    ApiKey.DESCRIBE_ACLS: [DESCRIBE],
    ApiKey.CREATE_ACLS: [ALTER._replace(ask=create_acls)],
    ApiKey.DELETE_ACLS: [ALTER._replace(ask=delete_acls)],
    ApiKey.DESCRIBE_CONFIGS: [
        of_topic(Operation.DESCRIBE_CONFIGS, THERE, describe_configs(TOPIC, THERE)),
        Need(Operation.DESCRIBE_CONFIGS, ask=describe_configs(BROKER, "")),
    ],
    ApiKey.ALTER_CONFIGS: [
        of_topic(Operation.ALTER_CONFIGS, THERE, change_configs(*REPLACE, TOPIC, THERE)),
        Need(Operation.ALTER_CONFIGS, ask=change_configs(*REPLACE, BROKER, "")),
    ],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [
        of_topic(Operation.ALTER_CONFIGS, THERE, change_configs(*CHANGE, TOPIC, THERE)),
        Need(Operation.ALTER_CONFIGS, ask=change_configs(*CHANGE, BROKER, "")),
    ],
    ApiKey.ELECT_LEADERS: [ALTER._replace(ask=elect_leaders)],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [ALTER],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [DESCRIBE],
    ApiKey.ALTER_CLIENT_QUOTAS: [Need(Operation.ALTER_CONFIGS, ask=alter_quotas)],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [DESCRIBE],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [ALTER._replace(ask=alter_users)],
    ApiKey.DESCRIBE_QUORUM: [DESCRIBE],
    ApiKey.UPDATE_FEATURES: [ALTER],
    ApiKey.DESCRIBE_CLUSTER: [ALTER],
    ApiKey.UNREGISTER_BROKER: [ALTER],
    ApiKey.ADD_RAFT_VOTER: [ALTER],
    ApiKey.REMOVE_RAFT_VOTER: [ALTER],
}
BY_THE_USER: Final = {
    # What is asked before it is known who somebody is.
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    # Everyone who has logged in may have tokens: tests/server/test_create_delegation_token.py and its like.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
CASES: Final = [(key, at) for key, needs in NEEDS.items() for at in range(len(needs))]


def test_the_table_has_every_request_kind_of_a_controller() -> None:
    assert {*NEEDS, *BY_THE_USER} == {row.key for row in CONTROLLER}


def codes_in(reply: Any, version: int) -> Iterator[ErrorCode]:
    """All error codes of an answer, wherever they stand."""
    if isinstance(reply, list):
        for each in reply:
            yield from codes_in(each, version)
    elif hasattr(reply, "__field_defaults__"):
        for field in fields_of(type(reply)):
            if field.name == "error_code" and version in field.versions:
                yield ErrorCode(reply.error_code)
            else:
                yield from codes_in(getattr(reply, field.name), version)


async def give(world: NodeWorld, machine: str, rights: list[tuple[Resource, str, Operation]]) -> None:
    rules = [rule(*each, host=world.address_of(machine)) for each in rights]
    reply = await (await world.connect()).ask(CreateAclsRequest(rules), 3)
    assert not any(result.error_code for result in reply.results)


def all_but(need: Need) -> list[tuple[Resource, str, Operation]]:
    """Every right that does not let the request through."""
    lacking = {need.operation, *IMPLYING.get(need.operation, ())}
    names = [(Resource.CLUSTER, CLUSTER_NAME), (Resource.TOPIC, NEW), (Resource.TOPIC, THERE)]
    return [
        (*where, operation)
        for where in names
        for operation in EVERY
        if operation not in lacking or (need.operation not in OF_ALL_OR_ONE and where != need[1:3])
    ]


async def answers(
    world: NodeWorld, machine: str, key: ApiKey, need: Need
) -> list[tuple[int, set[ErrorCode]]]:
    """The error codes that each version is answered with."""
    row = next(row for row in CONTROLLER if row.key is key)
    ask = need.ask or (lambda version: API[key].request())
    client = await world.connect("8", CONTROLLER_PORT, machine=machine)
    versions = range(row.min_version, row.max_version + 1)
    return [(each, set(codes_in(await client.ask(ask(each), each), each))) for each in versions]


@pytest.mark.parametrize(("key", "at"), CASES, ids=[f"{key.name}-{at}" for key, at in CASES])
@with_authorizer
async def test_a_controller_asks_for_the_right(world: NodeWorld, key: ApiKey, at: int) -> None:
    need = NEEDS[key][at]
    await world.create_topic(THERE)
    await give(world, "lacks", all_but(need))
    for version, codes in await answers(world, "lacks", key, need):
        assert codes == {need.refusal}, f"v{version}"
    assert world.node.image.topics_by_name.keys() == {THERE}
    await give(world, "has", [(need.resource, need.name, need.operation)])
    for version, codes in await answers(world, "has", key, need):
        assert not codes & REFUSALS, f"v{version}"
        assert codes or key is ApiKey.LIST_PARTITION_REASSIGNMENTS, f"v{version}"
