"""Requests that wait for something to happen: Kafka's purgatory, without a task or a timer for each.

A handler that cannot answer yet hands over an `attempt` and the keys it depends on: a TopicPartition whose
end or high watermark must move, or a group id. Whoever changes such a thing calls `notify(key)`. That only
notes the key; once per turn of the loop every operation that watches a noted key is tried once, however
many of its keys moved and however often. An attempt returns the result, or None to go on waiting. When time
is up, it is called a last time with `expired=True` and must return what there is.

    future = parts.purgatory.watch(
        keys, lambda expired: response if expired or bytes_ready() >= min_bytes else None, wait_ms=500
    )

Appends wait by the hundred for one partition's high watermark, which reaches the lowest first. Such an
operation waits for `Step`s instead (`watch_in_order`): under a key the lowest is asked, and the next only
when that is done, so that a move costs what it completes and not what it does not.

Deadlines sit in one heap behind one timer. An operation that was completed leaves its heap entry behind, to
be skipped when its time comes, or swept out with the others when such entries are the majority.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# Below this many entries a sweep of the heap is not worth its walk.
SWEEP_ENTRIES_MIN: Final = 1024


class Attempt(Protocol[T_co]):
    """Try to complete: a result, or None to wait on. With `expired` it must be a result."""

    def __call__(self, expired: bool, /) -> T_co | None: ...


class Step(NamedTuple):
    """One of the things an operation waits for: `is_done` is asked when `key` was noted and no step with a
    lower `bar` is left there.
    """

    key: Hashable
    bar: int
    is_done: Callable[[], bool]


class _Operation:
    __slots__ = ("attempt", "future", "keys", "over", "steps_left")

    def __init__(
        self, attempt: Attempt[Any], keys: tuple[Hashable, ...], future: asyncio.Future[Any], steps: int
    ) -> None:
        self.attempt = attempt
        self.keys = keys
        self.future = future
        self.over = False
        self.steps_left = steps


class Purgatory:
    """The waiting operations of a node, by key and by deadline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Dicts as ordered sets: operations are tried in the order they came.
        self._by_key: dict[Hashable, dict[_Operation, None]] = {}
        # Heaps of (bar, arrival, step, operation).
        self._in_order: dict[Hashable, list[tuple[int, int, Step, _Operation]]] = {}
        self._noted: dict[Hashable, None] = {}
        # (deadline, arrival, operation): the arrival decides between equals, never an object's address.
        self._heap: list[tuple[float, int, _Operation]] = []
        self._over_in_heap = 0
        self._arrivals = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closed = False

    def __len__(self) -> int:
        """How many operations wait now."""
        return len(self._heap) - self._over_in_heap

    def watch(self, keys: Iterable[Hashable], attempt: Attempt[T], wait_ms: int) -> asyncio.Future[T]:
        """Wait for one of `keys` until `attempt` has a result, for `wait_ms` at most.

        The caller has tried before it came here: the first attempt is made when a key is noted. A future that
        is cancelled is forgotten. What an attempt raises goes to the future.
        """
        operation = self._begin(attempt, tuple(keys), wait_ms, steps=0)
        by_key = self._by_key
        for key in operation.keys:
            watchers = by_key.get(key)
            if watchers is None:
                by_key[key] = {operation: None}
            else:
                watchers[operation] = None
        return self._began(operation)

    def watch_in_order(self, steps: Sequence[Step], attempt: Attempt[T], wait_ms: int) -> asyncio.Future[T]:
        """Wait until all `steps` are done, for `wait_ms` at most; then comes the only attempt."""
        operation = self._begin(
            attempt, tuple(dict.fromkeys(step.key for step in steps)), wait_ms, steps=len(steps)
        )
        for step in steps:
            queue = self._in_order.setdefault(step.key, [])
            heapq.heappush(queue, (step.bar, self._arrivals, step, operation))
            self._arrivals += 1
        return self._began(operation)

    def notify(self, key: Hashable) -> None:
        """Something moved at `key`. Costs one look-up where nobody waits for it."""
        if key in self._by_key or key in self._in_order:
            if not self._noted:
                self._loop.call_soon(self._try_noted)
            self._noted[key] = None

    def close(self) -> None:
        """Complete all with what there is: a node that stops answers before it hangs up."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, _, operation in sorted(self._heap):
            self._try(operation, expired=True)
        self._heap.clear()
        self._over_in_heap = 0

    def _try_noted(self) -> None:
        noted, self._noted = self._noted, {}
        tried: dict[_Operation, None] = {}
        for key in noted:
            tried.update(self._by_key.get(key, {}))
        for operation in tried:
            self._try(operation, expired=False)
        for key in noted:
            self._try_in_order(key)
        if self._over_in_heap * 2 > len(self._heap) > SWEEP_ENTRIES_MIN:
            self._sweep()

    def _begin(
        self, attempt: Attempt[Any], keys: tuple[Hashable, ...], wait_ms: int, *, steps: int
    ) -> _Operation:
        self._arrivals += 1
        operation = _Operation(attempt, keys, self._loop.create_future(), steps)
        heapq.heappush(self._heap, (self._loop.time() + wait_ms / 1000, self._arrivals, operation))
        return operation

    def _began(self, operation: _Operation) -> asyncio.Future[Any]:
        if self._closed:
            self._try(operation, expired=True)
        elif self._timer is None or self._heap[0][0] < self._timer_at:
            self._set_timer()
        return operation.future

    def _try_in_order(self, key: Hashable) -> None:
        """Ask the steps under a key from the lowest on, up to the first that is not done."""
        queue = self._in_order.get(key)
        while queue:
            _, _, step, operation = queue[0]
            if not operation.future.done() and not self._take_step(step, operation):
                return
            heapq.heappop(queue)
            if not operation.steps_left or operation.future.done():
                self._try(operation, expired=False)

    def _take_step(self, step: Step, operation: _Operation) -> bool:
        """Whether the operation need not wait for the step any longer."""
        try:
            is_done = step.is_done()
        except Exception as error:
            operation.future.set_exception(error)
            return True
        operation.steps_left -= is_done
        return is_done

    def _try(self, operation: _Operation, *, expired: bool) -> None:
        """One attempt; an operation that is over is taken from under its keys."""
        if operation.over:
            return
        future = operation.future
        if not future.done():
            try:
                result = operation.attempt(expired)
                assert result is not None or not expired, "an attempt must have a result when its time is up"
            except Exception as error:
                future.set_exception(error)
            else:
                if result is None:
                    return
                future.set_result(result)
        operation.over = True
        self._over_in_heap += 1
        for key in operation.keys:
            self._forget(operation, key)

    def _forget(self, operation: _Operation, key: Hashable) -> None:
        watchers = self._by_key.get(key)
        if watchers is not None:
            watchers.pop(operation, None)
            if not watchers:
                del self._by_key[key]
        queue = self._in_order.get(key)
        if queue is not None:
            while queue and queue[0][3].over:
                heapq.heappop(queue)
            if not queue:
                del self._in_order[key]

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._closed:
            self._timer_at = self._heap[0][0]
            self._timer = self._loop.call_at(self._timer_at, self._expire)

    def _expire(self) -> None:
        # A loop may call a timer a tick of its clock early: what is due at the timer's time is due.
        now = max(self._loop.time(), self._timer_at)
        heap = self._heap
        while heap and heap[0][0] <= now:
            self._try(heapq.heappop(heap)[2], expired=True)
            self._over_in_heap -= 1
        self._timer = None
        self._set_timer()

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].over]
        heapq.heapify(self._heap)
        self._over_in_heap = 0
        self._set_timer()
