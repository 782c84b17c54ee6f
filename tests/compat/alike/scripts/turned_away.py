"""Coordinators on one node each: what the other nodes answer to those who come to the wrong one."""

from typing import Any

from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.describe_transactions import DescribeTransactionsRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.compat.alike.scripts.moves import NODES, at, placed
from tests.compat.alike.session import Session
from tests.server.group_requests import commit, fetch_offsets, heartbeat, join, leave, sync
from tests.server.txn_requests import add, add_offsets, ask_about, commit_offsets, end, init

GROUPS_AT, TRANSACTIONS_AT = 1, 2


async def turned_away(session: Session) -> None:
    await placed(session, "offsets", (GROUPS_AT,), real="__consumer_offsets")
    await placed(session, "transactions", (TRANSACTIONS_AT,), real="__transaction_state")
    topic_id = await placed(session, "topic", (1, 2, 3))
    group, topic = session.name("g"), session.name("topic")
    for key_type in (0, 1):
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[group])
        for node in NODES:
            await session.until(asked, lambda reply: not reply.coordinators[0].error_code, client=at(node))
            await session.ask(f"who coordinates {key_type}, at {node}", asked, client=at(node))
    await session.until(join(group, "nobody"), lambda reply: reply.error_code == 25, client=at(GROUPS_AT))
    await groups(session, group, topic, topic_id)
    who = (session.name("t"), 5, 0)
    await session.until(init(who[0]), lambda reply: not reply.error_code, client=at(TRANSACTIONS_AT))
    await transactions(session, who, group, topic)


async def groups(session: Session, group: str, topic: str, topic_id: bytes) -> None:
    for node in set(NODES) - {GROUPS_AT}:

        async def every(message: Any, client: str = at(node)) -> None:
            await session.every(f"a group elsewhere, {client}", lambda _: message, client=client)

        for message in (
            join(group),
            sync(group, "m", 1),
            heartbeat(group, "m", 1),
            commit(group, topic, {0: 1}, topic_id=topic_id),
            DescribeGroupsRequest([group]),
            ListGroupsRequest(),
            DeleteGroupsRequest([group]),
            ConsumerGroupHeartbeatRequest(
                group, "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=[topic], topic_partitions=[]
            ),
            ConsumerGroupDescribeRequest([group]),
            OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]),
            commit_offsets(("t", 5, 0), group, topic, {0: 1}),
        ):
            await every(message)
        for version in (3, 5):
            await session.ask(f"a group elsewhere, {node}", leave(group, "m"), version, client=at(node))
        for version in range(1, 11):
            asked = fetch_offsets(version, group, topic, topic_id=topic_id)
            await session.ask(f"a group elsewhere, {node}", asked, version, client=at(node))


async def transactions(session: Session, who: tuple[str, int, int], group: str, topic: str) -> None:
    for node in set(NODES) - {TRANSACTIONS_AT}:
        label, client = f"a transaction elsewhere, {node}", at(node)
        for message in (
            init(who[0]),
            end(who),
            add_offsets(who, group),
            DescribeTransactionsRequest([who[0]]),
            ListTransactionsRequest(),
        ):
            await session.every(label, lambda _, message=message: message, client=client)
        for version in (0, 3):
            await session.ask(label, add(who, **{topic: [0]}), version, client=client)
        await session.ask(label, ask_about(who, **{topic: [0]}), 5, client=client)
