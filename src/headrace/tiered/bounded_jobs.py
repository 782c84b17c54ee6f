"""Jobs for threads, so many at once. A thread that hangs in a store cannot be stopped, so what matters is how
many there are, and that nothing waits for one in vain: a job whose future was cancelled before its turn never
begins, and is forgotten at once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedJobs(Generic[T]):
    """They begin in the order they came; `at_once` is asked anew each time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: Executor | None, at_once: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._at_once = at_once
        self._queue: dict[asyncio.Future[T], Callable[[], T]] = {}
        self._running = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._running

    def add(self, job: Callable[[asyncio.Future[T]], T]) -> "asyncio.Future[T]":
        """Have a thread do it; it is given its own future, to see whether somebody still waits."""
        result: asyncio.Future[T] = self._loop.create_future()
        self._queue[result] = partial(job, result)
        result.add_done_callback(lambda done: self._queue.pop(done, None))
        self._start()
        return result

    def _start(self) -> None:
        while self._queue and self._running < self._at_once():
            result = next(iter(self._queue))
            job = self._queue.pop(result)
            if result.cancelled():
                continue
            self._running += 1
            self._loop.run_in_executor(self._executor, job).add_done_callback(partial(self._over, result))

    def _over(self, result: asyncio.Future[T], over: asyncio.Future[T]) -> None:
        self._running -= 1
        error = asyncio.CancelledError() if over.cancelled() else over.exception()
        if not result.done():
            if isinstance(error, asyncio.CancelledError):
                result.cancel()
            elif error is not None:
                result.set_exception(error)
            else:
                result.set_result(over.result())
        if not self._loop.is_closed():
            self._start()
