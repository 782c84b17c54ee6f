"""A group that gives up everything is stopped, tried with one record, and goes on."""

from headrace.server.share.circuit_breaker import CircuitBreaker
from headrace.server.share.in_flight_batch import InFlightBatch, RecordState
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ACCEPT, REJECT, ShareMember, acquired, produce
from tests.server.test_share_fetch import set_group


def about_to_be(state: RecordState, first: int, last: int) -> InFlightBatch:
    batch = InFlightBatch(first, last, RecordState.AVAILABLE, 0)
    batch.acquire("m", 0)
    batch.next_state = state
    return batch


def test_it_counts_what_is_given_up_in_a_row() -> None:
    breaker = CircuitBreaker()

    def note(state: RecordState, count: int, now_ms: int) -> bool:
        batches = [about_to_be(state, 0, count - 1)]
        return breaker.note(batches, records_max=5, pause_ms=1_000, now_ms=now_ms)

    assert not note(RecordState.ARCHIVED, 4, 0)
    assert not note(RecordState.ACKNOWLEDGED, 1, 0)
    assert not note(RecordState.ARCHIVING, 4, 0)
    assert not note(RecordState.AVAILABLE, 9, 0)
    assert note(RecordState.ARCHIVING, 1, 100)
    assert breaker.is_closed(1_099)
    assert not breaker.is_closed(1_100)
    assert breaker.is_on_trial
    assert note(RecordState.ARCHIVED, 1, 1_200)
    assert breaker.is_closed(2_100)
    note(RecordState.ACKNOWLEDGED, 1, 2_100)
    assert not breaker.is_on_trial


@simulated()
async def test_deliveries_pause_and_one_record_is_tried(world: NodeWorld) -> None:
    topic = (await world.create_topic("t", configs={"retention.ms": "-1"}), 0)
    await set_group(world, "share.auto.offset.reset", "earliest")
    await set_group(world, "headrace.share.breaker.records", "3")
    await set_group(world, "headrace.share.breaker.pause.ms", "30000")
    await produce(world, "t", *(b"%d" % number for number in range(9)), together=False)
    member = await ShareMember.connect(world)
    await member.join("t")
    assert acquired(await member.fetch(max_records=3)) == [(0, 2, 1)]
    await member.acknowledge({topic: [(0, 2, [REJECT])]})
    assert acquired(await member.fetch(max_wait_ms=15_000)) == []
    assert acquired(await member.fetch(max_wait_ms=20_000)) == [(3, 3, 1)]
    await member.acknowledge({topic: [(3, 3, [REJECT])]})
    assert acquired(await member.fetch(max_wait_ms=15_000)) == []
    assert acquired(await member.fetch(max_wait_ms=20_000)) == [(4, 4, 1)]
    await member.acknowledge({topic: [(4, 4, [ACCEPT])]})
    assert acquired(await member.fetch()) == [(5, 8, 1)]
