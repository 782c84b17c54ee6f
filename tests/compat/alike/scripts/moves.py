"""Topics on chosen nodes, and reassignments that stand still until they are let go on."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat.alike.session import Session
from tests.server.beside_kafka.talk import batch

NODES: Final = (1, 2, 3)
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
FILLING: Final = 40
"""Batches that a replica has to copy: at one in a fetch and a byte in a second, it stays behind."""


def at(node: int) -> str:
    """The client that talks to this node."""
    return f"c@{node}"


async def placed(session: Session, name: str, replicas: Iterable[int], *, real: str = "") -> bytes:
    """A topic of one partition on these nodes, the first of which leads. Returns its id."""
    topic = CreatableTopic(
        name=real or session.name(name),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(0, list(replicas))],
    )
    reply = await session.get(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), client=at(1))
    assert not reply.topics[0].error_code, reply
    topic_id = bytes(reply.topics[0].topic_id)
    session.know(topic_id, f"id of {name}")
    await known_everywhere(session, name, real=real)
    await leads(session, real or session.name(name), next(iter(replicas)))
    return topic_id


async def known_everywhere(session: Session, name: str, *, real: str = "") -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=real or session.name(name))])
    for node in NODES:
        await session.until(asked, lambda reply: not reply.topics[0].error_code, client=at(node))


async def unknown_everywhere(session: Session, name: str) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=session.name(name))])
    for node in NODES:
        await session.until(asked, lambda reply: reply.topics[0].error_code != 0, client=at(node))


async def leads(session: Session, real: str, node: int) -> None:
    """A broker knows of a topic before it leads it: wait until it does."""
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic(real, [ListOffsetsPartition(0, -1, -1)])])
    await session.until(asked, lambda reply: not reply.topics[0].partitions[0].error_code, client=at(node))


async def begin_move(session: Session, name: str, replicas: Sequence[int]) -> None:
    """Begin a reassignment, and hold it: its leader sends nothing more until `end_move`."""
    real = session.name(name)
    await throttle(session, real, on=True)
    filling = [TopicProduceData(real, bytes(16), [PartitionProduceData(0, batch(1, size=2_000))])]
    for _ in range(FILLING):
        await session.get(ProduceRequest(None, 1, 5_000, filling), 12, client=at(1))
    await reassign(session, real, replicas)
    await session.until(
        ListPartitionReassignmentsRequest(), lambda reply: len(reply.topics) == 1, client=at(1)
    )
    newcomer = replicas[-1]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=real)])
    for node in NODES:
        await session.until(
            asked,
            lambda reply: newcomer in reply.topics[0].partitions[0].replica_nodes,
            client=at(node),
        )
    await session.pass_time(500)  # the newcomer makes its log


async def end_move(session: Session, name: str, replicas: Sequence[int]) -> None:
    """Let it go on; returns when all nodes know that the replicas have moved."""
    real = session.name(name)
    await throttle(session, real, on=False)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=real)])

    def has_moved(reply: Any) -> bool:
        partition = reply.topics[0].partitions[0]
        return list(partition.replica_nodes) == list(replicas) and partition.leader_id in replicas

    for node in NODES:
        await session.until(asked, has_moved, client=at(node), tries=2_000)
    await leads(session, real, replicas[0])
    await session.pass_time(500)  # the one that left drops its log


async def reassign(session: Session, real: str, replicas: Sequence[int]) -> None:
    wish = ReassignableTopic(real, [ReassignablePartition(0, list(replicas))])
    reply = await session.get(AlterPartitionReassignmentsRequest(topics=[wish]), client=at(1))
    assert not reply.responses[0].partitions[0].error_code, reply


async def throttle(session: Session, real: str, *, on: bool) -> None:
    operation, value = (SET, "1") if on else (DELETE, None)
    rate = [AlterableConfig("leader.replication.throttled.rate", operation, value)]
    resources = [AlterConfigsResource(BROKER, "", rate)]
    everyone = [AlterableConfig("leader.replication.throttled.replicas", operation, value and "*")]
    resources.append(AlterConfigsResource(TOPIC, real, everyone))
    reply = await session.get(IncrementalAlterConfigsRequest(resources), client=at(1))
    assert not any(each.error_code for each in reply.responses), reply
    await session.pass_time(500)  # until all have heard of it
