"""ShareAcknowledge is for who holds the records, and for nobody else."""

from headrace.base.error_codes import ErrorCode
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, REJECT, RENEW, ShareMember, acquired, produce
from tests.server.test_share_fetch import set_group


@simulated()
async def test_only_the_holder_answers_and_only_once(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a", b"b", together=False)
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join("t")
    two.assigned = one.assigned
    assert acquired(await one.fetch()) == [(0, 1, 1)]
    assert acquired(await two.fetch(max_wait_ms=0)) == []

    async def answer(member: ShareMember, first: int, last: int, kind: int) -> int:
        reply = await member.acknowledge({topic: [(first, last, [kind])]})
        assert reply.error_code == 0, reply
        code: int = reply.responses[0].partitions[0].error_code
        return code

    assert await answer(two, 0, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert await answer(one, 1, 1, REJECT) == 0
    assert await answer(one, 1, 1, ACCEPT) == ErrorCode.INVALID_RECORD_STATE
    assert await answer(one, 0, 0, 9) == ErrorCode.INVALID_REQUEST
    assert await answer(one, 1, 0, ACCEPT) == ErrorCode.INVALID_REQUEST
    assert await answer(one, 0, 0, ACCEPT) == 0
    assert acquired(await two.fetch(max_wait_ms=0)) == []


@simulated()
async def test_a_session_is_needed_and_its_end_releases_the_rest(world: NodeWorld) -> None:
    topic = (await world.create_topic("t"), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await produce(world, "t", b"a", b"b")
    member = await ShareMember.connect(world)
    await member.join("t")
    answers = {topic: [(0, 0, [ACCEPT])]}
    assert (await member.acknowledge(answers)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    refused = await member.acknowledge(answers, epoch=1)
    assert refused.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    await member.fetch()
    for ask in (member.acknowledge, member.fetch):  # and the session goes on
        reply = await ask({topic: [(0, 0, [RENEW])]})
        partition = reply.responses[0].partitions[0]
        code = getattr(partition, "acknowledge_error_code", partition.error_code)
        assert (reply.error_code, code) == (0, ErrorCode.INVALID_REQUEST)
    reply = await member.acknowledge(answers, epoch=-1)
    assert reply.responses[0].partitions[0].error_code == 0
    member.session_epoch = 0
    assert acquired(await member.fetch()) == [(1, 1, 2)]
