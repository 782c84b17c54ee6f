"""Groups in every state there is, and coordinators that are ready."""

from dataclasses import dataclass
from typing import Any

from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from tests.compat.alike.session import Session
from tests.server.group_requests import commit, join, leave, subscription, sync

BY_NAME = 9


@dataclass
class Group:
    """A group as one who made it knows it."""

    state: str
    id: str
    member: str = ""
    generation: int = -1
    instance: str | None = None


async def groups_ready(session: Session) -> None:
    """The first question has the internal topic made, which Kafka does not wait for."""
    await session.until(
        FindCoordinatorRequest(coordinator_keys=["any"]), lambda reply: not reply.coordinators[0].error_code
    )
    probe = commit(session.name("probe"), session.name("topic"), {})
    await session.until(join(session.name("probe"), "nobody"), lambda reply: reply.error_code == 25)
    await session.get(probe, BY_NAME)


async def transactions_ready(session: Session) -> None:
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["any"])
    await session.until(find, lambda reply: not reply.coordinators[0].error_code)
    probe = InitProducerIdRequest(session.name("probe"), 60_000)
    await session.until(probe, lambda reply: not reply.error_code)


async def seated(session: Session, name: str, client: str = "c", **options: Any) -> Group:
    """A group of one member that has joined and was not assigned anything yet."""
    group = session.name(name)
    options.setdefault("protocols", {"range": subscription(session.name("topic"))})
    reply = await session.get(join(group, **options), client=client)
    if reply.error_code:
        reply = await session.get(join(group, reply.member_id, **options), client=client)
    session.know(reply.member_id, f"member of {name}")
    return Group(name, group, reply.member_id, reply.generation_id, options.get("instance"))


async def stable(session: Session, name: str, client: str = "c", **options: Any) -> Group:
    """A stable group of one member, which owns b"all"."""
    group = await seated(session, name, client, **options)
    share = {group.member: b"all"}
    await session.get(
        sync(group.id, group.member, group.generation, share, protocol=None, protocol_type=None)
    )
    return group


async def every_state(session: Session, suffix: str = "") -> list[Group]:
    """One group in each state that a single member can bring it to. There must be a topic "topic"."""
    topic = session.name("topic")
    groups = [Group("none", session.name(f"none{suffix}"))]
    offsets = Group("offsets", session.name(f"offsets{suffix}"))
    await session.get(commit(offsets.id, topic, {0: 5}), BY_NAME)
    given = await session.get(join(session.name(f"given{suffix}")))
    session.know(given.member_id, "member of given")
    groups += [offsets, Group("given", session.name(f"given{suffix}"), given.member_id)]
    groups.append(await seated(session, f"completing{suffix}"))
    groups.append(await stable(session, f"stable{suffix}"))
    groups.append(await stable(session, f"static{suffix}", instance="i"))
    groups.append(await stable(session, f"connect{suffix}", protocol_type="connect"))
    empty = await stable(session, f"empty{suffix}")
    await session.get(leave(empty.id, empty.member))
    groups += [empty, await consumer(session, f"consumer{suffix}")]
    groups.append(await consumer(session, f"seat{suffix}", instance="i"))
    gone = await consumer(session, f"gone{suffix}")
    await session.get(ConsumerGroupHeartbeatRequest(gone.id, gone.member, -1))
    return [*groups, gone]


async def consumer(session: Session, name: str, instance: str | None = None) -> Group:
    """A group of the KIP-848 protocol with one member that owns everything."""
    group, topic = session.name(name), session.name("topic")
    first = ConsumerGroupHeartbeatRequest(
        group,
        f"m-{name}",
        instance_id=instance,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    reply = await session.get(first)
    assert reply.error_code == 0, reply
    return Group(name, group, reply.member_id, reply.member_epoch, instance)
