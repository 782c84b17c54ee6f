"""Share groups (KIP-932): heartbeats right and wrong, what is handed out, acknowledged, refused and told."""

from typing import Any

from headrace.base.ids import uuid_text
from headrace.records.batch import Record, build_batch
from headrace.wire.schemas import share_acknowledge, share_fetch
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schemas.share_acknowledge import ShareAcknowledgeRequest
from headrace.wire.schemas.share_fetch import ShareFetchRequest
from headrace.wire.schemas.share_group_describe import ShareGroupDescribeRequest
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compat.alike.scripts.states import groups_ready
from tests.compat.alike.session import UNKNOWN_ID, Session

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP_RESOURCE = 32
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
OTHER = "AAAAAAAAAAAAAAAAAAAAAg"
Batches = list[tuple[int, int, list[int]]]


async def script(session: Session) -> None:
    await groups_ready(session)
    topic_id = await session.topic("topic", 1)
    key = f"{session.name('group')}:{uuid_text(topic_id)}:0"
    await session.until(
        FindCoordinatorRequest("", 2, [key]), lambda reply: not reply.coordinators[0].error_code
    )
    await heartbeats(session)
    await records(session, topic_id)
    await offsets(session)


async def heartbeats(session: Session) -> None:
    group, names = session.name("wrong"), [session.name("none")]
    wrong = {
        "no member": ShareGroupHeartbeatRequest(group, "", 0, None, names),
        "no group": ShareGroupHeartbeatRequest("", MEMBER, 0, None, names),
        "no topics": ShareGroupHeartbeatRequest(group, MEMBER, 0),
        "empty topics": ShareGroupHeartbeatRequest(group, MEMBER, 0, None, []),
        "an empty rack": ShareGroupHeartbeatRequest(group, MEMBER, 0, "", names),
        "epoch -2": ShareGroupHeartbeatRequest(group, MEMBER, -2),
        "leaves a group that is not there": ShareGroupHeartbeatRequest(group, MEMBER, -1),
        "a group that is not there": ShareGroupHeartbeatRequest(group, MEMBER, 3),
    }
    for label, request in wrong.items():
        await session.ask(label, request)
    await session.get(ShareGroupHeartbeatRequest(group, MEMBER, 0, None, names))
    await session.ask("a member that is not there", ShareGroupHeartbeatRequest(group, OTHER, 1))
    await session.ask("leaves without a seat", ShareGroupHeartbeatRequest(group, OTHER, -1))
    await session.ask("an epoch too high", ShareGroupHeartbeatRequest(group, MEMBER, 99))
    await session.ask("leaves", ShareGroupHeartbeatRequest(group, MEMBER, -1))
    await session.ask("unknown", ShareGroupDescribeRequest([session.name("nothing"), ""]))


def fetch(
    session: Session, epoch: int, topic_id: bytes, batches: Batches = (), member: str = MEMBER, **fields: Any
) -> ShareFetchRequest:
    partition = share_fetch.FetchPartition(0, [share_fetch.AcknowledgementBatch(*each) for each in batches])
    limits = {"max_wait_ms": 200, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 5, "batch_size": 5}
    return ShareFetchRequest(
        session.name("group"),
        member,
        epoch,
        **limits | fields,
        topics=[share_fetch.FetchTopic(topic_id, [partition])],
    )


def acknowledge(
    session: Session, epoch: int, topic_id: bytes, batches: Batches, member: str = MEMBER
) -> ShareAcknowledgeRequest:
    partition = share_acknowledge.AcknowledgePartition(
        0, [share_acknowledge.AcknowledgementBatch(*each) for each in batches]
    )
    topics = [share_acknowledge.AcknowledgeTopic(topic_id, [partition])]
    return ShareAcknowledgeRequest(session.name("group"), member, epoch, topics=topics)


async def records(session: Session, topic_id: bytes) -> None:
    group = session.name("group")
    for _ in range(3):
        batch = build_batch([Record(number, 1_700_000_000_000, None, b"value") for number in range(5)])
        data = TopicProduceData(session.name("topic"), partition_data=[PartitionProduceData(0, batch)])
        await session.get(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
    resource = AlterConfigsResource(
        GROUP_RESOURCE, group, [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
    )
    await session.get(IncrementalAlterConfigsRequest([resource]))
    await session.until(
        ShareGroupHeartbeatRequest(group, MEMBER, 0, None, [session.name("topic")]),
        lambda reply: reply.assignment is not None and bool(reply.assignment.topic_partitions),
    )
    await session.ask("share", ListGroupsRequest([], ["share"]))
    await session.ask("no session", fetch(session, 3, topic_id))
    await session.ask("no session to end", fetch(session, -1, topic_id))
    await session.ask("answers first", fetch(session, 0, topic_id, [(0, 0, [ACCEPT])]))
    await session.until(
        fetch(session, 0, topic_id), lambda reply: bool(reply.responses) and not reply.error_code
    )
    await session.ask("another epoch", fetch(session, 9, topic_id))
    await session.ask("answers with epoch 0", acknowledge(session, 0, topic_id, [(0, 0, [ACCEPT])]))
    await session.ask("by another", acknowledge(session, 1, topic_id, [(0, 0, [ACCEPT])], OTHER))
    wrong: dict[str, Batches] = {
        "backwards": [(1, 0, [ACCEPT])],
        "too few types": [(0, 3, [ACCEPT, ACCEPT])],
        "type 9": [(0, 0, [9])],
        "past the end": [(0, 99, [ACCEPT])],
        "accept, release, reject": [(0, 4, [ACCEPT, RELEASE, REJECT, RELEASE, ACCEPT])],
        "again": [(4, 4, [ACCEPT])],
    }
    for epoch, (label, batches) in enumerate(wrong.items(), 1):
        await session.ask(label, acknowledge(session, epoch, topic_id, batches))
    last = len(wrong)
    await session.ask("the released ones", fetch(session, last + 1, topic_id, max_records=1))
    await session.ask("answers on the way", fetch(session, last + 2, topic_id, [(1, 1, [ACCEPT])]))
    await session.ask("an unknown topic", fetch(session, last + 3, UNKNOWN_ID))
    await session.ask("the end", fetch(session, -1, topic_id))


async def offsets(session: Session) -> None:
    group, topic = session.name("group"), session.name("topic")

    def describe(name: str, *topics: str) -> DescribeShareGroupOffsetsRequest:
        asked = [DescribeShareGroupOffsetsRequestTopic(each, [0, 3]) for each in topics] if topics else None
        return DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, asked)])

    def alter(name: str, to: int) -> AlterShareGroupOffsetsRequest:
        partitions = [AlterShareGroupOffsetsRequestPartition(0, to)]
        return AlterShareGroupOffsetsRequest(name, [AlterShareGroupOffsetsRequestTopic(topic, partitions)])

    def delete(name: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(
            name, [DeleteShareGroupOffsetsRequestTopic(each) for each in topics]
        )

    await session.every("nothing", lambda version: describe(session.name("nothing")))
    await session.every("named", lambda version: describe(session.name("nothing"), topic, "none"))
    await session.ask("somebody is in it", alter(group, 3))
    await session.ask("somebody is in it", delete(group, topic))
    await session.get(ShareGroupHeartbeatRequest(group, MEMBER, -1))
    await session.ask("nobody is in it", alter(group, 3))
    await session.every("after that", lambda version: describe(group))
    await session.ask("no group", delete(session.name("nothing"), topic))
    await session.ask("nobody is in it", delete(group, topic, session.name("none")))
    await session.every("after the deletion", lambda version: describe(group))
