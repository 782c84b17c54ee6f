"""Fetch, ListOffsets and OffsetForLeaderEpoch: places, limits, sessions, epochs, isolation."""

import random
from itertools import product
from typing import Any

from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.compat.alike.scripts.producing import produce
from tests.compat.alike.scripts.states import transactions_ready
from tests.compat.alike.scripts.transactions import begun, settled
from tests.compat.alike.session import UNKNOWN_ID, Session, versions
from tests.server.beside_kafka.delete_records import delete
from tests.server.beside_kafka.talk import RECORD_MS, batch
from tests.server.txn_requests import add, end

FEW = (4, 11, 12, 18)
WITH_TIMES = (1, 4, 11)
"""The versions of ListOffsets that are asked for times, too, and but for the first for isolation."""


async def script(session: Session) -> None:
    await transactions_ready(session)
    topic_id = await filled(session, "topic")
    await places(session, topic_id)
    await limits(session, topic_id)
    await sessions(session, topic_id)
    await found(session)
    await epochs(session)


async def filled(session: Session, name: str) -> bytes:
    """Four partitions: with batches, with a start behind 0, with transactions, and empty."""
    topic_id = await session.topic(name, 4, segment_ms=str(10**13))
    for count in (2, 3, 1, 4):
        for index in (0, 1):
            rows = (index, batch(count, at_ms=RECORD_MS + 10 * count))
            await session.get(produce(session, name, topic_id, rows))
    await session.get(delete(session.name(name), (1, 4)))
    for outcome in (True, False, None):
        who = await begun(session, f"{name} {outcome}")
        await session.get(add(who, **{session.name(name): [2]}), 3)
        data = batch(3, producer_id=who[1], producer_epoch=who[2], base_sequence=0, transactional=True)
        request = produce(session, name, topic_id, (2, data))
        request.transactional_id = who[0]
        await session.get(request, 11)
        if outcome is not None:
            await session.get(end(who, commit=outcome), 4)
            await settled(session, who)
    return topic_id


def fetch(session: Session, topic_id: bytes, *rows: tuple[int, int], **more: Any) -> FetchRequest:
    """Partitions and offsets; `more` are fields of the request, or of each partition."""
    wishes = {"partition_max_bytes": 10_000} | {
        name: more.pop(name) for name in list(more) if name in FetchPartition.__slots__
    }
    wanted = [FetchPartition(index, fetch_offset=offset, **wishes) for index, offset in rows]
    topics = [FetchTopic(session.name("topic"), topic_id, wanted)] if wanted else []
    usual: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100_000, "session_epoch": -1}
    return FetchRequest(**usual | more, topics=topics)


async def places(session: Session, topic_id: bytes) -> None:
    for index, offset in product((0, 1, 2, 3), (0, 1, 3, 4, 6, 9, 10, 11, -1, -2, 10**12)):
        for version, isolation in product(FEW, (0, 1)):
            request = fetch(session, topic_id, (index, offset), isolation_level=isolation)
            await session.ask(f"{index} from {offset}, {isolation}", request, version)
    for version in versions("Fetch"):
        await session.ask("some", fetch(session, topic_id, (0, 2), (9, 0), (3, 0), (-1, 0)), version)
        await session.ask("one twice", fetch(session, topic_id, (0, 0), (0, 4)), version)
        await session.ask("nothing", fetch(session, topic_id), version)
        for epoch, last in product((-1, 0, 1, 7), (-1, 0, 5)):
            request = fetch(session, topic_id, (0, 2), current_leader_epoch=epoch, last_fetched_epoch=last)
            await session.ask(f"epoch {epoch}, last {last}", request, version)
        unknown = FetchRequest(topics=[FetchTopic(session.name("none"), UNKNOWN_ID, [FetchPartition(0)])])
        await session.ask("an unknown topic", unknown, version)
        nobody = FetchRequest(topics=[FetchTopic("", bytes(16), [FetchPartition(0)])])
        await session.ask("no topic", nobody, version)
        follower = fetch(session, topic_id, (0, 0))
        follower.replica_id, follower.replica_state = 7, ReplicaState(7, -1)
        await session.ask("a follower that is none", follower, version)


async def limits(session: Session, topic_id: bytes) -> None:
    sizes = (0, 1, 80, 100, 150, 250, 10_000)
    for per_partition, total in product(sizes, (0, 1, 100, 300, 100_000)):
        request = fetch(
            session, topic_id, (0, 0), (1, 5), (0, 3), partition_max_bytes=per_partition, max_bytes=total
        )
        await session.ask(f"{per_partition} each of {total}", request, 12)
        await session.ask(f"{per_partition} each of {total}", request)
    for least, wait in product((0, 1, 10**6), (0, 50)):
        request = fetch(session, topic_id, (0, 0), (3, 0), min_bytes=least, max_wait_ms=wait)
        await session.ask(f"at least {least} in {wait} ms", request)


async def sessions(session: Session, topic_id: bytes) -> None:
    for version in versions("Fetch")[3:]:
        client = f"session {version}"

        async def ask(label: str, request: Any, version: int = version, client: str = client) -> Any:
            return await session.ask(label, request, version, client=client)

        await ask("no such session", fetch(session, topic_id, (0, 0), session_id=12345, session_epoch=1))
        await ask("no session, epoch 3", fetch(session, topic_id, (0, 0), session_epoch=3))
        await ask("a session of nothing", fetch(session, topic_id, session_epoch=0))
        opened = await ask("opens", fetch(session, topic_id, (0, 10), (1, 10), (3, 0), session_epoch=0))
        own = {"session_id": opened.session_id}
        await ask("too far", fetch(session, topic_id, **own, session_epoch=2))
        await ask("no news", fetch(session, topic_id, **own, session_epoch=1))
        await ask("goes back", fetch(session, topic_id, (0, 6), **own, session_epoch=2))
        await ask("out of range", fetch(session, topic_id, (1, 0), **own, session_epoch=3))
        await ask("still", fetch(session, topic_id, **own, session_epoch=4))
        forgets = [ForgottenTopic(session.name("topic"), topic_id, [1, 9])]
        await ask("forgets", fetch(session, topic_id, **own, session_epoch=5, forgotten_topics_data=forgets))
        await ask("adds an unknown one", fetch(session, topic_id, (9, 0), **own, session_epoch=6))
        await ask("the last epoch again", fetch(session, topic_id, **own, session_epoch=6))
        await ask("closes", fetch(session, topic_id, (0, 6), **own, session_epoch=-1))
        await ask("after the end", fetch(session, topic_id, **own, session_epoch=7))


async def found(session: Session) -> None:
    topic = session.name("topic")
    moments = (
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        0,
        RECORD_MS,
        RECORD_MS + 20,
        RECORD_MS + 21,
        RECORD_MS + 43,
        10**14,
    )
    for version, index, at in product(versions("ListOffsets"), (0, 1, 2, 3), moments):
        if at >= 0 and version not in WITH_TIMES:
            continue
        for isolation in (0, 1) if version in WITH_TIMES[1:] else (0,):
            rows = [ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, at)])]
            request = ListOffsetsRequest(-1, isolation, rows, 1000)
            await session.ask(f"{index} at {at}, {isolation}", request, version)
    for version in versions("ListOffsets"):
        for epoch in (-1, 0, 1, -2):
            rows = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, epoch, -1)])]
            await session.ask(f"epoch {epoch}", ListOffsetsRequest(-1, 0, rows), version)
        several = [ListOffsetsPartition(each, -1, -1) for each in (0, 9, 0, -1)]
        rows = [ListOffsetsTopic(topic, several), ListOffsetsTopic(session.name("none"), several[:1])]
        await session.ask("several", ListOffsetsRequest(-1, 0, rows), version)
        await session.ask("no name", ListOffsetsRequest(-1, 0, [ListOffsetsTopic("", several[:1])]), version)
        await session.ask("nothing", ListOffsetsRequest(-1, 0, []), version)
        for replica in (-2, 1, 7):
            await session.ask(f"replica {replica}", ListOffsetsRequest(replica, 0, rows[:1]), version)


async def epochs(session: Session) -> None:
    for version, index, current, epoch in product(
        versions("OffsetForLeaderEpoch"), (0, 3, 9), (-1, 0, 1), (-1, 0, 1, 7)
    ):
        rows = [OffsetForLeaderPartition(index, current, epoch)]
        for replica in (-1, -2, 7) if version >= 3 else (-2,):
            topics = [OffsetForLeaderTopic(session.name("topic"), rows)]
            request = OffsetForLeaderEpochRequest(replica, topics)
            await session.ask(f"{index}, {current}, {epoch}, {replica}", request, version)
    for version in versions("OffsetForLeaderEpoch"):
        rows = [OffsetForLeaderTopic(session.name("none"), [OffsetForLeaderPartition(0, -1, 0)])]
        await session.ask("unknown", OffsetForLeaderEpochRequest(-1, rows), version)
        await session.ask("nothing", OffsetForLeaderEpochRequest(-1, []), version)


async def walk(session: Session, rng: random.Random) -> None:
    """One fetch session among writes, with random wishes."""
    topic_id = await session.topic("topic", 3)
    own, epoch = 0, 0
    for number in range(120):
        if rng.random() < 0.3:
            rows = (rng.choice((0, 1, 2)), batch(rng.choice((1, 2, 9)), size=rng.choice((1, 50, 300))))
            await session.ask(f"{number}", produce(session, "topic", topic_id, rows), 13)
            continue
        wishes = [(index, rng.choice((0, 1, 4, 9, 30, 1000))) for index in range(4) if rng.random() < 0.4]
        said = rng.choice((epoch,) * 8 + (0, -1, epoch + 1))
        # Not what is asked for in the same breath: Kafka answers it where nothing is left of the session.
        unasked = sorted(set(rng.sample(range(4), 2)) - {index for index, _ in wishes})
        forgotten = [ForgottenTopic(session.name("topic"), topic_id, unasked)]
        more: dict[str, Any] = {"session_id": rng.choice((own,) * 9 + (0,)), "session_epoch": said}
        if rng.random() < 0.2:
            more["forgotten_topics_data"] = forgotten
        more |= {
            "partition_max_bytes": rng.choice((10, 200, 10_000)),
            "max_bytes": rng.choice((10, 500, 10**5)),
        }
        reply = await session.ask(
            f"{number}", fetch(session, topic_id, *wishes, **more), rng.choice((13, 15, 18))
        )
        if reply is None:
            own, epoch = 0, 0
        elif reply.error_code:
            own, epoch = (0, 0) if rng.random() < 0.5 else (own, epoch)
        elif reply.session_id:
            own, epoch = reply.session_id, (1 if said == 0 else said + 1)
        else:
            own, epoch = 0, 0
