"""ListOffsets: every named place and times between, at every version; epochs, isolation, duplicates."""

from typing import Any

from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import RECORD_MS, Talk, batch

OLDEST, NEWEST = 1, 11
PLACES = {
    "latest": -1,
    "earliest": -2,
    "largest timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest to be tiered": -6,
    "no such place": -7,
}


def find(
    topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, **fields: Any
) -> ListOffsetsRequest:
    wish = ListOffsetsPartition(partition, epoch, timestamp)
    fields.setdefault("replica_id", -1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [wish])], **fields)


async def script(talk: Talk) -> None:
    await places(talk)
    await times(talk)
    await refused(talk)


async def places(talk: Talk) -> None:
    await talk.topic("empty")
    talk.title("Places of an empty log")
    for place, timestamp in PLACES.items():
        await talk.each_version(place, lambda version, at=timestamp: find(talk.name("empty"), at))
    await talk.topic("full")
    await talk.ask("fill", produce(talk.name("full"), batch(3, at_ms=RECORD_MS + 1000)), 12)
    await talk.ask("fill with older ones", produce(talk.name("full"), batch(2)), 12)
    talk.title("Places of a log with records")
    for place, timestamp in PLACES.items():
        await talk.each_version(place, lambda version, at=timestamp: find(talk.name("full"), at))
    for place, timestamp in PLACES.items():
        request = find(talk.name("full"), timestamp, isolation_level=1)
        await talk.ask(f"{place}, committed", request, NEWEST)
    for replica in (-2, 5):
        await talk.ask(f"latest, replica {replica}", find(talk.name("full"), -1, replica_id=replica), NEWEST)
    await talk.topic("equal")
    await talk.ask("fill with equal times", produce(talk.name("equal"), batch(3, step_ms=0)), 12)
    await talk.ask("the first of the largest", find(talk.name("equal"), -3), NEWEST)


async def times(talk: Talk) -> None:
    talk.title("By time")
    await talk.topic("times")
    for late_ms in (0, 100, 50):
        await talk.ask(
            "fill", produce(talk.name("times"), batch(3, at_ms=RECORD_MS + late_ms, step_ms=10)), 12
        )
    for late_ms in (-(10**9), 0, 1, 10, 21, 100, 111, 120, 121, 10**9):
        await talk.ask(f"{late_ms} ms after the first", find(talk.name("times"), RECORD_MS + late_ms), NEWEST)
    await talk.each_version("between", lambda version: find(talk.name("times"), RECORD_MS + 15))
    await talk.each_version("too late", lambda version: find(talk.name("times"), RECORD_MS + 10**9))
    await talk.ask("zero", find(talk.name("times"), 0), NEWEST)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    topic = talk.name("full")
    await talk.each_version("topic", lambda version: find(talk.name("none"), -1))
    await talk.each_version("partition", lambda version: find(topic, -1, partition=4))
    await talk.each_version("an epoch to come", lambda version: find(topic, -1, epoch=5))
    await talk.ask("the epoch there is", find(topic, -1, epoch=0), NEWEST)
    await talk.ask("no topics", ListOffsetsRequest(replica_id=-1), NEWEST)
    await talk.ask("isolation level 7", find(topic, -1, isolation_level=7), NEWEST)
    twice = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)]),
            ListOffsetsTopic(talk.name("times"), [ListOffsetsPartition(0, -1, -1)]),
        ],
    )
    await talk.ask("twice", twice, NEWEST, unordered=True)
    await talk.ask("twice, and unknown", _twice_unknown(talk), NEWEST, unordered=True)
    await talk.ask("no name", find("", -1), NEWEST)


def _twice_unknown(talk: Talk) -> ListOffsetsRequest:
    wish = ListOffsetsPartition(0, -1, -1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(talk.name("none"), [wish, wish])])
