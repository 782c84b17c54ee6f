"""A Python worker of Spark: the clients it keeps from one task to the next, garbage it need not search, and
lines it need not print.

Spark keeps its Python workers and gives them one task after another. Opening a client takes connections, a
look at the cluster and often a producer id, for every task of every micro-batch. So a client that served its
task well is kept for the next one with the same settings (`WorkerClients`).
"""

import atexit
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TextIO, TypeVar

C = TypeVar("C")

# A worker runs one task at a time, and may serve a few queries with settings of their own.
IDLE_MAX: Final = 4
# Spark ends a worker that has had no task for this long; a client deserves no more.
IDLE_S_MAX: Final = 60.0


class _Idle(NamedTuple, Generic[C]):
    key: Hashable
    client: C
    since_s: float


class WorkerClients(Generic[C]):
    """The idle clients of one kind in this process: it owns them, and ends them.

    Nobody tells a worker that a query is over. So it keeps a few clients only, of which the longest unused
    goes first, and closes those that no task has used for a minute when the next one is done. What is left is
    closed when the process exits. A client whose task failed is closed at once: the task will be run again,
    and nobody waits for the rest of this attempt.

    A fork has its parent's clients and none of their threads: it leaves them alone and opens its own.
    """

    def __init__(self, close: Callable[[C], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._close = close
        self._now_s = now_s
        self._lock = threading.Lock()
        self._idle: list[_Idle[C]] = []  # the longest unused first
        self._inherited: list[_Idle[C]] = []  # not even let go: their end would reach the parent's sockets
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._leave_to_parent)

    @contextmanager
    def lent(self, key: Hashable, opened: Callable[[], C], *, is_last: bool = False) -> Iterator[C]:
        """A client for one task: one that an earlier task has left under this key, or a new one.

        After `is_last` use it is closed, with others of its key.
        """
        client = self._taken(key)
        if client is None:
            client = opened()
        try:
            yield client
        except BaseException:  # also GeneratorExit: Spark wants no more rows
            self._close(client)
            raise
        with self._lock:
            self._idle.append(_Idle(key, client, self._now_s()))
            over = self._over(key if is_last else None)
        for each in over:
            self._close(each.client)

    def close(self) -> None:
        """Close all that no task uses."""
        with self._lock:
            over, self._idle = self._idle, []
        for each in over:
            self._close(each.client)

    def _taken(self, key: Hashable) -> C | None:
        with self._lock:
            for number, each in enumerate(self._idle):
                if each.key == key:
                    return self._idle.pop(number).client
        return None

    def _over(self, ended: Hashable | None) -> list[_Idle[C]]:
        """Take out what is not to be kept."""
        oldest_s = self._now_s() - IDLE_S_MAX
        surplus = len(self._idle) - IDLE_MAX
        over = [
            each
            for number, each in enumerate(self._idle)
            if number < surplus or each.since_s < oldest_s or (ended is not None and each.key == ended)
        ]
        self._idle = [each for each in self._idle if each not in over]
        return over

    def _leave_to_parent(self) -> None:
        self._lock = threading.Lock()
        self._inherited += self._idle
        self._idle = []


_modules_frozen = 0


def spare_modules() -> None:
    """Keep the collector from searching what is alive; it acts once after modules were loaded.

    A worker collects garbage before it takes its next task. It walks over all objects of all modules for
    that, some hundred thousand of Spark's, Arrow's and ours, none of which is ever garbage: 40 to 100 ms of
    CPU for a task whose own work may be one. What is frozen is not looked at; what a task leaves behind is.
    """
    global _modules_frozen
    if len(sys.modules) > _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.freeze()


def hush_closed_sockets() -> None:
    """Let the daemon that this worker was forked from not print a stack where Spark wanted no more rows.

    Under a `limit` the JVM closes the socket in the middle. The daemon's part of this process cannot flush it
    then, and prints a BrokenPipeError with its stack, for every such task, among the lines of the user.
    Whatever else it has to say is printed.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == _DAEMON:
        names = vars(main)
        names["print"] = _print_unless_closed  # where a worker may outlive a failed flush
        names["traceback"] = _HushedTraceback()


_DAEMON: Final = "pyspark.daemon"


def _print_unless_closed(*values: object, file: TextIO | None = None) -> None:
    if not _is_closed():
        print(*values, file=file)


class _HushedTraceback:
    """The module `traceback`, as the daemon uses it."""

    def print_exc(self) -> None:
        if not _is_closed():
            traceback.print_exc()

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)


def _is_closed() -> bool:
    return isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError)
