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
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
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
from tests.compat.alike.scripts.states import BY_NAME, groups_ready
from tests.compat.alike.session import UNKNOWN_ID, Session
from tests.server.group_requests import commit, join

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
RECORD_LIMIT = 1
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
    await other_kinds(session)
    await edges(session)
    await ends(session)
    await renewals(session, topic_id)
    await suspects(session)


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


async def fill(session: Session, sizes: list[int], topic: str = "topic") -> None:
    """Batches of so many records, and a group that begins with the first."""
    for size in sizes:
        batch = build_batch([Record(number, 1_700_000_000_000, None, b"value") for number in range(size)])
        data = TopicProduceData(session.name(topic), partition_data=[PartitionProduceData(0, batch)])
        await session.get(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
    earliest = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(GROUP_RESOURCE, session.name("group"), [earliest])
    await session.get(IncrementalAlterConfigsRequest([resource]))


async def records(session: Session, topic_id: bytes) -> None:
    group = session.name("group")
    await fill(session, [5, 5, 5])
    await session.until(
        ShareGroupHeartbeatRequest(group, MEMBER, 0, None, [session.name("topic")]),
        lambda reply: reply.assignment is not None and bool(reply.assignment.topic_partitions),
    )
    await session.ask("share", ListGroupsRequest([], ["share"]))
    for shows_operations in (False, True):
        await session.ask(
            f"a member, operations {shows_operations}", ShareGroupDescribeRequest([group], shows_operations)
        )
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


def describe(name: str, *topics: str) -> DescribeShareGroupOffsetsRequest:
    asked = [DescribeShareGroupOffsetsRequestTopic(each, [0, 3]) for each in topics] if topics else None
    return DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, asked)])


def alter_to(name: str, topic: str, offsets: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    partitions = [AlterShareGroupOffsetsRequestPartition(*each) for each in offsets.items()]
    return AlterShareGroupOffsetsRequest(name, [AlterShareGroupOffsetsRequestTopic(topic, partitions)])


def delete(name: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        name, [DeleteShareGroupOffsetsRequestTopic(each) for each in topics]
    )


async def offsets(session: Session) -> None:
    group, topic = session.name("group"), session.name("topic")

    def alter(name: str, to: int) -> AlterShareGroupOffsetsRequest:
        return alter_to(name, topic, {0: to})

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


async def other_kinds(session: Session) -> None:
    """Share requests about a group of another kind, and requests of other kinds about a share group."""
    topic, classic, share = session.name("topic"), session.name("classic"), session.name("group")
    await session.get(commit(classic, topic, {0: 5}), BY_NAME)
    about = {
        "ShareGroupHeartbeat": ShareGroupHeartbeatRequest(classic, MEMBER, 0, None, [topic]),
        "ShareGroupDescribe": ShareGroupDescribeRequest([classic]),
        "DescribeShareGroupOffsets": describe(classic),
        "DeleteShareGroupOffsets": delete(classic, topic),
    }
    for request in about.values():
        await session.ask("a classic group", request)
    beat = ConsumerGroupHeartbeatRequest(
        group_id=share, member_id=MEMBER, rebalance_timeout_ms=5000, subscribed_topic_names=[topic]
    )
    beat.topic_partitions = []
    await session.ask("a share group", beat)
    await session.ask("a share group", ConsumerGroupDescribeRequest([share]))
    await session.ask("a share group", DescribeGroupsRequest([share]))
    await session.ask("a share group", join(share, ""))


async def edges(session: Session) -> None:
    """Offsets that are set and forgotten of what is not there, or to where nothing is."""
    group, topic, none = session.name("edges"), session.name("topic"), session.name("none")
    await session.ask("a group that is not there", alter_to(group, topic, {0: 2}))
    await session.ask("a partition that is not there", alter_to(group, topic, {0: 3, 7: 0}))
    await session.ask("a topic that is not there", alter_to(group, none, {0: 0}))
    await session.ask("no partitions", alter_to(group, topic, {}))
    await session.ask("no topics", AlterShareGroupOffsetsRequest(group, []))
    await session.ask("made", ShareGroupDescribeRequest([group]))
    for offset in (-1, -2, 99):
        await session.ask(f"to {offset}", alter_to(group, topic, {0: offset}))
        await session.every(f"stands at {offset}", lambda version: describe(group))
    await session.ask("no topics", DeleteShareGroupOffsetsRequest(group, []))
    await session.ask("twice", delete(group, topic, topic))
    await session.ask("again", delete(group, topic))
    many = [DescribeShareGroupOffsetsRequestGroup(each, None) for each in (group, session.name("nothing"))]
    await session.ask("many", DescribeShareGroupOffsetsRequest(many))
    await session.ask("none", DescribeShareGroupOffsetsRequest([]))


async def ends(session: Session) -> None:
    """Deleting groups: with a member, without, and again."""
    group, names = session.name("ends"), [session.name("topic")]
    await session.get(ShareGroupHeartbeatRequest(group, MEMBER, 0, None, names))
    await session.ask("a member", DeleteGroupsRequest([group]))
    await session.get(ShareGroupHeartbeatRequest(group, MEMBER, -1))
    await session.ask("nobody", DeleteGroupsRequest([group, session.name("edges")]))
    await session.ask("again", DeleteGroupsRequest([group]))
    await session.ask("deleted", ShareGroupDescribeRequest([group]))


async def renewals(session: Session, topic_id: bytes) -> None:
    """Locks that are made longer (KIP-1222), and what that does not go with."""
    group, names = session.name("group"), [session.name("topic")]
    await session.until(
        ShareGroupHeartbeatRequest(group, MEMBER, 0, None, names),
        lambda reply: reply.assignment is not None and bool(reply.assignment.topic_partitions),
    )
    await session.until(
        fetch(session, 0, topic_id), lambda reply: bool(reply.responses) and not reply.error_code
    )
    said = acknowledge(session, 1, topic_id, [(0, 0, [RENEW])])
    said.is_renew_ack = True
    await session.ask("a renewal", said)
    asked = fetch(session, 2, topic_id, [(0, 0, [RENEW])], is_renew_ack=True)
    await session.ask("a renewal that asks for records", asked)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    fields = nothing | {"is_renew_ack": True}
    await session.ask("a renewal on the way", fetch(session, 2, topic_id, [(1, 1, [RENEW])], **fields))
    await session.ask(
        "a renewal and an answer", fetch(session, 3, topic_id, [(1, 2, [RENEW, ACCEPT])], **fields)
    )
    await session.ask("an answer to what is renewed", acknowledge(session, 4, topic_id, [(0, 1, [ACCEPT])]))
    await session.ask("a renewal that is not said", acknowledge(session, 5, topic_id, [(3, 3, [RENEW])]))


async def suspects(session: Session) -> None:
    """Records that are given back again and again: how many are handed out together then."""
    group, topic_id = session.name("group"), await session.topic("suspects", 1)
    await fill(session, [6], "suspects")
    await session.until(
        ShareGroupHeartbeatRequest(group, OTHER, 0, None, [session.name("suspects")]),
        lambda reply: reply.assignment is not None and bool(reply.assignment.topic_partitions),
    )
    limits: dict[str, Any] = {"max_records": 6, "batch_size": 6, "share_acquire_mode": RECORD_LIMIT}
    reply = await session.until(
        fetch(session, 0, topic_id, member=OTHER, **limits), lambda reply: bool(_acquired(reply))
    )
    for epoch in range(1, 15, 2):
        released = [(first, last, [RELEASE]) for first, last in _acquired(reply)]
        await session.get(acknowledge(session, epoch, topic_id, released, OTHER))
        label = f"after {(epoch + 1) // 2} deliveries"
        reply = await session.ask(label, fetch(session, epoch + 1, topic_id, member=OTHER, **limits))


def _acquired(reply: Any) -> list[tuple[int, int]]:
    return [
        (each.first_offset, each.last_offset)
        for topic in reply.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]
