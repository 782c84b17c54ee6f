"""Produce: acks, names, batches that are broken in each place, several batches, keys, times, sequences."""

import random
import struct
from typing import Any

from crc32c import crc32c

from headrace.records.batch import Record, build_batch
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat.alike.scripts.states import groups_ready
from tests.compat.alike.session import UNKNOWN_ID, Session, versions
from tests.server.beside_kafka.talk import RECORD_MS, batch

ALL = versions("Produce")
FEW = (3, 8, 10, 13)
CRC_AT, CHECKED_AT = 17, 21
"""Where a batch has its check sum, and where what it covers begins."""
STEPS = (
    *((0, 3, 2), (0, 0, 2), (0, 2, 2), (0, 2, 2), (0, 0, 2), (0, 9, 2), (0, 2, 1), (0, 4, 1), (0, 5, 1)),
    *((0, 6, 1), (0, 7, 1), (0, 8, 1), (0, 0, 2), (1, 4, 2), (1, 0, 2), (0, 10, 2), (1, -1, 2), (2, 0, 1)),
    *((-1, 0, 1), (2, 2**31 - 1, 3), (32767, 0, 1)),
)
"""Epochs, sequences and counts that a producer sends one after the other."""


async def script(session: Session) -> None:
    await groups_ready(session)
    await plain(session)
    await broken(session)
    await by_topic(session)
    await sequences(session)
    await deleting(session)


def produce(session: Session, name: str, topic_id: bytes, *rows: tuple[int, Any], acks: int = -1) -> Any:
    data = [PartitionProduceData(*each) for each in rows]
    return ProduceRequest(None, acks, 5_000, [TopicProduceData(session.name(name), topic_id, data)])


async def plain(session: Session) -> None:
    topic_id = await session.topic("plain", 3)
    for version in ALL:
        for acks in (1, -1, 2, -2, 99):
            request = produce(session, "plain", topic_id, (0, batch(2)), acks=acks)
            await session.ask(f"acks {acks}", request, version)
        rows = [(0, batch(1)), (9, batch(1)), (1, batch(3)), (-1, batch(1))]
        await session.ask("some unknown", produce(session, "plain", topic_id, *rows), version)
        await session.ask(
            "no time",
            ProduceRequest(
                None,
                -1,
                0,
                [TopicProduceData(session.name("plain"), topic_id, [PartitionProduceData(2, batch(1))])],
            ),
            version,
        )
        for name, known in (("none", UNKNOWN_ID), ("", bytes(16))):
            row = TopicProduceData(
                session.name(name) if name else "", known, [PartitionProduceData(0, batch(1))]
            )
            await session.ask(f"topic {name!r}", ProduceRequest(None, 1, 5_000, [row]), version)
        await session.ask("nothing", ProduceRequest(None, 1, 5_000, []), version)


def changed(at: int, form: str, value: int, *, sum_up: bool = True, **options: Any) -> bytearray:
    """A batch of two records with another value in its head, and a true check sum unless told otherwise."""
    data = batch(2, **options)
    struct.pack_into(">" + form, data, at, value)
    if sum_up:
        struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[CHECKED_AT:]))
    return data


def _broken_batches() -> dict[str, Any]:
    good = batch(2)
    damaged = bytearray(good)
    damaged[-1] ^= 1
    keyed = build_batch([Record(0, RECORD_MS, b"k", b"v", ()), Record(0, RECORD_MS, b"k", None, ())])
    return {
        "a wrong sum": damaged,
        "a base offset": changed(0, "q", 5),
        "a leader epoch": changed(12, "i", 9),
        "magic 0": changed(16, "b", 0),
        "magic 1": changed(16, "b", 1),
        "magic 3": changed(16, "b", 3),
        "too short a length": changed(8, "i", 10),
        "a length of less": changed(8, "i", len(good) - 13),
        "a length of more": changed(8, "i", len(good) + 50),
        "a negative length": changed(8, "i", -1),
        "a control batch": changed(21, "h", 0x20),
        "codec 5": changed(21, "h", 5),
        "unused attributes": changed(21, "h", 0x100),
        "a delete horizon": changed(21, "h", 0x40),
        "log append time": changed(21, "h", 8),
        "a last offset too small": changed(23, "i", 0),
        "a last offset too large": changed(23, "i", 7),
        "a negative last offset": changed(23, "i", -1),
        "too few counted": changed(57, "i", 1),
        "too many counted": changed(57, "i", 3),
        "none counted": changed(57, "i", 0),
        "a negative count": changed(57, "i", -1),
        "another max timestamp": changed(35, "q", RECORD_MS + 500),
        "no max timestamp": changed(35, "q", -1),
        "no first timestamp": changed(27, "q", -1),
        "a producer without an epoch": changed(43, "q", 5),
        "a producer without a sequence": batch(2, producer_id=5, producer_epoch=0),
        "an epoch without a producer": changed(51, "h", 3),
        "an empty batch": build_batch([], last_offset_delta=0, keep_offsets=True),
        "half a batch": good[:40],
        "a head alone": good[:61],
        "bytes behind it": good + b"abc",
        "a batch and half of one": good + good[:50],
        "not a batch": b"x" * 100,
        "keys": keyed,
        "gzip": batch(3, codec=1),
        "snappy": batch(3, codec=2),
        "lz4": batch(3, codec=3),
        "zstd": batch(3, codec=4),
    }


async def broken(session: Session) -> None:
    topic_id = await session.topic("broken", 1)
    compacted_id = await session.topic("compacted", 1, cleanup_policy="compact")
    for version in FEW:
        for label, data in _broken_batches().items():
            await session.ask(label, produce(session, "broken", topic_id, (0, data)), version)
            request = produce(session, "compacted", compacted_id, (0, data))
            await session.ask(f"{label}, to a compacted topic", request, version)


async def by_topic(session: Session) -> None:
    """Settings of the topic that have a say."""
    topics: dict[str, dict[str, str]] = {
        "small": {"max_message_bytes": "300"},
        "tiny-segments": {"segment_bytes": "1048576", "max_message_bytes": "2000000"},
        "past": {"message_timestamp_before_max_ms": "1000"},
        "future": {"message_timestamp_after_max_ms": "1000"},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
        "gzipped": {"compression_type": "gzip"},
        "unpacked": {"compression_type": "uncompressed"},
        "two": {"min_insync_replicas": "2"},
    }
    far = 4_000_000_000_000
    for number, (name, settings) in enumerate(topics.items()):
        topic_id = await session.topic(name, 1, **settings)
        for version, acks in ((3, 1), (8, -1), (13, 1), (13, -1)):
            for label, data in {
                "one": batch(1),
                "many": batch(20),
                "large": batch(3, size=400),
                "huge": batch(1, size=1_100_000),
                "ancient": batch(2, at_ms=1_000),
                "to come": batch(2, at_ms=far),
                "no time": batch(2, at_ms=-1, step_ms=0),
                "packed": batch(5, codec=1, size=100),
            }.items():
                if label == "huge" and (version != 13 or number):
                    continue
                request = produce(session, name, topic_id, (0, data), acks=acks)
                await session.ask(f"{label} to {name}, acks {acks}", request, version)


async def sequences(session: Session) -> None:
    topic_id = await session.topic("sequences", len(FEW))
    for index, version in enumerate(FEW):
        for step, (epoch, sequence, count) in enumerate(STEPS):
            data = batch(count, producer_id=70, producer_epoch=epoch, base_sequence=sequence)
            request = produce(session, "sequences", topic_id, (index, data))
            await session.ask(f"{step}: epoch {epoch}, {sequence}, {count}", request, version)


async def deleting(session: Session) -> None:
    topic_id = await session.topic("deleting", 2)
    await session.topic("kept", 1, cleanup_policy="compact")
    await session.get(produce(session, "deleting", topic_id, (0, batch(10))))
    for version in versions("DeleteRecords"):
        for name, index, offset in (
            *(("deleting", 0, each) for each in (0, 3, 2, -2, 11, 10**12)),
            *(("deleting", 9, 0), ("none", 0, 0), ("kept", 0, 0), ("kept", 0, -1), ("deleting", 1, -1)),
        ):
            row = DeleteRecordsTopic(session.name(name), [DeleteRecordsPartition(index, offset)])
            await session.ask(f"{name} {index} {offset}", DeleteRecordsRequest([row], 5_000), version)
        await session.ask("nothing", DeleteRecordsRequest([], 5_000), version)
        row = DeleteRecordsTopic("__consumer_offsets", [DeleteRecordsPartition(0, 0)])
        await session.ask("an internal one", DeleteRecordsRequest([row], 5_000), version)
    row = DeleteRecordsTopic(session.name("deleting"), [DeleteRecordsPartition(0, -1)])
    await session.ask("all", DeleteRecordsRequest([row], 5_000))


async def walk(session: Session, rng: random.Random) -> None:
    """Batches with a random byte of their head changed, half of them with a check sum to fit."""
    topic_id = await session.topic("walk", 2)
    for number in range(150):
        data = batch(rng.choice((1, 2, 5)), codec=rng.choice((0, 0, 0, 1, 4)))
        at = rng.randrange(8, 61)
        data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x10))
        if rng.random() < 0.7:
            struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[CHECKED_AT:]))
        request = produce(session, "walk", topic_id, (rng.choice((0, 1)), data), acks=rng.choice((1, -1)))
        await session.ask(f"{number} at {at}: {data[at]}", request, rng.choice(FEW))
