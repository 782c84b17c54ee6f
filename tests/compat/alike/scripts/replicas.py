"""Three nodes: what the leader, a follower and a node without a replica answer, with one, two and three
replicas; before, during and after a reassignment and a deletion; and what coordinators of others answer.
"""

from collections.abc import Iterable
from typing import Any

from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compat.alike.scripts.moves import (
    FILLING,
    NODES,
    at,
    begin_move,
    end_move,
    known_everywhere,
    placed,
    unknown_everywhere,
)
from tests.compat.alike.scripts.producing import produce
from tests.compat.alike.scripts.turned_away import turned_away
from tests.compat.alike.session import UNKNOWN_ID, Session, versions
from tests.server.beside_kafka.delete_records import delete
from tests.server.beside_kafka.describe_producers import describe
from tests.server.beside_kafka.talk import batch
from tests.server.txn_requests import markers

HELD = {"one": (1,), "two": (1, 2), "three": (1, 2, 3)}
FEW = {"Fetch": (4, 11, 12, 13, 18), "Produce": (3, 9, 10, 13), "ListOffsets": (1, 11)}
"""The versions that are asked again and again, after all were asked once."""
RECORDS = 5
LONG_MS = 20_000


async def script(session: Session) -> None:
    await turned_away(session)
    ids = {name: await filled(session, name, replicas) for name, replicas in HELD.items()}
    for name, topic_id in ids.items():
        await everywhere(session, "before", name, topic_id, whole=True)
    await unknown(session, ids["two"])
    await internal(session)
    await moved(session)
    await deleted(session, ids)


async def filled(session: Session, name: str, replicas: Iterable[int]) -> bytes:
    """A topic whose replicas all have some records of a producer, and have heard that the others do."""
    topic_id = await placed(session, name, replicas)
    leader = next(iter(replicas))
    data = batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)
    await session.get(produce(session, name, topic_id, (0, data)), client=at(leader))
    for node in replicas:
        await replicated(session, name, topic_id, node)
    return topic_id


async def replicated(session: Session, name: str, topic_id: bytes, node: int, count: int = RECORDS) -> None:
    """Wait until a node knows that all in-sync replicas have the records."""

    def has_all(reply: Any) -> bool:
        data = reply.responses[0].partitions[0]
        return not data.error_code and data.high_watermark >= count

    await session.until(fetch(session, name, topic_id), has_all, client=at(node))


# --- the requests ---


def fetch(session: Session, name: str, topic_id: bytes, index: int = 0, **more: Any) -> FetchRequest:
    wishes = {"fetch_offset": 0, "partition_max_bytes": 10_000} | {
        each: more.pop(each) for each in list(more) if each in FetchPartition.__slots__
    }
    usual: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100_000, "session_epoch": -1}
    wanted = [FetchTopic(session.name(name), topic_id, [FetchPartition(index, **wishes)])]
    return FetchRequest(**usual | more, topics=wanted)


def list_offsets(session: Session, name: str, index: int, timestamp: int, epoch: int = -1) -> Any:
    wish = ListOffsetsPartition(index, epoch, timestamp)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(session.name(name), [wish])])


def epoch_end(session: Session, name: str, index: int, current: int = -1, replica: int = -1) -> Any:
    wish = OffsetForLeaderPartition(index, current, 0)
    return OffsetForLeaderEpochRequest(replica, [OffsetForLeaderTopic(session.name(name), [wish])])


async def everywhere(
    session: Session,
    when: str,
    name: str,
    topic_id: bytes,
    *,
    index: int = 0,
    leader: int = 1,
    whole: bool = False,
    nodes: Iterable[int] = NODES,
    newcomer: int = 0,
) -> None:
    """Ask each node about a partition: in every version, or in few. What a newcomer has by now, nobody can
    tell: it is not asked.
    """
    for node in nodes:
        label = f"{when}, {name}-{index} at {node}"
        client = at(node)
        for version in versions("Fetch") if whole else FEW["Fetch"]:
            if node == newcomer and version > 4:
                continue
            for epoch in (-1, 0, 1, 9):
                request = fetch(session, name, topic_id, index, current_leader_epoch=epoch)
                await session.ask(f"{label}, epoch {epoch}", request, version, client=client)
        for version in versions("ListOffsets") if whole else FEW["ListOffsets"]:
            for place in (-1, -2, -3) if whole else (-1,):
                request = list_offsets(session, name, index, place)
                await session.ask(f"{label}, {place}", request, version, client=client)
        await session.ask(f"{label}, epoch 9", list_offsets(session, name, index, -1, 9), client=client)
        for current in (-1, 0, 9):
            for version in versions("OffsetForLeaderEpoch"):
                request = epoch_end(session, name, index, current)
                await session.ask(f"{label}, epoch {current}", request, version, client=client)
        await session.every(label, lambda _: delete(session.name(name), (index, 0)), client=client)
        if node != leader:
            await writes(session, label, name, topic_id, index, node, whole=whole)
        if node != newcomer:
            await session.ask(label, describe(session.name(name), index), client=client)
            await files(session, label, name, index, node)


async def writes(
    session: Session, label: str, name: str, topic_id: bytes, index: int, node: int, *, whole: bool
) -> None:
    """What only a leader takes."""
    for version in versions("Produce") if whole else FEW["Produce"]:
        for acks in (-1, 1, 2):
            request = produce(session, name, topic_id, (index, batch(1)), acks=acks)
            await session.ask(f"{label}, acks {acks}", request, version, client=at(node))
    ended = markers(9, 0, session.name(name), index)
    await session.every(label, lambda _: ended, client=at(node))


async def files(session: Session, label: str, name: str, index: int, node: int) -> None:
    asked = DescribeLogDirsRequest([DescribableLogDirTopic(session.name(name), [index])])
    await session.ask(label, asked, client=at(node))
    wish = AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic(session.name(name), [index])])
    await session.ask(label, AlterReplicaLogDirsRequest([wish]), client=at(node))


# --- what there is to ask about ---


async def unknown(session: Session, topic_id: bytes) -> None:
    """Neither here nor elsewhere."""
    await everywhere(session, "no such partition", "two", topic_id, index=7, leader=0)
    await everywhere(session, "no such topic", "none", UNKNOWN_ID, leader=0)


async def internal(session: Session) -> None:
    """Clients are refused for what a topic is before they are for where it is."""
    topic = "__consumer_offsets"
    plain = produce(session, "", bytes(16), (0, batch(1)))
    plain.topic_data[0].name = topic
    for node in NODES:
        await session.ask(f"internal at {node}", plain, 12, client=at(node))
        await session.ask(f"internal at {node}", delete(topic, (0, 0)), client=at(node))


async def moved(session: Session) -> None:
    """From one node to another, and from two to two others, one of which is the same."""
    for name, before, after in (("moved", (1,), (3,)), ("shifted", (1, 2), (2, 3))):
        topic_id = await filled(session, name, before)
        opened = await session.get(fetch(session, name, topic_id, session_epoch=0), client="held@1")
        by_name = await session.get(fetch(session, name, topic_id, session_epoch=0), 12, client="named@1")
        await begin_move(session, name, after)
        for node in before:
            await replicated(session, name, topic_id, node, RECORDS + FILLING)
        await everywhere(session, "during", name, topic_id, newcomer=after[-1])
        waits = fetch(session, name, topic_id, fetch_offset=RECORDS + FILLING, max_wait_ms=LONG_MS - 1000)
        waiting = await session.begin(waits, 18, client="waits@1", wait_ms=LONG_MS)
        await end_move(session, name, after)
        await session.hear(f"moved while it waits, {name}, Fetch v18", waiting, 18)
        for node in after:
            await replicated(session, name, topic_id, node, RECORDS + FILLING)
        await everywhere(session, "after", name, topic_id, leader=after[0])
        goes_on: dict[str, Any] = {"session_id": opened.session_id, "session_epoch": 1}
        await session.ask(f"{name}, goes on", nothing(**goes_on), client="held@1")
        goes_on["session_id"] = by_name.session_id
        await session.ask(f"{name}, goes on", nothing(**goes_on), 12, client="named@1")


def nothing(**fields: Any) -> FetchRequest:
    """The next request of a session: what it wants, it said before."""
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100_000, topics=[], **fields)


async def deleted(session: Session, ids: dict[str, bytes]) -> None:
    """All at once; then one is made anew under its name, elsewhere."""
    opened = await session.get(fetch(session, "two", ids["two"], session_epoch=0), client="kept@1")
    by_name = await session.get(fetch(session, "two", ids["two"], session_epoch=0), 12, client="called@1")
    waits = fetch(session, "two", ids["two"], fetch_offset=RECORDS, max_wait_ms=LONG_MS - 1000)
    waiting = await session.begin(waits, 18, client="waits@1", wait_ms=LONG_MS)
    for name in ("one", "two"):
        await session.delete_topic(name)
        await unknown_everywhere(session, name)
    await session.hear("deleted while it waits, Fetch v18", waiting, 18)
    for name in ("one", "two"):
        await everywhere(session, "deleted", name, ids[name], leader=0)
    goes_on: dict[str, Any] = {"session_id": opened.session_id, "session_epoch": 1}
    await session.ask("deleted, goes on", nothing(**goes_on), client="kept@1")
    goes_on["session_id"] = by_name.session_id
    await session.ask("deleted, goes on", nothing(**goes_on), 12, client="called@1")
    anew = await placed(session, "two", (3,))
    await known_everywhere(session, "two")
    goes_on["session_epoch"] = 2
    await session.ask("made anew, goes on", nothing(**goes_on), 12, client="called@1")
    goes_on["session_id"] = opened.session_id
    await session.ask("made anew, goes on", nothing(**goes_on), client="kept@1")
    await everywhere(session, "made anew", "two", anew, leader=3)
    await everywhere(session, "by its old id", "two", ids["two"], leader=3, nodes=(1, 3))
