"""ShareFetch hands records out once, and again when they come back."""

import asyncio

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, RELEASE, RENEW, ShareMember, acquired, produce, values

GROUP_RESOURCE = 32


async def set_group(world: NodeWorld, name: str, value: str, group: str = "g") -> None:
    client = await world.connect()
    resource = AlterConfigsResource(GROUP_RESOURCE, group, [AlterableConfig(name, 0, value)])
    reply = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
    assert reply.responses[0].error_code == 0, reply
    client.close()


@simulated()
async def test_records_are_handed_out_and_acknowledged_for_good(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    member = await ShareMember.connect(world)
    await member.join("t")
    assert member.assigned == [topic]
    assert acquired(await member.fetch()) == []
    await produce(world, "t", b"a", b"b", b"c")
    reply = await member.fetch()
    assert (acquired(reply), values(reply)) == ([(0, 2, 1)], [b"a", b"b", b"c"])
    assert reply.acquisition_lock_timeout_ms == 30_000
    answered = await member.acknowledge({topic: [(0, 2, [ACCEPT, RELEASE, ACCEPT])]})
    assert answered.responses[0].partitions[0].error_code == 0
    assert acquired(await member.fetch()) == [(1, 1, 2)]
    await world.stop()
    await world.start()
    again = await ShareMember.connect(world, member_id="m2")
    await again.join("t")
    assert acquired(await again.fetch(max_wait_ms=5000)) == [(1, 1, 2)]


@simulated()
async def test_a_fetch_waits_for_records_and_two_members_never_get_the_same(world: NodeWorld) -> None:
    await world.create_topic("t")
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join("t")
    await two.join("t")
    while not two.assigned:
        await world.pass_time(500)
        await two.heartbeat()
    await one.fetch()
    await two.fetch()
    waiting = asyncio.ensure_future(one.fetch(max_wait_ms=60_000, max_records=2))
    await produce(world, "t", *(b"%d" % number for number in range(6)), together=False)
    first, second = acquired(await waiting), acquired(await two.fetch(max_wait_ms=5000))
    both = sorted(offset for begin, end, _ in first + second for offset in range(begin, end + 1))
    assert len(both) == len(set(both))
    assert first
    assert second


@simulated()
async def test_whole_batches_or_exactly_as_many_as_asked_for(world: NodeWorld) -> None:
    await world.create_topic("t")
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", *(b"%d" % number for number in range(10)))
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch(max_records=3, share_acquire_mode=1)) == [(0, 2, 1)]
    assert acquired(await member.fetch(max_records=3, share_acquire_mode=0)) == [(3, 9, 1)]


@simulated()
async def test_acknowledgements_travel_with_a_fetch_and_errors_stay_with_their_partition(
    world: NodeWorld,
) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a", b"b")
    member = await ShareMember.connect(world)
    await member.join("t")
    refused = await member.fetch({topic: [(0, 0, [ACCEPT])]})
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    await member.fetch()
    reply = await member.fetch({topic: [(0, 1, [ACCEPT])]}, max_wait_ms=0)
    assert reply.responses[0].partitions[0].acknowledge_error_code == 0
    reply = await member.fetch({topic: [(0, 1, [ACCEPT])]}, max_wait_ms=0)
    assert reply.responses[0].partitions[0].acknowledge_error_code == 0  # they are done, and left behind
    await produce(world, "t", b"c")
    await member.fetch()
    reply = await member.fetch({topic: [(2, 3, [ACCEPT])]}, max_wait_ms=0)
    assert reply.responses[0].partitions[0].acknowledge_error_code == ErrorCode.INVALID_REQUEST


@simulated()
async def test_a_lock_ends_and_can_be_renewed(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "share.record.lock.duration.ms", "15000")
    await produce(world, "t", b"a")
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch()) == [(0, 0, 1)]
    await world.pass_time(10_000)
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    reply = await member.fetch({topic: [(0, 0, [RENEW])]}, is_renew_ack=True, **limits)
    assert reply.responses[0].partitions[0].acknowledge_error_code == 0
    await world.pass_time(10_000)
    assert acquired(await member.fetch(max_wait_ms=0)) == []
    assert acquired(await member.fetch(max_wait_ms=20_000)) == [(0, 0, 2)]


@simulated()
async def test_a_record_is_given_up_after_its_last_delivery(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "share.delivery.count.limit", "2")
    await produce(world, "t", b"a", b"b", together=False)
    member = await ShareMember.connect(world)
    await member.join("t")
    for count in (1, 2):
        assert acquired(await member.fetch()) == [(0, 1, count)]
        await member.acknowledge({topic: [(0, 1, [RELEASE])]})
    assert acquired(await member.fetch()) == []


@simulated()
async def test_what_a_member_holds_goes_back_when_its_session_or_connection_ends(world: NodeWorld) -> None:
    await world.create_topic("t")
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a")
    one = await ShareMember.connect(world, member_id="m1")
    await one.join("t")
    assert acquired(await one.fetch()) == [(0, 0, 1)]
    assert (await one.fetch(epoch=-1)).error_code == 0
    assert (await one.fetch(epoch=3)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    one.session_epoch = 0
    assert acquired(await one.fetch()) == [(0, 0, 2)]
    assert (await one.fetch(epoch=5)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    one.client.close()
    two = await ShareMember.connect(world, member_id="m2")
    await two.join("t")
    while not two.assigned:
        await world.pass_time(500)
        await two.heartbeat()
    assert acquired(await two.fetch(max_wait_ms=5000)) == [(0, 0, 3)]


@simulated(group_share_max_share_sessions="1")
async def test_there_are_so_many_sessions_and_no_more(world: NodeWorld) -> None:
    await world.create_topic("t")
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    assert (await one.fetch(max_wait_ms=0)).error_code == 0
    assert (await two.fetch(max_wait_ms=0)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@simulated()
async def test_what_comes_back_rests_longer_each_time_and_does_not_keep_others_waiting(
    world: NodeWorld,
) -> None:
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "headrace.share.retry.backoff.ms", "10000")
    await produce(world, "t", b"a", b"b", together=False)
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch(max_records=1)) == [(0, 0, 1)]
    for count in (1, 2):
        await member.acknowledge({topic: [(0, 0, [RELEASE])]})
        rests_ms = 10_000 * 2 ** (count - 1)
        reply = await member.fetch(max_wait_ms=int(rests_ms * 0.7))
        assert acquired(reply) == ([(1, 1, 1)] if count == 1 else [])
        assert acquired(await member.fetch(max_wait_ms=rests_ms)) == [(0, 0, count + 1)]
    await member.acknowledge({topic: [(0, 1, [ACCEPT])]})
    assert member_holds_nothing(world)


@simulated(group_share_partition_max_record_locks="100", group_share_min_partition_max_record_locks="100")
async def test_what_rests_leaves_room_in_the_window(world: NodeWorld) -> None:
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "headrace.share.retry.backoff.ms", "600000")
    await produce(world, "t", *(b"%d" % number for number in range(300)), together=False)
    member = await ShareMember.connect(world)
    await member.join("t")
    begin = 0
    while begin < 300:
        ((first, last, _),) = acquired(await member.fetch(max_records=100, share_acquire_mode=1))
        assert first == begin
        await member.acknowledge({topic: [(first, last, [RELEASE])]})
        begin = last + 1


def member_holds_nothing(world: NodeWorld) -> bool:
    return all(led.core.in_flight() == 0 for led in world.node.parts.share_groups.manager)
