"""The simulated loop: asyncio's own primitives work on it, and the seed alone decides what they see."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.testing.loop import SimulatedLoop
from headrace.testing.scheduler import DeadlockError, RunawayError, Scheduler

HOUR_S = 3600.0


def run(coroutine, seed=0):
    return SimulatedLoop(seed=seed).run_until_complete(coroutine)


def test_an_hour_passes_at_once():
    async def main():
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(HOUR_S)
        return asyncio.get_running_loop().time() - before

    assert HOUR_S <= run(main()) < HOUR_S + 0.01


def test_call_soon_keeps_its_order():
    loop = SimulatedLoop()
    seen = []
    for number in range(20):
        loop.call_soon(seen.append, number)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == list(range(20))


def test_timers_run_in_order_of_time_and_cancelled_ones_never():
    loop = SimulatedLoop()
    seen = []
    loop.call_later(2, seen.append, "two")
    loop.call_later(1, seen.append, "one")
    loop.call_later(1.5, seen.append, "cancelled").cancel()
    loop.call_later(3, loop.stop)
    loop.run_forever()
    assert seen == ["one", "two"]


def test_the_seed_orders_timers_of_one_moment():
    def order(seed):
        loop = SimulatedLoop(seed=seed)
        seen = []
        for number in range(5):
            loop.call_at(2_000, seen.append, number)
        loop.call_at(2_001, loop.stop)
        loop.run_forever()
        return tuple(seen)

    orders = {order(seed) for seed in range(30)}
    assert len(orders) > 10
    assert order(7) == order(7)


def test_wait_for_times_out_and_cancels():
    async def main():
        event = asyncio.Event()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), 5)
        async with asyncio.timeout(5):
            asyncio.get_running_loop().call_later(1, event.set)
            await event.wait()
        return "through"

    assert run(main()) == "through"


def test_gather_queue_and_locks():
    async def main():
        queue = asyncio.Queue(maxsize=2)
        lock = asyncio.Lock()

        async def put():
            for number in range(10):
                async with lock:
                    await asyncio.sleep(0.1)
                await queue.put(number)

        async def take():
            return [await queue.get() for _ in range(10)]

        _, taken = await asyncio.gather(put(), take())
        return taken

    assert run(main()) == list(range(10))


def test_executor_gives_results_and_exceptions_later():
    async def main():
        loop = asyncio.get_running_loop()
        seen = []
        future = loop.run_in_executor(None, seen.append, "ran")
        assert seen == []
        await future
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 / 0)
        assert await asyncio.to_thread(lambda: 5) == 5
        return seen

    assert run(main()) == ["ran"]


def test_jobs_of_many_threads_overtake_each_other_and_those_of_one_do_not():
    def order(executor, seed):
        async def main():
            loop = asyncio.get_running_loop()
            seen = []
            await asyncio.gather(*(loop.run_in_executor(executor, seen.append, n) for n in range(8)))
            return seen

        return run(main(), seed)

    straight = list(range(8))
    assert any(order(None, seed) != straight for seed in range(5))
    with ThreadPoolExecutor(1) as one:
        assert all(order(one, seed) == straight for seed in range(5))


def test_deadlock_names_who_waits():
    async def waits_forever():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="waits_forever"):
        run(waits_forever())


def test_runaway_is_stopped():
    async def spins():
        while True:
            await asyncio.sleep(0)

    loop = SimulatedLoop(Scheduler(0, steps_max=1_000))
    with pytest.raises(RunawayError, match="spins"):
        loop.run_until_complete(spins())


def test_spinning_code_does_not_freeze_time():
    async def main():
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.05
        while loop.time() < until:
            await asyncio.sleep(0)

    run(main())


def test_an_exception_in_a_callback_is_kept():
    loop = SimulatedLoop()
    loop.call_soon(lambda: 1 / 0)
    loop.call_later(1, loop.stop)
    loop.run_forever()
    assert [type(each["exception"]) for each in loop.uncaught] == [ZeroDivisionError]


def test_a_killed_process_runs_nothing_more():
    scheduler = Scheduler(1)
    world, victim = SimulatedLoop(scheduler, name="world"), SimulatedLoop(scheduler, name="victim")
    beats, ended = [], []

    async def beat():
        try:
            while True:
                await asyncio.sleep(1)
                beats.append(victim.time())
        finally:
            ended.append(victim.time())
            victim.call_soon(beats.append, "from the grave")

    victim.create_task(beat())
    victim.run_in_executor(None, ended.append, "job")
    world.call_later(3.5, victim.kill)
    world.run_until_complete(asyncio.sleep(10))
    assert len(beats) == 3
    assert len(ended) == 2, "the job ran before, and the coroutine was closed at the kill"
    assert not victim.uncaught


def test_a_paused_process_catches_up():
    scheduler = Scheduler(1)
    world, sleeper = SimulatedLoop(scheduler, name="world"), SimulatedLoop(scheduler, name="sleeper")
    woke = []
    sleeper.call_later(1, lambda: woke.append(sleeper.time()))
    start = world.time()
    sleeper.pause()
    world.call_later(30, sleeper.resume)
    world.run_until_complete(asyncio.sleep(60))
    assert [round(moment - start, 2) for moment in woke] == [30.0]


def test_each_process_is_the_running_loop_in_its_turn():
    scheduler = Scheduler(1)
    loops = [SimulatedLoop(scheduler, name=f"p{number}") for number in range(3)]
    seen = []

    async def look():
        for _ in range(5):
            await asyncio.sleep(0)
            seen.append(asyncio.get_running_loop())

    tasks = [loop.create_task(look()) for loop in loops]
    loops[0].run_until_complete(tasks[0])
    scheduler.run(lambda: all(task.done() for task in tasks))
    assert {id(loop) for loop in seen} == {id(loop) for loop in loops}


def test_descriptor_closed_while_watched_is_told():
    class Silent:
        def readable(self):
            return False

        writable = readable

    loop = SimulatedLoop()
    number = loop.open_descriptor(Silent())
    loop.add_reader(number, lambda: None)
    loop.close_descriptor(number)
    assert "closed while the loop watched" in loop.uncaught[0]["message"]
    with pytest.raises(OSError, match="not an open descriptor"):
        loop.add_reader(number, lambda: None)
    assert loop.open_descriptor(Silent()) == number, "numbers are used again, lowest first"


TRACE_SCRIPT = """
import asyncio
from headrace.testing.loop import SimulatedLoop

async def main():
    loop = asyncio.get_running_loop()
    for name in {"b", "a", "c"}:  # a set of strings: its order differs between processes
        pass
    await asyncio.gather(*(loop.run_in_executor(None, int, "1") for _ in range(20)))
    return loop.scheduler.trace.digest(), loop.time()

print(SimulatedLoop(seed=5).run_until_complete(main()))
"""


def test_the_same_seed_gives_the_same_run_in_every_process():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", TRACE_SCRIPT],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(outputs) == 1
