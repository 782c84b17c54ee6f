"""Operations that wait for a key or for their time, on virtual time."""

import asyncio

import pytest

from headrace.server.purgatory import SWEEP_ENTRIES_MIN, Purgatory


@pytest.fixture
def waiting(loop):
    return Purgatory(loop)


class Attempts:
    """An operation that is complete once told so, and notes how often it was tried."""

    def __init__(self):
        self.tried = []
        self.result = None

    def __call__(self, expired):
        self.tried.append(expired)
        return "expired" if expired else self.result


async def turn():
    await asyncio.sleep(0.001)


def test_a_key_completes_what_waits_for_it(loop, waiting):
    async def main():
        attempts = Attempts()
        future = waiting.watch(["a", "b"], attempts, 1_000)
        assert len(waiting) == 1
        waiting.notify("b")
        await turn()
        assert attempts.tried == [False]
        assert not future.done()
        attempts.result = "done"
        waiting.notify("a")
        assert await future == "done"
        assert len(waiting) == 0
        waiting.notify("a")
        await asyncio.sleep(5)
        assert attempts.tried == [False, False]

    loop.run_until_complete(main())


def test_time_completes_what_nothing_else_does(loop, waiting):
    async def main():
        start = loop.time()
        long, short, none = (waiting.watch(["k"], Attempts(), wait_ms) for wait_ms in (500, 100, 0))
        assert await none == "expired"
        assert loop.time() - start < 0.01
        assert await short == "expired"
        assert loop.time() - start == pytest.approx(0.1, abs=0.001)
        assert await long == "expired"
        assert loop.time() - start == pytest.approx(0.5, abs=0.001)
        assert len(waiting) == 0

    loop.run_until_complete(main())


def test_no_key_at_all_waits_for_time_alone(loop, waiting):
    async def main():
        assert await waiting.watch((), Attempts(), 50) == "expired"

    loop.run_until_complete(main())


def test_many_moves_in_one_turn_are_one_attempt(loop, waiting):
    async def main():
        attempts = Attempts()
        waiting.watch(range(100), attempts, 1_000)
        for key in range(100):
            waiting.notify(key)
            waiting.notify(key)
        await turn()
        assert attempts.tried == [False]

    loop.run_until_complete(main())


def test_a_key_that_nobody_watches_costs_nothing(loop, waiting):
    async def main():
        attempts = Attempts()
        waiting.watch(["a"], attempts, 1_000)
        waiting.notify("other")
        await turn()
        assert attempts.tried == []

    loop.run_until_complete(main())


def test_what_an_attempt_raises_goes_to_its_future_only(loop, waiting):
    async def main():
        def broken(expired):
            raise ValueError("broken")

        attempts = Attempts()
        attempts.result = "fine"
        bad, good = waiting.watch(["k"], broken, 100), waiting.watch(["k"], attempts, 100)
        waiting.notify("k")
        with pytest.raises(ValueError, match="broken"):
            await bad
        assert await good == "fine"

    loop.run_until_complete(main())


def test_an_attempt_without_a_result_at_its_end_fails_loudly(loop, waiting):
    async def main():
        with pytest.raises(AssertionError):
            await waiting.watch(["k"], lambda expired: None, 10)

    loop.run_until_complete(main())


def test_a_cancelled_operation_is_forgotten(loop, waiting):
    async def main():
        attempts = Attempts()
        waiting.watch(["k"], attempts, 100).cancel()
        waiting.notify("k")
        await turn()
        assert attempts.tried == []
        assert len(waiting) == 0
        waiting.watch(["k"], attempts, 100).cancel()
        await asyncio.sleep(1)
        assert attempts.tried == []
        assert len(waiting) == 0

    loop.run_until_complete(main())


def test_an_attempt_may_watch_and_notify(loop, waiting):
    async def main():
        second = []

        def first(expired):
            second.append(waiting.watch(["k"], lambda expired: "second", 100))
            waiting.notify("k")
            return "first"

        future = waiting.watch(["k"], first, 100)
        waiting.notify("k")
        assert await future == "first"
        assert await second[0] == "second"

    loop.run_until_complete(main())


def test_operations_are_tried_in_order_of_arrival(loop, waiting):
    async def main():
        order = []
        futures = [waiting.watch(["k"], lambda expired, n=n: order.append(n) or True, 100) for n in range(50)]
        waiting.notify("k")
        await asyncio.gather(*futures)
        assert order == list(range(50))
        order.clear()
        await asyncio.gather(
            *(waiting.watch(["k"], lambda expired, n=n: order.append(n) or True, 100) for n in range(50))
        )
        assert order == list(range(50)), "also those of one deadline"

    loop.run_until_complete(main())


def test_ten_thousand_parked_operations(loop, waiting):
    """One timer for all, and a key touches only those that watch it; finished ones leave the heap."""

    async def main():
        parked = {n: Attempts() for n in range(10_000)}
        futures = {n: waiting.watch([n], attempts, 30_000) for n, attempts in parked.items()}
        assert len(waiting) == 10_000
        for n in range(0, 10_000, 2):
            parked[n].result = n
            waiting.notify(n)
        await turn()
        assert len(waiting) == 5_000
        parked[1].result = 1
        waiting.notify(1)
        await turn()
        assert len(waiting._heap) == 4_999, "swept when most are over"
        assert parked[3].tried == []
        start = loop.time()
        assert await futures[9_999] == "expired"
        assert loop.time() - start < 30
        assert len(waiting) == 0
        assert len(waiting._heap) == 0 < SWEEP_ENTRIES_MIN

    loop.run_until_complete(main())


def test_a_node_that_stops_completes_all(loop, waiting):
    async def main():
        futures = [waiting.watch([n], Attempts(), 30_000) for n in range(3)]
        waiting.close()
        assert [future.result() for future in futures] == ["expired"] * 3
        late = waiting.watch(["k"], Attempts(), 30_000)
        assert late.result() == "expired"
        assert len(waiting) == 0

    loop.run_until_complete(main())
