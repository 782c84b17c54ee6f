"""Records that a share group rejects or gives up go to its dead-letter queue (KIP-1191)."""

from typing import Any

import pytest

from headrace.records.batch import Record, batches, read_records
from headrace.server.share.dead_letter_queue import DeadLetterQueue
from headrace.server.share.dead_letters import REJECTED, USED_UP, that_fit
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, REJECT, RELEASE, ShareMember, acquired, produce
from tests.server.test_share_fetch import set_group

QUEUE = "dlq.t"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


async def with_dead_letters(world: NodeWorld, **settings: str) -> tuple[ShareMember, tuple[bytes, int]]:
    """A group with a queue, and a member of it."""
    client = await world.connect()
    levels = [FeatureUpdateKey("metadata.version", 31, upgrade_type=1)]
    levels.append(FeatureUpdateKey("share.version", 2, upgrade_type=1))
    reply = await client.ask(UpdateFeaturesRequest(10_000, levels), 2)
    assert reply.error_code == 0, reply
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    for name, value in {"errors.deadletterqueue.topic.name": QUEUE, **settings}.items():
        await set_group(world, name, value)
    await set_group(world, "share.auto.offset.reset", "earliest")
    member = await ShareMember.connect(world)
    await member.join("t")
    return member, topic


def letters(world: NodeWorld, index: int = 0) -> list[Record]:
    log = world.log(QUEUE, index)
    data = log.read(0, max_bytes=1 << 20).chunk.read() if log.log_end_offset else b""
    return [each for position, _ in batches(data) for each in read_records(data, position)]


def headers(letter: Record) -> dict[str, bytes | None]:
    return dict(letter.headers)


def is_over(world: NodeWorld) -> bool:
    return all(led.core.first_archiving() is None for led in world.node.parts.share_groups.manager)


@simulated()
async def test_a_rejected_record_leaves_a_letter_that_says_why(world: NodeWorld) -> None:
    await world.create_topic(QUEUE, partitions=2, configs=ENABLED)
    member, topic = await with_dead_letters(world)
    await produce(world, "t", b"a", b"b", b"c")
    assert acquired(await member.fetch()) == [(0, 2, 1)]
    await member.acknowledge({topic: [(0, 2, [ACCEPT, REJECT, ACCEPT])]})
    await world.until(lambda: len(letters(world)) == 1 and is_over(world), "the letter")
    (letter,) = letters(world)
    assert (letter.key, letter.value) == (None, None)
    assert headers(letter) == {
        "__dlq.errors.topic": b"t",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"g",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": REJECTED.encode(),
        "headrace.dlq.member": b"m1",
        "headrace.dlq.timestamp": b"1",
    }
    assert letters(world, 1) == []
    assert acquired(await member.fetch(max_wait_ms=0)) == []


@simulated()
async def test_what_is_handed_out_too_often_goes_there_with_its_value(world: NodeWorld) -> None:
    await world.create_topic(QUEUE, configs=ENABLED)
    copies = {"errors.deadletterqueue.copy.record.enable": "true", "share.delivery.count.limit": "2"}
    member, topic = await with_dead_letters(world, **copies)
    await produce(world, "t", b"a", b"b", together=False)
    for count in (1, 2):
        assert acquired(await member.fetch()) == [(0, 1, count)]
        await member.acknowledge({topic: [(0, 1, [RELEASE])]})
    await world.until(lambda: is_over(world), "the letters")
    found = letters(world)
    assert [each.value for each in found] == [b"a", b"b"]
    assert {headers(each)["__dlq.errors.message"] for each in found} == {USED_UP.encode()}
    assert acquired(await member.fetch(max_wait_ms=0)) == []


@simulated(errors_deadletterqueue_auto_create_topics_enable="true")
async def test_a_queue_is_made_where_that_is_allowed(world: NodeWorld) -> None:
    member, topic = await with_dead_letters(world)
    await produce(world, "t", b"a")
    await member.fetch()
    await member.acknowledge({topic: [(0, 0, [REJECT])]})
    await world.until(lambda: is_over(world), "the letter")
    assert len(letters(world)) == 1
    assert world.node.image.topic_config_of(QUEUE)["errors.deadletterqueue.group.enable"] == "true"


@pytest.mark.parametrize("name", [QUEUE, "other", "__secret"])
@simulated()
async def test_a_topic_that_does_not_allow_it_gets_none(world: NodeWorld, name: str) -> None:
    await world.create_topic(name, configs={} if name == QUEUE else ENABLED)
    member, topic = await with_dead_letters(world, **{"errors.deadletterqueue.topic.name": name})
    await produce(world, "t", b"a")
    await member.fetch()
    await member.acknowledge({topic: [(0, 0, [REJECT])]})
    await world.until(lambda: is_over(world), "the end of it")
    assert world.log(name).log_end_offset == 0
    assert acquired(await member.fetch(max_wait_ms=0)) == []


@simulated()
async def test_who_starts_again_goes_on_with_the_letters(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create_topic(QUEUE, configs=ENABLED)
    member, topic = await with_dead_letters(world)
    await produce(world, "t", b"a")
    await member.fetch()

    async def fail(*_: Any) -> None:
        raise ConnectionError("the queue's leader is gone")

    monkeypatch.setattr(DeadLetterQueue, "_produce", fail)
    await member.acknowledge({topic: [(0, 0, [REJECT])]})
    await world.pass_time(30_000)
    assert not is_over(world)
    assert acquired(await member.fetch(max_wait_ms=0)) == []  # nobody else gets it meanwhile
    await world.stop()
    monkeypatch.undo()
    await world.start()
    again = await ShareMember.connect(world, member_id="m2")
    await again.join("t")
    while not again.assigned:
        await world.pass_time(500)
        await again.heartbeat()
    assert acquired(await again.fetch(max_wait_ms=5_000)) == []
    await world.until(lambda: len(letters(world)) == 1 and is_over(world), "the letter")
    assert [headers(each)["__dlq.errors.message"] for each in letters(world)] == [REJECTED.encode()]


@simulated()
async def test_without_the_feature_nothing_is_written(world: NodeWorld) -> None:
    await world.create_topic(QUEUE, configs=ENABLED)
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "errors.deadletterqueue.topic.name", QUEUE)
    await set_group(world, "share.auto.offset.reset", "earliest")
    member = await ShareMember.connect(world)
    await member.join("t")
    await produce(world, "t", b"a", b"b")
    await member.fetch()
    await member.acknowledge({topic: [(0, 1, [REJECT])]})
    assert acquired(await member.fetch(max_wait_ms=1_000)) == []
    assert letters(world) == []


def test_a_batch_of_letters_has_a_limit() -> None:
    many = [Record(value=bytes(400)) for _ in range(5)]
    assert len(that_fit(many, 1_000)) == 2
    assert len(that_fit([Record(value=bytes(4_000))], 1_000)) == 1
