"""Operations that wait for steps under a key, the lowest first: appends that wait for their replicas."""

import asyncio

import pytest

from headrace.server.purgatory import Purgatory, Step


class Mark:
    """Something that moves up, as a partition's high watermark does, and counts who asks for it."""

    def __init__(self, loop):
        self.waiting = Purgatory(loop)
        self.at = {}
        self.asked = 0

    def watch(self, *steps, wait_ms=1_000):
        """One operation with a step for each key and bar."""

        def step(key, bar):
            def is_done():
                self.asked += 1
                return self.at.get(key, 0) >= bar

            return Step(key, bar, is_done)

        def attempt(expired):
            return "expired" if expired else "done"

        return self.waiting.watch_in_order([step(*each) for each in steps], attempt, wait_ms)

    async def move(self, key, to):
        self.at[key] = to
        self.waiting.notify(key)
        await asyncio.sleep(0.001)

    @property
    def is_empty(self):
        return not self.waiting._in_order and not self.waiting._by_key and len(self.waiting) == 0


@pytest.fixture
def mark(loop):
    return Mark(loop)


def test_a_move_asks_what_it_completes_and_one_more(loop, mark):
    async def main():
        futures = [mark.watch(("k", bar)) for bar in range(1, 501)]
        await mark.move("k", 10)
        assert [future.done() for future in futures] == [True] * 10 + [False] * 490
        assert mark.asked == 11
        for _ in range(100):
            await mark.move("k", 10)
        assert mark.asked == 111
        await mark.move("k", 500)
        assert {future.result() for future in futures} == {"done"}
        assert mark.is_empty

    loop.run_until_complete(main())


def test_who_comes_later_may_be_done_earlier(loop, mark):
    async def main():
        high, low = mark.watch(("k", 9)), mark.watch(("k", 3))
        await mark.move("k", 3)
        assert low.result() == "done"
        assert not high.done()

    loop.run_until_complete(main())


def test_all_steps_must_be_done_and_none_holds_up_others(loop, mark):
    async def main():
        both, one = mark.watch(("a", 1), ("a", 3), ("b", 1)), mark.watch(("a", 4))
        await mark.move("a", 4)
        assert one.result() == "done"
        assert not both.done()
        await mark.move("b", 1)
        assert both.result() == "done"
        assert mark.is_empty

    loop.run_until_complete(main())


def test_those_whose_time_is_up_or_that_were_cancelled_are_forgotten(loop, mark):
    async def main():
        short, patient = mark.watch(("k", 1), wait_ms=10), mark.watch(("k", 2), wait_ms=50)
        cancelled = mark.watch(("k", 1), wait_ms=50)
        cancelled.cancel()
        assert await short == "expired"
        await mark.move("k", 2)
        assert patient.result() == "done"
        assert mark.is_empty
        behind = [mark.watch(("k", bar), wait_ms=wait_ms) for bar, wait_ms in ((3, 90), (4, 10))]
        assert await asyncio.gather(*behind) == ["expired", "expired"]
        assert mark.is_empty

    loop.run_until_complete(main())


def test_what_a_step_raises_goes_to_its_future_only(loop, mark):
    async def main():
        def broken():
            raise ValueError("broken")

        bad = mark.waiting.watch_in_order([Step("k", 1, broken), Step("k", 2, broken)], lambda _: "", 100)
        good = mark.watch(("k", 3))
        await mark.move("k", 3)
        with pytest.raises(ValueError, match="broken"):
            await bad
        assert good.result() == "done"
        assert mark.is_empty

    loop.run_until_complete(main())


def test_a_node_that_stops_answers_them(loop, mark):
    async def main():
        before = mark.watch(("k", 1))
        mark.waiting.close()
        assert await before == "expired"
        assert await mark.watch(("k", 1)) == "expired"

    loop.run_until_complete(main())
