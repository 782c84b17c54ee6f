"""What partitions do with transactional writes, and what readers of committed records see of them."""

from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.server.beside_kafka.init_producer_id import begin, ready, settled
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch
from tests.server.txn_requests import Who, add, end, init

VERIFIED, ADDED = 11, 12


async def script(talk: Talk) -> None:
    await ready(talk)
    # Markers have the time of now, far from the records': they shall not go to another segment.
    await talk.topic("topic", 4, segment_ms=str(10**13))
    await verified(talk)
    await added(talk)
    await readers(talk)


async def write(
    talk: Talk, label: str, who: Who, partition: int, version: int, sequence: int = 0, count: int = 1
) -> None:
    records = batch(
        count, producer_id=who[1], producer_epoch=who[2], base_sequence=sequence, transactional=True
    )
    request = produce(talk.name("topic"), records, acks=-1, transactional_id=who[0], partitions=(partition,))
    await talk.ask(label, request, version)


async def verified(talk: Talk) -> None:
    talk.title("Added by the client")
    who = await begin(talk, "verified")
    name, producer_id, epoch = who
    topic = talk.name("topic")
    for version in (7, 10, VERIFIED):
        await write(talk, f"not added, v{version}", who, 0, version)
        await write(talk, f"fenced, v{version}", (name, producer_id, epoch + 1), 0, version)
        await write(talk, f"another producer, v{version}", (name, producer_id + 100_000, 0), 0, version)
        await write(talk, f"an unknown id, v{version}", (talk.name("x"), producer_id, epoch), 0, version)
    await talk.ask("added", add(who, **{topic: [0]}), 3)
    await write(talk, "written", who, 0, VERIFIED)
    await write(talk, "written again", who, 0, VERIFIED)
    await write(talk, "written on", who, 0, VERIFIED, 1)
    await write(talk, "a gap", who, 0, VERIFIED, 5)
    await write(talk, "to another partition", who, 1, VERIFIED)
    plain = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=2)
    await talk.ask("outside of it", produce(topic, plain, acks=-1, partitions=(0,)), VERIFIED)
    await talk.ask("end", end(who), 4)
    await settled(talk, "verified")
    await write(talk, "after the end", who, 0, VERIFIED, 2)
    await talk.ask("another user", init(name), 5)
    await write(talk, "of the one before", who, 0, VERIFIED, 2)
    await write(talk, "of the new one, not added", (name, producer_id, epoch + 1), 0, VERIFIED)


async def added(talk: Talk) -> None:
    talk.title("Added by the write")
    who = await begin(talk, "adding")
    name, producer_id, epoch = who
    await write(talk, "fenced", (name, producer_id, epoch + 1), 1, ADDED)
    await write(talk, "another producer", (name, producer_id + 100_000, 0), 1, ADDED)
    await write(talk, "an unknown id", (talk.name("x"), producer_id, epoch), 1, ADDED)
    await write(talk, "written", who, 1, ADDED)
    await write(talk, "added and written again", who, 1, ADDED)
    await write(talk, "written on", who, 1, ADDED, 1)
    await talk.ask("end", end(who), 5)
    await settled(talk, "adding")
    await write(talk, "late", who, 1, ADDED, 2)
    after = (name, producer_id, epoch + 1)
    await write(talk, "the next, in the old sequence", after, 1, ADDED, 2)
    await write(talk, "the next", after, 1, ADDED)
    await talk.ask("abort", end(after, commit=False), 5)
    await settled(talk, "adding")


async def readers(talk: Talk) -> None:
    talk.title("Readers")
    first, second = await begin(talk, "first"), await begin(talk, "second")
    topic = talk.name("topic")
    await read(talk, "nothing")
    await write(talk, "the first writes", first, 2, ADDED, count=3)
    await read(talk, "one open")
    await write(talk, "the second writes", second, 2, ADDED, count=2)
    plain = batch(2)
    await talk.ask("somebody writes", produce(topic, plain, acks=-1, partitions=(2,)), ADDED)
    await read(talk, "two open")
    await talk.ask("the second aborts", end(second, commit=False), 5)
    await settled(talk, "second")
    await read(talk, "the first open")
    await write(talk, "the first writes on", first, 2, ADDED, 3)
    await talk.ask("the first commits", end(first), 5)
    await settled(talk, "first")
    await read(talk, "none open")
    await read(talk, "none open, from the middle", 4)
    await read(talk, "none open, behind the aborted", 9)


async def read(talk: Talk, label: str, offset: int = 0) -> None:
    """Fetch and the end of the log, for both kinds of readers."""
    topic = talk.name("topic")
    for isolation in (0, 1):
        kind = ("uncommitted", "committed")[isolation]
        wanted = [FetchTopic(topic, partitions=[FetchPartition(2, fetch_offset=offset)])]
        wanted[0].partitions[0].partition_max_bytes = 1 << 20
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=wanted)
        await talk.ask(f"{label}, {kind}", request, 11)
        places = [ListOffsetsPartition(2, timestamp=-1)]
        await talk.ask(
            f"{label}, the end of {kind}",
            ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, places)]),
            6,
        )
