"""Produce: acks, names that do not exist, what may not be written to, what is no batch, sequences."""

from collections.abc import Sequence

from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.beside_kafka.talk import RECORD_MS, Talk, batch

OLDEST, NEWEST, BY_NAME = 3, 13, 12


def produce(
    topic: str,
    *records: bytes | bytearray | None,
    topic_id: bytes = bytes(16),
    acks: int = 1,
    transactional_id: str | None = None,
    partitions: Sequence[int] | None = None,
) -> ProduceRequest:
    """Records for partition 0, and 1 and so on, of one topic."""
    data = [PartitionProduceData(*each) for each in zip(partitions or range(99), records, strict=False)]
    return ProduceRequest(transactional_id, acks, 5_000, [TopicProduceData(topic, topic_id, data)])


async def script(talk: Talk) -> None:
    await plain(talk)
    await unknown(talk)
    await refused(talk)
    await sequences(talk)
    await transactional(talk)
    await timestamps(talk)


async def plain(talk: Talk) -> None:
    talk.title("Every version appends, and tells what it knows")
    topic = talk.name("plain")
    topic_id = await talk.topic("plain", 2)
    for version in range(OLDEST, NEWEST + 1):
        await talk.ask(f"v{version}", produce(topic, batch(3), topic_id=topic_id), version)
    talk.title("acks")
    for acks in (-1, 1, 2, -2):
        request = produce(topic, batch(), batch(), topic_id=topic_id, acks=acks)
        await talk.ask(f"acks={acks}", request, NEWEST, unordered=True)
    await talk.ask("no topics", ProduceRequest(None, 1, 1000, []), NEWEST)
    await talk.ask("a topic without partitions", produce(topic, topic_id=topic_id), NEWEST)
    twice = produce(topic, batch(), batch(), topic_id=topic_id, partitions=(0, 0))
    await talk.ask("a partition named twice", twice, NEWEST)


async def unknown(talk: Talk) -> None:
    talk.title("What does not exist")
    topic = talk.name("some")
    topic_id = await talk.topic("some")
    await talk.each_version(
        "topic", lambda version: produce(talk.name("none"), batch(), topic_id=b"none" * 4)
    )
    await talk.ask("no id", produce(topic, batch()), NEWEST)
    await talk.each_version(
        "partition", lambda version: produce(topic, batch(), topic_id=topic_id, partitions=[7])
    )
    await talk.ask("partition -1", produce(topic, batch(), partitions=[-1]), BY_NAME)
    await talk.ask("no name", produce("", batch()), BY_NAME)
    await talk.ask("a bad name", produce("../x", batch()), BY_NAME)
    one_each = ProduceRequest(
        None,
        1,
        5000,
        [
            TopicProduceData(name, bytes(16), [PartitionProduceData(0, batch())])
            for name in (talk.name("none"), topic, "__consumer_offsets")
        ],
    )
    await talk.ask("one good among bad ones", one_each, BY_NAME, unordered=True)


async def refused(talk: Talk) -> None:
    talk.title("What no log takes")
    topic = talk.name("small")
    topic_id = await talk.topic("small", max_message_bytes="500")
    compacted_id = await talk.topic("compacted", cleanup_policy="compact")
    await talk.each_version("too large", lambda version: produce(topic, batch(size=1000), topic_id=topic_id))
    await talk.ask("no records", produce(topic, None, topic_id=topic_id), NEWEST)
    await talk.ask("empty records", produce(topic, b"", topic_id=topic_id), NEWEST)
    await talk.ask("two batches", produce(topic, batch() + batch(), topic_id=topic_id), NEWEST)
    corrupt = batch()
    corrupt[-1] ^= 1
    await talk.each_version("corrupt", lambda version: produce(topic, corrupt, topic_id=topic_id))
    await talk.ask("half a batch", produce(topic, batch()[:70], topic_id=topic_id), NEWEST)
    await talk.ask("a control batch", produce(topic, batch(control=True), topic_id=topic_id), NEWEST)
    await talk.each_version(
        "no key in a compacted topic",
        lambda version: produce(talk.name("compacted"), batch(2), topic_id=compacted_id),
    )
    await talk.topic("two", min_insync_replicas="2")
    for acks in (-1, 1):
        await talk.ask(
            f"too few in sync, acks={acks}", produce(talk.name("two"), batch(), acks=acks), BY_NAME
        )


async def sequences(talk: Talk) -> None:
    talk.title("Idempotent producers")
    topic = talk.name("sequences")
    topic_id = await talk.topic("sequences")

    async def ask(label: str, sequence: int, *, epoch: int = 0, count: int = 2) -> None:
        records = batch(count, producer_id=70, producer_epoch=epoch, base_sequence=sequence)
        await talk.ask(label, produce(topic, records, topic_id=topic_id, acks=-1), NEWEST)

    await ask("begins at 3", 3)
    await ask("begins at 0", 0)
    await ask("goes on", 2)
    await ask("again", 2)
    await ask("the first again", 0)
    await ask("a gap", 9)
    await ask("half of what was sent", 2, count=1)
    await ask("a new epoch that does not begin at 0", 4, epoch=1)
    await ask("a new epoch", 0, epoch=1)
    await ask("the old epoch", 4)
    await ask("no sequence", -1, epoch=1)


async def transactional(talk: Talk) -> None:
    talk.title("Transactions that nobody began")
    topic = talk.name("txn")
    topic_id = await talk.topic("txn")
    own = batch(producer_id=71, producer_epoch=0, base_sequence=0, transactional=True)
    for version in (OLDEST, 11, NEWEST):
        await talk.ask(
            f"a transactional batch without an id, v{version}",
            produce(topic, own, topic_id=topic_id, acks=-1),
            version,
        )
    request = produce(topic, batch(), topic_id=topic_id, transactional_id=talk.name("t"))
    await talk.ask("an id, but no transactional batch", request, NEWEST)
    for version in (OLDEST, 11, NEWEST):
        request = produce(topic, own, topic_id=topic_id, acks=-1, transactional_id=talk.name("t"))
        await talk.ask(f"a transactional batch with an unknown id, v{version}", request, version)


async def timestamps(talk: Talk) -> None:
    talk.title("Timestamps")
    stamped_id = await talk.topic("stamped", message_timestamp_type="LogAppendTime")
    request = produce(talk.name("stamped"), batch(3), topic_id=stamped_id)
    for version in (OLDEST, NEWEST):
        await talk.ask(f"log append time, v{version}", request, version)
    past_id = await talk.topic("past", message_timestamp_before_max_ms="1000")
    request = produce(talk.name("past"), batch(2, at_ms=RECORD_MS - 10**9), topic_id=past_id)
    await talk.each_version("too old", lambda version: request)
