"""OffsetForLeaderEpoch: epochs that are, were and will be."""

from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import Talk, batch

NEWEST = 4


def end_of(topic: str, epoch: int, *, partition: int = 0, current: int = -1) -> OffsetForLeaderEpochRequest:
    wish = OffsetForLeaderPartition(partition, current, epoch)
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [wish])])


async def script(talk: Talk) -> None:
    topic = talk.name("logs")
    await talk.topic("logs", 2)
    talk.title("An empty log")
    for epoch in (-1, 0, 1):
        await talk.ask(f"epoch {epoch}", end_of(topic, epoch), NEWEST)
    talk.title("A log with records")
    await talk.ask("fill", produce(topic, batch(5)), 12)
    for epoch in (-2, -1, 0, 1, 5):
        await talk.ask(f"epoch {epoch}", end_of(topic, epoch), NEWEST)
    await talk.each_version("every version", lambda version: end_of(topic, 0))
    talk.title("Refused")
    for current in (-2, 0, 1):
        await talk.each_version(
            f"current epoch {current}", lambda version, now=current: end_of(topic, 0, current=now)
        )
    await talk.each_version("topic", lambda version: end_of(talk.name("none"), 0))
    await talk.each_version("partition", lambda version: end_of(topic, 0, partition=4))
    await talk.ask("no topics", OffsetForLeaderEpochRequest(-1), NEWEST)
    wishes = [OffsetForLeaderPartition(index, -1, 0) for index in (0, 1, 7)]
    several = [OffsetForLeaderTopic(topic, wishes), OffsetForLeaderTopic(talk.name("none"), wishes)]
    await talk.ask("several", OffsetForLeaderEpochRequest(-1, several), NEWEST, unordered=True)
