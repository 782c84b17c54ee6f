"""Large batches of producers, which take too long for the loop: threads check them, a few at a time.

A batch that unpacks to a hundred megabytes holds so much memory while it is checked, so no more than
`CHECKS_MAX` are under way on a node, and the others wait in the order in which they came. A connection whose
request is worked on sends nothing else meanwhile, so that each has one place among those who wait.

What a producer's request is made of, once it cannot be answered at once, is a generator in
`handlers/produce.py`. Mostly its connection goes on with it (`transport/serving_turns.py`). A request whose
connection went on long ago, because a transaction's coordinator was asked first, is driven from here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from headrace.base.chunks import Buffer
from headrace.base.errors import ApiError
from headrace.base.large_memory import LARGE_BYTES
from headrace.server.long_requests import Slices

T = TypeVar("T")

CHECKS_MAX: Final = 2
"""Threads at work: two attackers do not stop a third who means well, and memory is that of two batches."""


def _outcome(work: Callable[[], T]) -> T | ApiError:
    """What a thread found. An error leaves without its traceback, which would hold all that was unpacked."""
    try:
        return work()
    except ApiError as error:
        error.__traceback__ = error.__context__ = error.__cause__ = None
        return error


class LargeBatches:
    """What is under way on one node, and what waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at_work = 0
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._driven: set[Slices[Any]] = set()

    # Threads

    def check(self, work: Callable[[], T]) -> Slices[T]:
        """What `work` gives, done by a thread when it is its turn. Who is not there any more when it is, is
        passed over."""
        result: asyncio.Future[T | ApiError] = self._loop.create_future()
        self._waiting.append((result, partial(_outcome, work)))
        self._begin()
        try:
            yield result
        finally:
            result.cancel()
        outcome = result.result()
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    def _begin(self) -> None:
        while self._waiting and self._at_work < CHECKS_MAX:
            result, work = self._waiting.popleft()
            if not result.cancelled():
                self._at_work += 1
                done = self._loop.run_in_executor(None, work)
                done.add_done_callback(lambda done, result=result: self._checked(done, result))  # type: ignore[misc]

    def _checked(self, done: asyncio.Future[T], result: asyncio.Future[T]) -> None:
        self._at_work -= 1
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if not result.done():
            if error is None:
                result.set_result(done.result())
            elif done.cancelled():
                result.cancel()
            else:
                result.set_exception(error)
        self._begin()

    def let_go(self, buffers: list[Buffer]) -> None:
        """Drop them, by a thread where they are large: to give 100 MB back takes a while, too."""
        if sum(map(len, buffers)) > LARGE_BYTES and not self._loop.is_closed():
            self._loop.run_in_executor(None, buffers.clear)

    # Requests without a connection that goes on with them

    def drive(self, slices: Slices[T]) -> asyncio.Future[T]:
        """Go on with a request, a slice in each turn of the loop; a future of what it returns."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._driven.add(slices)
        self._go_on(slices, answer)
        return answer

    def _go_on(self, slices: Slices[T], answer: asyncio.Future[T]) -> None:
        if slices not in self._driven:
            answer.cancel()
            return
        try:
            awaited = next(slices)
        except StopIteration as end:
            self._driven.discard(slices)
            answer.set_result(end.value)
        except Exception as error:
            self._driven.discard(slices)
            answer.set_exception(error)
        else:
            if awaited is None:
                self._loop.call_soon(self._go_on, slices, answer)
            else:
                awaited.add_done_callback(lambda _: self._go_on(slices, answer))

    def close(self) -> None:
        """The logs are about to be closed: nothing is appended any more."""
        driven, self._driven = self._driven, set()
        for slices in driven:
            slices.close()
