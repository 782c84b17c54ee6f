"""SharePartition: what is handed out, what comes back, and what is written."""

import random

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey
from headrace.coordinators.share.state_batches import StateBatch, put_batches
from headrace.server.share.acquiring import Limits, LogBatch
from headrace.server.share.in_flight_batch import RecordState
from headrace.server.share.share_partition import Acknowledgement, SharePartition, changes_of

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
KEY = SharePartitionKey("g", b"t" * 16, 0)


def new_partition(start: int = 0, batches: tuple[StateBatch, ...] = ()) -> SharePartition:
    return SharePartition(KEY, leader_epoch=1, state_epoch=1, start_offset=start, batches=batches)


def limits(
    records: int = 100, *, strict: bool = False, until: int = 1000, batch: int = 100, limit: int = 5
) -> Limits:
    return Limits(records, batch, strict, until, 1000, limit)


def answer(
    partition: SharePartition, member: str, *answers: tuple[int, int, list[int]], limit: int = 5
) -> None:
    transition = partition.acknowledge(
        member, [Acknowledgement(*each) for each in answers], delivery_count_limit=limit, renew_until_ms=9000
    )
    partition.commit(transition)


def shown(partition: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(each.first, each.last, each.state.name, each.delivery_count) for each in partition]


def states_of(partition: SharePartition) -> list[str]:
    """Of each offset in the window."""
    return [state for first, last, state, _ in shown(partition) for _ in range(first, last + 1)]


LOG = [LogBatch(0, 4), LogBatch(5, 9), LogBatch(10, 10)]


def test_whole_batches_are_acquired_and_cut_where_answers_differ() -> None:
    partition = new_partition()
    assert partition.acquire("a", LOG, limits(3)) == [(0, 4, 1)]
    assert partition.acquire("b", LOG[1:], limits(batch=4)) == [(5, 9, 1), (10, 10, 1)]
    answer(partition, "a", (0, 4, [ACCEPT, RELEASE, RELEASE, REJECT, ACCEPT]))
    assert shown(partition)[:3] == [
        (1, 2, "AVAILABLE", 1),
        (3, 3, "ARCHIVED", 1),
        (4, 4, "ACKNOWLEDGED", 1),
    ]
    assert (partition.start_offset, partition.next_fetch_offset()) == (1, 1)
    assert partition.acquire("b", LOG, limits(1, strict=True)) == [(1, 1, 2)]


def test_a_limit_is_kept_exactly_where_that_is_asked_for() -> None:
    partition = new_partition()
    assert partition.acquire("a", LOG, limits(7, strict=True)) == [(0, 6, 1)]
    assert partition.next_fetch_offset() == 7
    assert partition.acquire("a", LOG[1:], limits(2, strict=True)) == [(7, 8, 1)]


def test_only_so_many_records_are_in_flight() -> None:
    partition = new_partition()
    few = limits()._replace(locks_max=6)
    assert partition.acquire("a", LOG, few) == [(0, 9, 1)]
    assert not partition.may_acquire(6)
    answer(partition, "a", (0, 7, [ACCEPT]))
    assert partition.may_acquire(6)


def test_what_the_log_does_not_have_is_given_up() -> None:
    partition = new_partition(0, (StateBatch(6, 7, 2, 1),))
    assert shown(partition) == [(0, 5, "AVAILABLE", 0), (6, 7, "ACKNOWLEDGED", 1)]
    log = [LogBatch(3, 4), LogBatch(5, 5, wanted=False), LogBatch(9, 12)]
    assert partition.acquire("a", log, limits()) == [(3, 4, 1), (9, 12, 1)]
    assert partition.start_offset == 3
    assert partition.next_fetch_offset() == 13


def test_what_comes_back_often_is_handed_out_in_ever_smaller_pieces() -> None:
    """As Kafka does: `suspects` in tests/compat/alike has its answers."""
    partition = new_partition()
    given = []
    for _ in range(8):
        acquired = partition.acquire("a", [LogBatch(0, 5)], limits(6, strict=True))
        given.append(acquired)
        answer(partition, "a", *((first, last, [RELEASE]) for first, last, _ in acquired))
    whole = [[(0, 5, count)] for count in (1, 2, 3)]
    assert given == [*whole, [(0, 2, 4)], [(0, 0, 5)], [(1, 1, 5)], [(2, 2, 5)], [(3, 5, 4)]]


@pytest.mark.parametrize("limit", [3, 4, 5, 10])
@pytest.mark.parametrize("strict", [False, True])
def test_one_bad_record_costs_no_other_its_life(limit: int, strict: bool) -> None:
    """Whoever gets it fails, and with it all that was given together."""
    for bad in (0, 13, 22, 39):
        partition, lost = new_partition(), set()
        log = [LogBatch(0, 9), LogBatch(10, 22), LogBatch(23, 39)]
        while (begin := partition.next_fetch_offset()) < 40:
            seen = [each for each in log if each.last_offset >= begin]
            given = partition.acquire("a", seen, limits(25, strict=strict, limit=limit))
            fails = any(first <= bad <= last for first, last, _ in given)
            kind = [RELEASE if fails else ACCEPT]
            answer(partition, "a", *((first, last, kind) for first, last, _ in given), limit=limit)
            if fails and max(count for _, _, count in given) == limit:
                lost.update(offset for first, last, _ in given for offset in range(first, last + 1))
        assert (partition.start_offset, lost) == (40, {bad})


def test_suspects_go_with_nothing_else() -> None:
    """Neither behind what is handed out for the first or second time, nor before it."""
    partition = new_partition(0, (StateBatch(0, 9, 0, 1), StateBatch(10, 19, 0, 3)))
    log = [LogBatch(0, 9), LogBatch(10, 19), LogBatch(20, 29)]
    assert partition.acquire("a", log, limits()) == [(0, 9, 2)]
    assert partition.acquire("b", log[1:], limits()) == [(10, 14, 4)]
    assert partition.acquire("c", log[1:], limits()) == [(15, 19, 4)]
    assert partition.acquire("c", log[2:], limits()) == [(20, 29, 1)]


def test_nothing_new_fills_up_what_suspects_leave() -> None:
    partition = new_partition(0, (StateBatch(0, 9, 0, 5), StateBatch(12, 12, 2, 1)))
    log = [LogBatch(0, 9), LogBatch(10, 12), LogBatch(13, 19)]
    for member, given in (("a", (0, 4, 6)), ("b", (5, 9, 6))):
        assert partition.acquire(member, log, limits(limit=10)) == [given]
    answer(partition, "b", (9, 9, [RELEASE]), limit=10)
    assert partition.acquire("c", log, limits(limit=10)) == [(9, 9, 7)]
    assert partition.acquire("c", log[1:], limits(limit=10)) == [(10, 11, 1), (13, 19, 1)]


@pytest.mark.parametrize(
    ("types", "states"),
    [
        ([2, 0, 3], ["AVAILABLE", "ARCHIVED", "ARCHIVED"]),
        ([1, 3, 1], ["ACKNOWLEDGED", "ARCHIVED", "ACKNOWLEDGED"]),
        ([0, 2, 1], ["ARCHIVED", "AVAILABLE", "ACKNOWLEDGED"]),
        ([0], ["ARCHIVED"] * 3),
    ],
)
def test_each_offset_has_its_own_answer_and_a_gap_is_given_up(types: list[int], states: list[str]) -> None:
    partition = new_partition()
    partition.acquire("a", LOG, limits())
    answer(partition, "a", (0, 1, [RELEASE]), (4, 6, types))  # over the end of a batch
    assert states_of(partition)[4:7] == states


@pytest.mark.parametrize(
    ("first", "types", "code"),
    [
        (2, [2, 0, 3], ErrorCode.INVALID_RECORD_STATE),  # the first is somebody else's
        (5, [1, 3, 1], ErrorCode.INVALID_RECORD_STATE),  # in the middle
        (4, [2, 0, 3], ErrorCode.INVALID_RECORD_STATE),  # the last was given back
        (7, [2, 0, 3], ErrorCode.INVALID_RECORD_STATE),  # not handed out, though in the window
        (8, [2, 0, 3], ErrorCode.INVALID_REQUEST),  # past it: that comes before whose it is
        (10, [2, 0, 3], ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_array_with_one_offset_that_is_not_held_changes_nothing(
    first: int, types: list[int], code: ErrorCode
) -> None:
    partition = new_partition()
    partition.acquire("b", LOG, limits(3, strict=True))
    partition.acquire("a", LOG, limits(5, strict=True))
    answer(partition, "a", (6, 6, [RELEASE]))
    before = states_of(partition)
    with pytest.raises(ApiError) as refused:
        answer(partition, "a", (first, first + 2, types))
    assert (refused.value.code, states_of(partition)) == (code, before)


def test_an_empty_window_has_nothing_to_answer_for() -> None:
    partition = new_partition()
    with pytest.raises(ApiError) as refused:
        answer(partition, "a", (0, 2, [1, 3, 1]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("member", "first", "last", "kind", "code"),
    [
        ("b", 0, 4, ACCEPT, ErrorCode.INVALID_RECORD_STATE),
        ("a", 0, 11, ACCEPT, ErrorCode.INVALID_REQUEST),
        ("a", 5, 5, ACCEPT, ErrorCode.INVALID_RECORD_STATE),
        ("a", 3, 6, ACCEPT, ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_a_wrong_answer_changes_nothing(
    member: str, first: int, last: int, kind: int, code: ErrorCode
) -> None:
    partition = new_partition()
    partition.acquire("a", LOG, limits(1))
    partition.acquire("b", LOG[1:], limits(1))
    answer(partition, "b", (5, 9, [RELEASE]))
    with pytest.raises(ApiError) as refused:
        answer(partition, member, (0, 0, [ACCEPT]) if first else (1, 1, [ACCEPT]), (first, last, [kind]))
    assert refused.value.code is code
    assert {each.state for each in partition if each.last < 5} == {RecordState.ACQUIRED}
    assert all(each.next_state is None for each in partition)


def test_until_an_answer_is_written_nobody_gets_the_records() -> None:
    partition = new_partition()
    partition.acquire("a", LOG, limits(1))
    pending = partition.acknowledge(
        "a", [Acknowledgement(0, 4, [RELEASE])], delivery_count_limit=5, renew_until_ms=None
    )
    assert partition.next_fetch_offset() == 5
    with pytest.raises(ApiError):
        answer(partition, "a", (0, 4, [ACCEPT]))
    assert partition.expire(5000, 5) == []
    partition.roll_back(pending)
    answer(partition, "a", (0, 4, [ACCEPT]))
    assert partition.start_offset == 5


def test_locks_end_by_time_and_with_their_member_and_deliveries_are_counted() -> None:
    partition = new_partition()
    for count in (1, 2):
        assert partition.acquire("a", LOG, limits(1, until=1000 * count)) == [(0, 4, count)]
        assert partition.expire(1000 * count - 1, 3) == []
        partition.commit(partition.expire(1000 * count, 3))
    partition.acquire("a", LOG, limits(1))
    answer(partition, "a", (0, 0, [RENEW]))
    partition.commit(partition.expire(1000, 3))
    assert shown(partition) == [(0, 0, "ACQUIRED", 3), (1, 4, "ARCHIVED", 3)]
    partition.commit(partition.release("a", 3))
    assert partition.start_offset == 5


def test_the_log_s_start_takes_the_window_with_it() -> None:
    partition = new_partition()
    partition.acquire("a", LOG, limits())
    assert partition.follow_log_start(7)
    assert shown(partition) == [(7, 10, "ACQUIRED", 1)]
    answer(partition, "a", (0, 8, [ACCEPT]))
    assert partition.start_offset == 9
    assert partition.follow_log_start(50)
    assert (partition.start_offset, partition.next_fetch_offset()) == (50, 50)


def test_whatever_happens_a_successor_knows_what_was_written() -> None:
    """Random members on one partition: no record is held by two, none that was accepted comes back, counts
    keep to the limit, and whoever loads what was written goes on from there."""
    for seed in range(60):
        rng = random.Random(seed)
        partition, kept, kept_start = new_partition(), [], 0
        log = _random_log(rng)
        holders: dict[int, str] = {}
        accepted: set[int] = set()
        for now in range(120):
            member, action = rng.choice("abc"), rng.random()
            if action < 0.5:
                begin = partition.next_fetch_offset()
                seen = [each for each in log if each.last_offset >= begin]
                wish = Limits(rng.randrange(1, 8), rng.randrange(1, 9), rng.random() < 0.5, now + 20, 30, 3)
                for first, last, count in partition.acquire(member, seen, wish):
                    assert 1 <= count <= 3
                    for offset in range(first, last + 1):
                        assert offset not in holders
                        assert offset not in accepted
                        holders[offset] = member
            elif action < 0.9:
                mine = sorted(offset for offset, holder in holders.items() if holder == member)
                if not mine:
                    continue
                chosen = rng.sample(mine, rng.randrange(1, len(mine) + 1))
                answers = [
                    Acknowledgement(each, each, [rng.choice((ACCEPT, RELEASE, REJECT))])
                    for each in sorted(chosen)
                ]
                transition = partition.acknowledge(
                    member, answers, delivery_count_limit=3, renew_until_ms=None
                )
                state = partition.to_write(changes_of(transition))
                if rng.random() < 0.2:
                    partition.roll_back(transition)
                    continue
                put_batches(kept, state.batches, state.start_offset)
                kept_start = state.start_offset
                partition.commit(transition)
                for each in answers:
                    holders.pop(each.first_offset)
                    if each.types == [ACCEPT]:
                        accepted.add(each.first_offset)
            else:
                for batch in partition.expire(now, 3):
                    for offset in range(batch.first, batch.last + 1):
                        holders.pop(offset)
                partition.commit([each for each in partition if each.next_state is not None])
            _check_cover(partition)
        successor = new_partition(kept_start, tuple(kept))
        done = {
            offset
            for each in successor
            if each.state is RecordState.ACKNOWLEDGED
            for offset in range(each.first, each.last + 1)
        }
        assert all(offset in done or offset < successor.start_offset for offset in accepted)


def _random_log(rng: random.Random) -> list[LogBatch]:
    log, at = [], 0
    while at < 60:
        at += rng.choice((0, 0, 0, 2))
        size = rng.randrange(1, 9)
        log.append(LogBatch(at, at + size - 1, wanted=rng.random() < 0.85))
        at += size
    return log


def _check_cover(partition: SharePartition) -> None:
    at = partition.start_offset
    for each in partition:
        assert (each.first, each.last >= each.first) == (at, True)
        at = each.last + 1
    assert at == partition.end_offset + 1
