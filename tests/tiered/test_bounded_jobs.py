"""Jobs for threads: so many at once, in order, and none for who no longer waits."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from headrace.remote_log.remote_reading import THREADS_MAX
from headrace.tiered.offset_reader import BoundedJobs

WAIT_S = 60


def test_jobs_that_hang_take_their_share_of_threads_and_no_more() -> None:
    gate = threading.Event()
    began: list[int] = []

    def job(number: int, _: asyncio.Future[int]) -> int:
        began.append(number)
        assert gate.wait(WAIT_S)
        return number

    async def script() -> None:
        loop = asyncio.get_running_loop()
        jobs: BoundedJobs[int] = BoundedJobs(loop, executor, lambda: 4)
        results = [jobs.add(partial(job, number)) for number in range(90)]
        assert (jobs.running, jobs.waiting) == (4, 86)
        assert await asyncio.wait_for(loop.run_in_executor(executor, lambda: "read"), WAIT_S) == "read"
        for each in results[:80]:
            each.cancel()
        await asyncio.sleep(0)
        assert (jobs.running, jobs.waiting) == (4, 10)
        gate.set()
        assert await asyncio.wait_for(asyncio.gather(*results[80:]), WAIT_S) == list(range(80, 90))
        assert sorted(began) == [0, 1, 2, 3, *range(80, 90)]

    with ThreadPoolExecutor(THREADS_MAX) as executor:
        asyncio.run(script())


def test_a_failure_is_told_and_the_next_one_begins() -> None:
    async def script() -> None:
        jobs: BoundedJobs[int] = BoundedJobs(asyncio.get_running_loop(), executor, lambda: 1)
        first, second = jobs.add(lambda _: 1 // 0), jobs.add(lambda _: 2)
        with pytest.raises(ZeroDivisionError):
            await first
        assert await second == 2

    with ThreadPoolExecutor(1) as executor:
        asyncio.run(script())
