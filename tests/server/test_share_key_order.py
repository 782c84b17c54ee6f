"""ShareFetch of groups with order by key: one record of each key at a time, whoever asks or leads; and of
groups with delivery times."""

import asyncio

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import Record, build_batch
from headrace.records.codecs import Codec
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, RELEASE, ShareMember, acquired, values
from tests.server.test_share_fetch import set_group


async def produce_keys(
    world: NodeWorld, *batches: str, value: bytes = b"", codec: Codec = Codec.NONE, in_ms: int | None = None
) -> None:
    """A record for each letter, of this key and with it as its value; a dot has none. They are to be
    delivered in some milliseconds."""
    client = await world.connect()
    for keys in batches:
        at_ms = b"%d" % (world.node.parts.clock.now_ms() + (in_ms or 0))
        headers = () if in_ms is None else (("headrace-deliver-at-ms", at_ms),)
        records = [
            Record(0, 1, None if key == "." else key.encode(), key.encode() + value, headers) for key in keys
        ]
        batch = bytes(build_batch(records, codec=codec))
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
        reply = await client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
        assert reply.responses[0].partition_responses[0].error_code == 0
    client.close()


async def topic_in_order(world: NodeWorld) -> tuple[bytes, int]:
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "headrace.share.key.order", "true")
    return topic


@simulated()
async def test_keys_go_out_one_by_one_and_a_new_leader_goes_on_from_there(world: NodeWorld) -> None:
    topic = await topic_in_order(world)
    await produce_keys(world, "aab", "b.", "a", codec=Codec.LZ4)
    await produce_keys(world, "aaaa", "c")
    one = await ShareMember.connect(world)
    await one.join("t")
    reply = await one.fetch(max_wait_ms=5000)
    assert acquired(reply) == [(0, 0, 1), (2, 2, 1), (4, 4, 1), (10, 10, 1)]
    assert values(reply) == [b"a", b"a", b"b", b"b", b".", b"c"], "only batches of which something is wanted"
    assert acquired(await one.fetch(max_wait_ms=1000)) == []
    await one.acknowledge({topic: [(0, 0, [ACCEPT]), (2, 2, [RELEASE]), (4, 4, [ACCEPT])]})
    assert acquired(await one.fetch()) == [(1, 1, 1), (2, 2, 2)]
    await world.stop()
    await world.start()
    two = await ShareMember.connect(world, member_id="m2")
    await two.join("t")
    assert acquired(await two.fetch(max_wait_ms=5000)) == [(1, 1, 1), (2, 2, 2), (10, 10, 1)]
    await two.acknowledge({topic: [(1, 2, [ACCEPT])]})
    assert acquired(await two.fetch()) == [(3, 3, 1), (5, 5, 1)]


@simulated()
async def test_whoever_waits_is_given_what_lies_far_behind_one_busy_key(world: NodeWorld) -> None:
    topic = await topic_in_order(world)
    await produce_keys(world, *["a" * 20] * 30, value=bytes(2000))  # more than is looked at in one go
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join("t")
    await two.join("t")
    assert acquired(await one.fetch(max_wait_ms=5000, max_records=1)) == [(0, 0, 1)]
    while not two.assigned:
        await world.pass_time(500)
        await two.heartbeat()
    waiting = asyncio.ensure_future(two.fetch(max_wait_ms=15_000))
    await produce_keys(world, "b")
    reply = await waiting
    assert acquired(reply) == [(600, 600, 1)]
    assert values(reply) == [b"b"]
    await one.acknowledge({topic: [(0, 0, [ACCEPT])]})
    assert acquired(await two.fetch(max_wait_ms=5000)) == [(1, 1, 1)]


@simulated(group_share_record_lock_duration_ms="15000")
async def test_a_lock_that_ends_for_the_last_time_lets_the_next_go(world: NodeWorld) -> None:
    await topic_in_order(world)
    await set_group(world, "share.delivery.count.limit", "2")
    await produce_keys(world, "aa")
    member = await ShareMember.connect(world)
    await member.join("t")
    for expected in ((0, 0, 1), (0, 0, 2), (1, 1, 1)):
        assert acquired(await member.fetch(max_wait_ms=18_000)) == [expected]


@simulated(group_share_record_lock_duration_ms="15000")
async def test_what_is_given_up_keeps_its_turn_until_that_is_written(world: NodeWorld) -> None:
    """Else a new leader would hand it out again, behind the next of its key."""
    await topic_in_order(world)
    await set_group(world, "share.delivery.count.limit", "2")
    await produce_keys(world, "aab")
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch(max_wait_ms=5_000)) == [(0, 0, 1), (2, 2, 1)]
    assert acquired(await member.fetch(max_wait_ms=18_000)) == [(0, 0, 2), (2, 2, 2)]
    persister = world.node.parts.share_groups.persister
    rightly, persister.write = persister.write, lambda key, state, done: done(ErrorCode.NETWORK_EXCEPTION)
    assert acquired(await member.fetch(max_wait_ms=18_000)) == []
    persister.write = rightly
    assert acquired(await member.fetch(max_wait_ms=18_000)) == [(1, 1, 1)]


@simulated()
async def test_a_record_is_not_handed_out_before_its_time_and_keeps_nobody_waiting(world: NodeWorld) -> None:
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "headrace.share.deliver.at", "true")
    await produce_keys(world, "aa", in_ms=60_000)
    await produce_keys(world, "b", in_ms=12_000)
    await produce_keys(world, "a")
    one = await ShareMember.connect(world)
    await one.join("t")
    assert acquired(await one.fetch(max_wait_ms=5_000)) == [(3, 3, 1)]
    assert acquired(await one.fetch(max_wait_ms=4_000)) == []
    assert acquired(await one.fetch(max_wait_ms=15_000)) == [(2, 2, 1)]
    await one.acknowledge({topic: [(2, 3, [ACCEPT])]})
    await world.stop()
    await world.start()
    two = await ShareMember.connect(world, member_id="m2")
    await two.join("t")
    for _ in range(2):
        assert acquired(await two.fetch(max_wait_ms=10_000)) == []
    await world.pass_time(15_000)
    assert acquired(await two.fetch(max_wait_ms=15_000)) == [(0, 1, 1)]


@simulated()
async def test_a_key_waits_for_the_time_of_its_first_record(world: NodeWorld) -> None:
    topic = await topic_in_order(world)
    await set_group(world, "headrace.share.deliver.at", "true")
    await produce_keys(world, "a", in_ms=10_000)
    await produce_keys(world, "ab")
    await produce_keys(world, "b", in_ms=14_000)
    member = await ShareMember.connect(world)
    await member.join("t")
    for offset in (2, 0, 1, 3):
        assert acquired(await member.fetch(max_wait_ms=15_000)) == [(offset, offset, 1)]
        await member.acknowledge({topic: [(offset, offset, [ACCEPT])]})
