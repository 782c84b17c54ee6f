"""DescribeProducers: who wrote with a producer id, and what does not exist."""

from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch


def describe(topic: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest(topic, list(partitions))])


async def script(talk: Talk) -> None:
    topic = talk.name("logs")
    await talk.topic("logs", 2)
    await talk.ask("an empty log", describe(topic, 0), 0)
    for producer_id, epoch, sequence in ((7, 0, 0), (7, 0, 2), (8, 3, 0), (7, 1, 0)):
        records = batch(2, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        await talk.ask("fill", produce(topic, records), 12)
        await talk.ask("describe", describe(topic, 0), 0, unordered=True)
    await talk.ask("produce without an id", produce(topic, batch()), 12)
    await talk.ask("the same", describe(topic, 0, 1), 0, unordered=True)
    await talk.ask("unknown topic", describe(talk.name("none"), 0), 0)
    await talk.ask("unknown partition", describe(topic, 6), 0)
    await talk.ask("no partitions", describe(topic), 0)
    await talk.ask("no topics", DescribeProducersRequest([]), 0)
    for name in ("", "..", "a/b", "x" * 250):
        await talk.ask(f"the name {name[:10]!r}", describe(name, 0), 0)
