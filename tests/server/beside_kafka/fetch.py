"""Fetch: offsets, limits, epochs, isolation, sessions, and what does not exist."""

from typing import Any

from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.beside_kafka.talk import Talk, batch

OLDEST, BY_NAME, NEWEST = 4, 12, 18
WAIT_MS = 600


def fetch(
    topic: str,
    offset: int = 0,
    *,
    topic_id: bytes = bytes(16),
    partitions: tuple[int, ...] = (0,),
    partition_max_bytes: int = 10_000,
    max_bytes: int = 100_000,
    wait_ms: int = 0,
    min_bytes: int = 1,
    **more: Any,
) -> FetchRequest:
    """Fetch partitions of one topic from an offset; `more` are fields of the request or of each partition."""
    wishes = {name: more.pop(name) for name in list(more) if name in FetchPartition.__slots__}
    wanted = [
        FetchPartition(each, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **wishes)
        for each in partitions
    ]
    topics = [FetchTopic(topic, topic_id, wanted)] if partitions else []
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **more)


async def fill(talk: Talk, topic: str, partition: int = 0, batches: int = 3, records: int = 2) -> None:
    for _ in range(batches):
        data = [PartitionProduceData(partition, batch(records))]
        request = ProduceRequest(None, -1, 5000, [TopicProduceData(talk.name(topic), bytes(16), data)])
        await (await talk.begin(request, 12))


async def script(talk: Talk) -> None:
    await offsets(talk)
    await unknown(talk)
    await limits(talk)
    await waits(talk)
    await epochs(talk)
    await isolation(talk)
    await sessions(talk)


async def offsets(talk: Talk) -> None:
    talk.title("Where to read")
    topic = talk.name("offsets")
    topic_id = await talk.topic("offsets")
    await fill(talk, "offsets")
    await talk.each_version("all", lambda version: fetch(topic, topic_id=topic_id, session_epoch=-1))
    for offset in (1, 2, 5, 6, 7, 100, -1, -2):
        await talk.ask(f"from {offset}", fetch(topic, offset, topic_id=topic_id), NEWEST)
    await talk.each_version("out of range", lambda version: fetch(topic, 7, topic_id=topic_id))
    delete = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 3)])], 1000)
    await talk.ask("delete before 3", delete, 2)
    for offset in (0, 2, 3, 4):
        await talk.ask(
            f"from {offset} of a log that starts at 3", fetch(topic, offset, topic_id=topic_id), NEWEST
        )


async def unknown(talk: Talk) -> None:
    talk.title("What does not exist")
    topic = talk.name("known")
    topic_id = await talk.topic("known")
    await talk.each_version("topic", lambda version: fetch(talk.name("none"), topic_id=b"none" * 4))
    await talk.each_version("partition", lambda version: fetch(topic, topic_id=topic_id, partitions=(0, 9)))
    await talk.ask("no name", fetch(""), BY_NAME)
    await talk.ask("no id", fetch(topic), NEWEST)
    await talk.ask_timed(
        "an error does not wait",
        fetch(topic, topic_id=topic_id, partitions=(0, 9), wait_ms=WAIT_MS),
        NEWEST,
        wait_ms=WAIT_MS,
    )
    await talk.ask("a partition twice", fetch(topic, topic_id=topic_id, partitions=(0, 0)), NEWEST)
    for replica in (-2, 5):
        request = fetch(topic, session_epoch=-1, replica_id=replica)
        await talk.ask(f"replica {replica}, v{BY_NAME}", request, BY_NAME)
        request = fetch(topic, topic_id=topic_id, session_epoch=-1, replica_state=ReplicaState(replica, -1))
        await talk.ask(f"replica {replica}, v{NEWEST}", request, NEWEST)


async def limits(talk: Talk) -> None:
    talk.title("Limits")
    topic = talk.name("limits")
    topic_id = await talk.topic("limits", 3)
    size = len(batch(2))
    for partition in range(3):
        await fill(talk, "limits", partition)

    async def ask(label: str, **options: Any) -> None:
        request = fetch(topic, topic_id=topic_id, session_epoch=-1, **options)
        await talk.ask(label, request, NEWEST)

    every = (0, 1, 2)
    await ask("a batch of a partition", partition_max_bytes=size)
    await ask("a batch and a half", partition_max_bytes=size * 3 // 2)
    await ask("half a batch", partition_max_bytes=size // 2)
    await ask("no byte of a partition", partition_max_bytes=0)
    await ask("less than nothing", partition_max_bytes=-1)
    await ask("half a batch of each", partition_max_bytes=size // 2, partitions=every)
    await ask("a batch of all", max_bytes=size, partitions=every)
    await ask("four batches of all", max_bytes=4 * size, partitions=every)
    await ask("four and a half of all", max_bytes=4 * size + size // 2, partitions=every)
    await ask("half a batch of all", max_bytes=size // 2, partitions=every)
    await ask("nothing of all", max_bytes=0, partitions=every)
    await ask("two of each, five of all", partition_max_bytes=2 * size, max_bytes=5 * size, partitions=every)
    await ask("the first has nothing", max_bytes=size // 2, partitions=every, offset=6)
    mixed = fetch(topic, topic_id=topic_id, session_epoch=-1, partitions=every, max_bytes=size // 2)
    mixed.topics[0].partitions[0].fetch_offset = 6
    await talk.ask("the first is at its end", mixed, NEWEST)


async def waits(talk: Talk) -> None:
    talk.title("Waiting")
    topic = talk.name("waits")
    topic_id = await talk.topic("waits")
    await fill(talk, "waits", batches=1)

    async def ask(label: str, **options: Any) -> None:
        request = fetch(topic, topic_id=topic_id, wait_ms=WAIT_MS, session_epoch=-1, **options)
        await talk.ask_timed(label, request, NEWEST, wait_ms=WAIT_MS)

    await ask("at the end", offset=2)
    await ask("at the end, nothing required", offset=2, min_bytes=0)
    await ask("more than there is", min_bytes=10_000)
    await ask("more than the limit lets through", min_bytes=200, max_bytes=10)
    await ask("out of range", offset=3)
    await ask("no partitions", partitions=())
    await ask("no partitions, in a session", partitions=(), session_id=77)


async def epochs(talk: Talk) -> None:
    talk.title("Leader epochs")
    topic = talk.name("epochs")
    topic_id = await talk.topic("epochs")
    await fill(talk, "epochs")
    for epoch in (-1, 0, 1, -2):
        await talk.ask(
            f"current epoch {epoch}", fetch(topic, topic_id=topic_id, current_leader_epoch=epoch), NEWEST
        )
    await talk.each_version(
        "an epoch to come", lambda version: fetch(topic, topic_id=topic_id, current_leader_epoch=9)
    )
    for epoch, offset in ((0, 2), (0, 6), (0, 7), (1, 2), (5, 0), (-2, 0)):
        request = fetch(topic, offset, topic_id=topic_id, last_fetched_epoch=epoch, wait_ms=WAIT_MS)
        await talk.ask_timed(f"read to {offset} in epoch {epoch}", request, NEWEST, wait_ms=WAIT_MS)
    await talk.topic("bare")
    for epoch in (0, 1):
        request = fetch(talk.name("bare"), last_fetched_epoch=epoch)
        await talk.ask(f"an empty log, read in epoch {epoch}", request, BY_NAME)


async def isolation(talk: Talk) -> None:
    talk.title("Isolation")
    topic = talk.name("isolation")
    topic_id = await talk.topic("isolation")
    await talk.ask("committed, empty", fetch(topic, topic_id=topic_id, isolation_level=1), NEWEST)
    await fill(talk, "isolation", batches=1)
    await talk.each_version(
        "committed", lambda version: fetch(topic, topic_id=topic_id, isolation_level=1, session_epoch=-1)
    )
    await talk.ask("committed, at the end", fetch(topic, 2, topic_id=topic_id, isolation_level=1), NEWEST)
    await talk.ask("committed, out of range", fetch(topic, 9, topic_id=topic_id, isolation_level=1), NEWEST)
    await talk.ask("committed, unknown", fetch(topic, 9, isolation_level=1), NEWEST)
    await talk.ask("isolation level 7", fetch(topic, topic_id=topic_id, isolation_level=7), NEWEST)


async def sessions(talk: Talk) -> None:
    talk.title("Sessions")
    topic = talk.name("sessions")
    topic_id = await talk.topic("sessions", 3)
    await fill(talk, "sessions", 0, 1)

    async def ask(label: str, session: int, epoch: int, version: int = NEWEST, **options: Any) -> Any:
        options.setdefault("partitions", ())
        request = fetch(topic, topic_id=topic_id, session_id=session, session_epoch=epoch, **options)
        return await talk.ask_timed(label, request, version, wait_ms=WAIT_MS)

    opened = await ask("open", 0, 0, partitions=(0, 1))
    session = opened.session_id
    await ask("the first again, as nothing was read", session, 1)
    await ask("read on", session, 2, partitions=(0,), offset=2)
    await ask("nothing new, no wait", session, 3)
    await ask("nothing new, after a wait", session, 4, wait_ms=WAIT_MS)
    await ask("another partition", session, 5, partitions=(2,))
    await ask("an unknown partition", session, 6, partitions=(8,))
    await ask("an error is told every time", session, 7)
    forget = [ForgottenTopic(topic, topic_id, [8, 2])]
    await ask("forgotten", session, 8, forgotten_topics_data=forget)
    await ask("a wrong epoch", session, 8)
    await ask("the right epoch", session, 9)
    await ask("an older version", session, 10, BY_NAME)
    await ask("an unknown session", session + 1, 1)
    await ask("an epoch without a session", 0, 1)
    await ask("all over again", session, 0, partitions=(0,))
    await ask("the old one is gone", session, 1)
    await ask("without one", 0, -1, partitions=(0,))
    again = await ask("open", 0, 0, partitions=(0,))
    everything = [ForgottenTopic(topic, topic_id, [0])]
    await ask("everything forgotten", again.session_id, 1, forgotten_topics_data=everything)
    await ask("gone with it", again.session_id, 2)
    await ask("open with nothing", 0, 0)
    by_name = await ask("open by name", 0, 0, BY_NAME, partitions=(0, 1))
    await ask("go on by id", by_name.session_id, 1, NEWEST)
