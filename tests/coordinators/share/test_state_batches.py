"""Batches of delivery state, laid over each other, against a plain table of offsets."""

import random
from itertools import pairwise

from headrace.coordinators.share.state_batches import StateBatch, put_batches


def test_later_batches_count_and_neighbours_join() -> None:
    known: list[StateBatch] = []
    put_batches(known, [StateBatch(0, 9, 0, 1), StateBatch(10, 19, 0, 1), StateBatch(5, 6, 2, 1)], 0)
    assert known == [StateBatch(0, 4, 0, 1), StateBatch(5, 6, 2, 1), StateBatch(7, 19, 0, 1)]
    put_batches(known, [StateBatch(3, 8, 0, 1)], 0)
    assert known == [StateBatch(0, 19, 0, 1)]
    put_batches(known, [StateBatch(2, 30, 4, 2)], 12)
    assert known == [StateBatch(12, 30, 4, 2)]


def test_against_a_table_of_offsets() -> None:
    rng = random.Random(5)
    for _ in range(300):
        known: list[StateBatch] = []
        table: dict[int, tuple[int, int]] = {}
        start = 0
        for _ in range(rng.randrange(1, 12)):
            first = rng.randrange(40)
            batch = StateBatch(first, first + rng.randrange(12), rng.choice((0, 2, 4)), rng.randrange(3))
            start = max(start, rng.randrange(-20, 30))
            put_batches(known, [batch], start)
            table |= dict.fromkeys(range(batch.first_offset, batch.last_offset + 1), batch[2:])
            table = {at: said for at, said in table.items() if at >= start}
            unrolled = [
                (at, each[2:]) for each in known for at in range(each.first_offset, each.last_offset + 1)
            ]
            assert unrolled == sorted(table.items())
        assert all(
            one.last_offset + 1 < two.first_offset or one[2:] != two[2:] for one, two in pairwise(known)
        )
