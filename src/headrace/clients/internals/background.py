"""The sync face of a client: its loop runs in a thread of its own, and the caller waits.

`Background.run` has a coroutine made and run on that loop, and blocks until it is done. What the coroutine
wants done in the caller's thread (a rebalance listener, which may call the client again) it hands back with
`in_caller`.
KeyboardInterrupt ends the waiting, not the loop: what was sent goes on, and `close` still works.

A sync client is a `SyncClient` around the async one. Most of its methods are made from the async ones, with
their signatures, types and docstrings: `waits_for` of a coroutine method, `calls` of a plain one.

One thread serves one client. It is a daemon, so that a program which forgets to close still ends.
"""

import asyncio
import contextlib
import contextvars
import functools
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from headrace.clients.config import ClientConfig
from headrace.clients.errors import ClosedError
from headrace.clients.internals.environment import ClientEnvironment, system_environment

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")

_CALLER: Final[contextvars.ContextVar["_Calls | None"]] = contextvars.ContextVar("caller", default=None)
_DONE: Final = None

_Calls = queue.SimpleQueue["Callable[[], None] | None"]


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Background:
    """A loop in a thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.loop = new_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """The result of a coroutine; calls that it makes `in_caller` happen here meanwhile. It is made on the
        loop: Ctrl-C, which may come between any two steps here, would leave one behind that nobody awaits.
        """
        assert threading.current_thread() is not self._thread, "a sync client was called from its own loop"
        if self.loop.is_closed():
            raise self._closed()
        calls: _Calls = queue.SimpleQueue()
        outcome: Future[T] = Future()
        make = functools.partial(work, *arguments, **named)
        self.loop.call_soon_threadsafe(self._begin, make, calls, outcome)
        try:
            while (call := calls.get()) is not _DONE:
                call()
        except BaseException:
            self.loop.call_soon_threadsafe(outcome.cancel)
            raise
        return outcome.result()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a plain function on the loop: cheaper than a coroutine, which takes a task."""
        if self.loop.is_closed():
            raise self._closed()
        answers: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

        def call() -> None:
            try:
                answers.put((function(*arguments), None))
            except BaseException as error:
                answers.put((None, error))

        self.loop.call_soon_threadsafe(call)
        result, error = answers.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # without an error there is a result

    def _closed(self) -> ClosedError:
        return ClosedError(f"the {self._name.removeprefix('headrace-')} is closed: make another one")

    def _begin(self, make: Callable[[], Coroutine[Any, Any, T]], calls: _Calls, outcome: "Future[T]") -> None:
        context = contextvars.copy_context()
        context.run(_CALLER.set, calls)
        try:
            task = self.loop.create_task(make(), context=context)
        except BaseException as error:  # the caller's: arguments that do not fit
            outcome.set_exception(error)
            calls.put(_DONE)
            return

        def finished(_: "asyncio.Task[T]") -> None:
            if outcome.cancelled():
                return
            if task.cancelled():
                outcome.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())
            calls.put(_DONE)

        def abandoned(future: "Future[T]") -> None:
            # The caller was interrupted: nobody wants the result any more.
            if future.cancelled():
                task.cancel()

        task.add_done_callback(finished)
        outcome.add_done_callback(abandoned)

    @contextlib.contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """For the making of a client: where that fails, its thread does not stay."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))


async def in_caller(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call something where the client is used: in the sync face's thread, else here, awaiting coroutines."""
    calls = _CALLER.get()
    if calls is None:
        result = function(*arguments)
        return await result if asyncio.iscoroutine(result) else result
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(set_it: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            set_it(value)

    def call() -> None:
        try:
            result = function(*arguments)
        except Exception as error:
            loop.call_soon_threadsafe(tell, answer.set_exception, error)
        else:
            loop.call_soon_threadsafe(tell, answer.set_result, result)

    calls.put(call)
    return await answer


class SyncClient(Generic[A]):
    """An async client and the loop that it runs on, in a thread of that name."""

    def __init__(self, name: str, config: ClientConfig, make: Callable[[ClientEnvironment], A]) -> None:
        self._background = Background(name)
        with self._background.closed_on_error():
            environment = system_environment(self._background.loop, config)
            self._async = make(replace(environment, make_way=lambda: time.sleep(0)))
        self._is_closed = False


def waits_for(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient[A], P], T]:
    """The sync form of an async client's method: runs it on the client's loop and waits until it is done."""

    @functools.wraps(method)
    def call(self: SyncClient[A], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._background.run(method, self._async, *arguments, **named)

    return call


def calls(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[SyncClient[A], P], T]:
    """The same for a method that waits for nothing: calls it on the client's loop."""

    @functools.wraps(method)
    def call(self: SyncClient[A], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._background.call(functools.partial(method, self._async, *arguments, **named))

    return call
