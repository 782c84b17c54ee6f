"""WriteTxnMarkers: which markers a partition takes, and what its producers look like then."""

from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from tests.server.beside_kafka.init_producer_id import begin, ready
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch
from tests.server.txn_requests import Who, add, markers

OLD, NEW = 1, 2


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 4, segment_ms=str(10**13))
    topic = talk.name("topic")
    talk.title("Refused")
    for version in (OLD, NEW):
        await talk.ask(f"an unknown topic, v{version}", markers(77, 0, talk.name("none"), 0), version)
        request = markers(77, 0, topic, 0, 9)
        await talk.ask(f"an unknown partition, v{version}", request, version, unordered=True)
    for rules in (0, 2):
        await told_by(talk, rules)


async def write(talk: Talk, who: Who, partition: int, sequence: int = 0) -> None:
    topic = talk.name("topic")
    await (await talk.begin(add(who, **{topic: [partition]}), 3))
    records = batch(producer_id=who[1], producer_epoch=who[2], base_sequence=sequence, transactional=True)
    request = produce(topic, records, acks=-1, transactional_id=who[0], partitions=(partition,))
    await talk.ask("a write", request, 11)


async def told_by(talk: Talk, rules: int) -> None:
    talk.title(f"By the rules of version {rules}")
    partition = rules
    topic = talk.name("topic")
    await begin(talk, f"writer{rules}")
    who = await begin(talk, f"writer{rules}")
    _, producer_id, epoch = who
    producers = DescribeProducersRequest([TopicRequest(topic, [partition])])

    async def mark(label: str, marker_epoch: int, coordinator_epoch: int = 3) -> None:
        request = markers(
            producer_id,
            marker_epoch,
            topic,
            partition,
            coordinator_epoch=coordinator_epoch,
            version=rules,
        )
        await talk.ask(label, request, NEW)
        await talk.ask("producers", producers, 0)

    await mark("before it wrote anything", epoch)
    await write(talk, who, partition)
    await talk.ask("producers", producers, 0)
    await mark("an older epoch", epoch - 1)
    await mark("its epoch", epoch)
    await write(talk, who, partition, 1)
    await mark("the next epoch", epoch + 1)
    await mark("the next epoch again", epoch + 1)
    await mark("an older coordinator", epoch + 2, 2)
    await mark("a newer coordinator", epoch + 2, 4)
