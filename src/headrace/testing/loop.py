"""An asyncio event loop on virtual time: one simulated process.

Code under test cannot tell it from a real loop: futures, tasks, timers, `wait_for`, events are asyncio's
own and work unchanged. Underneath, a `Scheduler` shared by all processes of a world decides who runs next.

- Time stands still while callbacks run and moves between rounds.
- `add_reader` / `add_writer` take the numbers that this loop gave to simulated sockets
  (`open_descriptor`).
- `run_in_executor` runs the function, whole, at a later moment of the seed's choice, and tells of its
  result later still: what a thread did is in the world before the loop knows of it, and a crash may fall
  between.
- `kill` ends the process where it stands, as SIGKILL would. `pause` and `resume` are SIGSTOP and SIGCONT.
- Work takes no time, unless somebody says what it costs (`spend`): the process then does nothing else until
  that has passed, while the others go on.

An exception that reaches the loop is kept in `uncaught` for the world to judge, instead of being logged.
"""

import asyncio
import contextlib
from asyncio import events as asyncio_events
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from headrace.testing.descriptors import DescriptorTable, Pollable, Side
from headrace.testing.scheduler import NS_PER_SECOND, Event, Scheduler

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# How long a thread takes to start a job, and to get its result back to the loop.
JOB_SECONDS: Final = (0.000_05, 0.002)


def _fill(
    handle: Any,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    loop: "SimulatedLoop",
    context: Context | None,
) -> None:
    """What asyncio's own handles begin with, without asking for debug mode: there are tens of thousands in a
    run.
    """
    handle._context = copy_context() if context is None else context
    handle._loop = loop
    handle._callback = callback
    handle._args = args
    handle._cancelled = False
    handle._repr = None
    handle._source_traceback = None


class _Handle(asyncio.Handle):
    """A callback that is due at once."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimulatedLoop",
        context: Context | None = None,
    ) -> None:
        _fill(self, callback, args, loop, context)


class _Timer(asyncio.TimerHandle):
    """A timer that takes its event out of the scheduler when cancelled."""

    __slots__ = ("event",)
    event: Event

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimulatedLoop",
        context: Context | None = None,
    ) -> None:
        _fill(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        self.event.cancel()
        super().cancel()


class SimulatedLoop(asyncio.BaseEventLoop):
    """A deterministic event loop; alone with a seed, or one of many on a shared scheduler."""

    def __init__(
        self, scheduler: Scheduler | None = None, *, name: str = "main", seed: int | str = 0
    ) -> None:
        self._inside = False
        super().__init__()
        self.name = name
        self.scheduler = scheduler or Scheduler(seed)
        self.paused = False
        self.dead = False
        self.uncaught: list[dict[str, Any]] = []
        self.job_seconds = JOB_SECONDS
        self.byte_ns = 0
        """What a byte costs that is received or sent."""
        self.spent_ns = 0
        """What the round so far has cost."""
        self._is_stopped = False
        self._random = self.scheduler.random_for(f"loop/{name}/{self.scheduler.processes_made}")
        # Handles and timers as they are made here: asyncio's own types do not tell what they run.
        self.queue: deque[Any] = deque()
        self._descriptors = DescriptorTable()
        self.stirred = self._descriptors.stirred
        self._tasks: dict[int, tuple[asyncio.Task[Any], Coroutine[Any, Any, Any]]] = {}
        self._tasks_made = 0
        self._last_job_end_ns: dict[int, int] = {}
        self._stop_asked = False
        self._awake = self.scheduler.awake
        self.scheduler.add_process(self)

    # --- running ---

    def run_forever(self) -> None:
        """Run the whole world until this loop is stopped."""
        if asyncio_events._get_running_loop() is not None:
            raise RuntimeError("Cannot run the event loop while another loop is running")
        self._stop_asked = False
        self.scheduler.run(lambda: self._stop_asked or self.dead)

    def stop(self) -> None:
        self._stop_asked = True

    def is_running(self) -> bool:
        return self._inside

    def close(self) -> None:
        if self._inside:
            raise RuntimeError("Cannot close a running event loop")
        super().close()
        self.scheduler.remove_process(self)

    def __del__(self) -> None:
        """Overrides asyncio's warning: a simulated loop holds nothing of the system's."""

    def time(self) -> float:
        return self.scheduler.now_ns / NS_PER_SECOND

    def has_work(self) -> bool:
        return bool(self.queue) or self._descriptors.is_any_ready()

    def run_round(self) -> None:
        """One turn of a real loop: ask which descriptors are ready, then run what is queued by then."""
        queue = self.queue
        if self.stirred:
            ready = self._descriptors.ready()
            if len(ready) > 1:
                self._random.shuffle(ready)
            queue.extend(ready)
        self._inside = True
        asyncio_events._set_running_loop(self)
        try:
            for _ in range(len(queue)):
                handle = queue.popleft()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._tell_of(handle, error)
                    if self.dead:
                        return
        finally:
            asyncio_events._set_running_loop(None)
            self._inside = False
            if self.spent_ns:
                self._pass_time()

    def spend(self, ns: int) -> None:
        """What is being done takes so long: this process does nothing else until then."""
        self.spent_ns += ns

    def _pass_time(self) -> None:
        ends_ns = self.scheduler.now_ns + self.spent_ns
        self.spent_ns = 0
        if not self.dead:
            self.paused = True
            self.scheduler.at(ends_ns, self._go_on)

    def _go_on(self) -> None:
        if not self._is_stopped and not self.dead:
            self.paused = False
            self.scheduler.resume(self)

    def _tell_of(self, handle: asyncio.Handle, error: BaseException) -> None:
        """As asyncio's handles do it, which are not asked to run their callbacks here."""
        self.call_exception_handler(
            {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
        )

    # --- callbacks, timers, tasks ---

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        if not self.dead:
            if self.is_closed():
                self._refuse()
            self.queue.append(handle)
            self._awake[self] = None
        return handle

    def _wake_with(self, handle: asyncio.Handle) -> None:
        self.queue.append(handle)
        self._awake[self] = None

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.event = self.scheduler.at(
            round(when * NS_PER_SECOND), partial(self._wake_with, timer), owner=self
        )
        if self.dead:
            timer.event.cancel()
        elif self.is_closed():
            self._refuse()
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's hook; the timer has told the scheduler itself."""

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = super().create_task(coro, name=name, context=context)
        self._tasks_made += 1
        key = self._tasks_made
        self._tasks[key] = (task, coro)
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    def describe_waiting(self) -> str:
        names = [_coroutine_name(coro) for task, coro in self._tasks.values() if not task.done()]
        return f"{len(names)} tasks wait: {', '.join(names[:20])}" if names else "no task waits"

    def _refuse(self) -> None:
        raise RuntimeError("Event loop is closed")

    def call_exception_handler(self, context: Any) -> None:
        if not self.dead:
            super().call_exception_handler(context)

    def default_exception_handler(self, context: Any) -> None:
        self.uncaught.append(context)

    # --- threads ---

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        start_ns = self._after_job_delay(self.scheduler.now_ns)
        if getattr(executor, "_max_workers", 0) == 1:
            # A pool of one thread keeps the order of its jobs.
            start_ns = max(start_ns, self._last_job_end_ns.get(id(executor), 0) + 1)
            self._last_job_end_ns[id(executor)] = start_ns
        self.scheduler.at(start_ns, lambda: self._run_job(future, func, args), owner=self)
        return future

    def run_jobs_at_usual_speed(self) -> None:
        """Undo what was assigned to `job_seconds`."""
        self.job_seconds = JOB_SECONDS

    def _after_job_delay(self, now_ns: int) -> int:
        low, high = self.job_seconds
        return now_ns + round(self._random.uniform(low, high) * NS_PER_SECOND)

    def _run_job(self, future: asyncio.Future[T], func: Callable[[Unpack[Ts]], T], args: tuple[*Ts]) -> None:
        if future.cancelled():
            return
        error: BaseException | None = None
        result: T | None = None
        try:
            result = func(*args)
        except Exception as caught:
            error = caught
        except BaseException:
            # A power cut in the middle of the job; anything else is the tester's own Ctrl-C.
            if self.dead:
                return
            raise
        self.scheduler.note_detail(f"{self.name} job {getattr(func, '__qualname__', type(func).__name__)}")
        self.scheduler.at(
            self._after_job_delay(self.scheduler.now_ns),
            lambda: self._wake_with(_Handle(_resolve, (future, result, error), self)),
            owner=self,
        )

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There are no threads to wait for."""

    # --- descriptors ---

    def open_descriptor(self, pollable: Pollable) -> int:
        """A number for a simulated socket."""
        return self._descriptors.open(pollable)

    def close_descriptor(self, descriptor: int) -> None:
        """The socket is closed; the loop must not have been watching it any more."""
        if self._descriptors.close(descriptor) and not self.dead:
            self.uncaught.append({"message": f"descriptor {descriptor} was closed while the loop watched it"})

    def stir(self, descriptor: int) -> None:
        """The socket may have become ready."""
        self._descriptors.stir(descriptor)
        self._awake[self] = None

    def add_reader(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._add_watch(fd, "reader", _Handle(callback, args, self))

    def add_writer(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._add_watch(fd, "writer", _Handle(callback, args, self))

    def remove_reader(self, fd: Any) -> bool:
        return self._descriptors.unwatch(_number(fd), "reader")

    def remove_writer(self, fd: Any) -> bool:
        return self._descriptors.unwatch(_number(fd), "writer")

    def _add_watch(self, fd: Any, side: Side, handle: asyncio.Handle) -> None:
        if not self.dead:
            self._descriptors.watch(_number(fd), side, handle)
            self._awake[self] = None

    # --- life and death ---

    def pause(self) -> None:
        """SIGSTOP: time goes on, this process does not."""
        self.paused = self._is_stopped = True

    def resume(self) -> None:
        """SIGCONT: what fell due meanwhile happens now."""
        self.paused = self._is_stopped = False
        self.scheduler.resume(self)

    def kill(self) -> None:
        """SIGKILL: no callback of this process runs again."""
        self.end()
        self.close_coroutines()

    def end(self) -> None:
        """The first half of a kill: from here on this loop runs nothing and takes nothing."""
        self.dead = True
        self.scheduler.remove_process(self)
        self.queue.clear()
        self._descriptors.unwatch_all()

    def close_coroutines(self) -> None:
        """The second half, once disk and network are dead too.

        The garbage collector would run the `finally` blocks of abandoned coroutines at a moment of its
        own, and no two runs would be alike. They run here instead, where what they do can reach nothing
        any more.
        """
        for task, coro in list(self._tasks.values()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Raises where the coroutine is the one running now, or insists on awaiting while it is closed.
            with contextlib.suppress(BaseException):
                coro.close()
        self._tasks.clear()


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())


def _coroutine_name(coro: Any) -> str:
    return getattr(coro, "__qualname__", type(coro).__name__)


def _resolve(future: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError(f"a thread's function raised {error!r}"))
    else:
        future.set_exception(error)
