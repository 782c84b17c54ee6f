"""The cluster: nodes, features, quorum, folders, leaders, moves of replicas, and what is not configured."""

from itertools import product
from typing import Any

from headrace.wire.apis import API
from headrace.wire.schemas.alter_client_quotas import AlterClientQuotasRequest
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.schemas.describe_acls import DescribeAclsRequest
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from headrace.wire.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.wire.schemas.sasl_handshake import SaslHandshakeRequest
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.compat.alike.session import Session, versions

UNSERVED = (36, 38, 39, 40, 41, 48, 49, 50, 51, 76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92)


async def script(session: Session) -> None:
    await session.topic("topic", 3)
    await about(session)
    await features(session)
    await quorum(session)
    await folders(session)
    await leaders(session)
    await moves(session)
    await security(session)
    await plain_requests(session)


async def about(session: Session) -> None:
    for version in versions("ApiVersions"):
        for name, number in (("a", "1"), ("", "1"), ("a b", "1"), ("a", ""), ("-a", "1"), ("a", "1_2")):
            reply = await session.get(ApiVersionsRequest(name, number), version, client=f"{name}{number}")
            session.write(f"{name!r} {number!r}, ApiVersions v{version}", {"error_code": reply.error_code})
        reply = await session.get(ApiVersionsRequest("a", "1"), version)
        told = {each.api_key: [each.min_version, each.max_version] for each in reply.api_keys}
        for key in API:
            session.write(f"key {key}, ApiVersions v{version}", {"versions": told.get(key)})
        reply.api_keys = []
        session.write(f"ApiVersions v{version}", session.names.plain(reply, version))
    for operations, kind, fenced in product((False, True), (0, 1, 2, 3), (False, True)):
        await session.every(
            f"{operations}, {kind}, {fenced}",
            lambda version, fields=(operations, kind, fenced): DescribeClusterRequest(*fields),
        )
    for broker in (7, -1):
        await session.every(f"broker {broker}", lambda version, who=broker: UnregisterBrokerRequest(who))


async def features(session: Session) -> None:
    async def ask(label: str, *rows: tuple[str, int, int], only: bool = True) -> None:
        for version in versions("UpdateFeatures"):
            keys = [FeatureUpdateKey(name, level, kind > 1, kind) for name, level, kind in rows]
            if version or not only:
                await session.ask(label, UpdateFeaturesRequest(5_000, keys, only), version)

    await ask("none")
    await ask("unknown", ("no.such", 1, 1), only=False)
    await ask("no name", ("", 1, 1), only=False)
    for name, level in (("metadata.version", 1), ("metadata.version", 99), ("metadata.version", 30)):
        for kind in (0, 1, 2, 3, 9):
            await ask(f"{name} {level} {kind}", (name, level, kind))
    for name in ("transaction.version", "group.version", "kraft.version"):
        for level, kind in product((0, 1, 2, 9), (1, 2, 3)):
            await ask(f"{name} {level} {kind}", (name, level, kind))
    await ask("twice", ("group.version", 1, 1), ("group.version", 0, 2))
    await ask("too far, really", ("metadata.version", 99, 1), only=False)


async def quorum(session: Session) -> None:
    for version in versions("DescribeQuorum"):
        for name, partitions in (
            ("__cluster_metadata", [0]),
            ("__cluster_metadata", [1]),
            ("x", [0]),
            ("", []),
        ):
            rows = [RequestTopicData(name, [RequestPartitionData(each) for each in partitions])]
            await session.ask(f"{name} {partitions}", DescribeQuorumRequest(rows), version)
        await session.ask("none", DescribeQuorumRequest([]), version)
        twice = [RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])] * 2
        await session.ask("twice", DescribeQuorumRequest(twice), version)


async def folders(session: Session) -> None:
    topic = session.name("topic")
    for version in versions("DescribeLogDirs"):
        for label, rows in {
            "some": [(topic, [0, 2, 9]), (session.name("none"), [0])],
            "no partitions": [(topic, [])],
            "nothing": [],
        }.items():
            request = DescribeLogDirsRequest([DescribableLogDirTopic(*each) for each in rows])
            await session.ask(label, request, version)
    for version in versions("AlterReplicaLogDirs"):
        for path in ("/no/such/folder", "relative", ""):
            rows = [
                AlterReplicaLogDirTopic(topic, [0, 9]),
                AlterReplicaLogDirTopic(session.name("none"), [0]),
            ]
            request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, rows)])
            await session.ask(f"to {path!r}", request, version)
        await session.ask("nothing", AlterReplicaLogDirsRequest([]), version)


async def leaders(session: Session) -> None:
    topic, none = session.name("topic"), session.name("none")
    for version, kind in product(versions("ElectLeaders"), (0, 1, 2)):
        for label, rows in {
            "some": [TopicPartitions(topic, [0, 1, 9]), TopicPartitions(none, [0])],
            "none": [],
            "no partitions": [TopicPartitions(topic, [])],
            "twice": [TopicPartitions(topic, [0, 0])],
        }.items():
            await session.ask(f"{label}, kind {kind}", ElectLeadersRequest(kind, rows, 5_000), version)


async def moves(session: Session) -> None:
    topic, none = session.name("topic"), session.name("none")

    async def ask(label: str, *rows: tuple[str, int, Any], version: int, change: bool = True) -> None:
        topics = [ReassignableTopic(name, [ReassignablePartition(at, to)]) for name, at, to in rows]
        request = AlterPartitionReassignmentsRequest(5_000, change, topics)
        await session.ask(label, request, version)

    for version in versions("AlterPartitionReassignments"):
        await ask("nothing", version=version)
        for label, to in {
            "cancel": None,
            "nobody": [],
            "where it is": [1],
            "twice": [1, 1],
            "a stranger": [7],
            "one and a stranger": [1, 7],
            "a negative one": [-1],
        }.items():
            for change in (True, False) if version else (True,):
                await ask(f"{label}, {change}", (topic, 0, to), version=version, change=change)
        await ask("unknown", (none, 0, [1]), (topic, 9, [1]), version=version)
        await ask("cancel unknown", (none, 0, None), (topic, 9, None), version=version)
        await ask("no name", ("", 0, [1]), version=version)
    for label, topics in {
        "all": None,
        "none": [],
        "some": [
            ListPartitionReassignmentsTopics(topic, [0, 9]),
            ListPartitionReassignmentsTopics(none, [0]),
        ],
    }.items():
        await session.ask(label, ListPartitionReassignmentsRequest(5_000, topics))


async def security(session: Session) -> None:
    """Nothing of it is configured."""
    for kind, pattern in product((0, 1, 2, 4, 99), (1, 3)):
        describe = DescribeAclsRequest(kind, None, pattern, None, None, 1, 1)
        await session.every(f"kind {kind}, pattern {pattern}", lambda version, what=describe: what)
        creation = AclCreation(kind, "x", pattern, "User:a", "*", 3, 3)
        await session.every(
            f"kind {kind}, pattern {pattern}", lambda version, what=creation: CreateAclsRequest([what])
        )
        row = DeleteAclsFilter(kind, None, pattern, None, None, 1, 1)
        await session.every(
            f"kind {kind}, pattern {pattern}", lambda version, what=row: DeleteAclsRequest([what])
        )
    await session.every("no creations", lambda version: CreateAclsRequest([]))
    await session.every("no filters", lambda version: DeleteAclsRequest([]))
    for mechanism in ("PLAIN", "", "GSSAPI"):
        for version in versions("SaslHandshake"):
            request = SaslHandshakeRequest(mechanism)
            await session.ask(
                f"mechanism {mechanism!r}", request, version, client=f"sasl{mechanism}{version}"
            )


async def plain_requests(session: Session) -> None:
    """What is not served here, in its plainest form."""
    for key in UNSERVED:
        api = API[key]
        for version in range(api.min_version, api.advertised_max + 1):
            request = AlterClientQuotasRequest([], True) if key == 49 else api.request()
            await session.ask("plain", request, version, client=f"{key}-{version}")
