"""One seed decides what happens next, everywhere.

The scheduler owns virtual time and every source of chance in a simulated world. Processes (`SimulatedLoop`)
hand it their timers and thread jobs; the network hands it its packets. A step runs one round of one process
that has something to do, chosen by the seed; when none has, time jumps to the next event. Nothing reads a
real clock, so an hour of virtual silence costs nothing and the same seed gives the same run, in any
process, on any machine.

Events that fall on the same moment run in an order the seed chooses: a real kernel promises none. Callbacks
given to `call_soon` keep their order within a process, because asyncio does promise that.

Everything of note is written to the trace, whose running hash is the proof that two runs were the same run.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence, Sized
from hashlib import blake2b
from itertools import islice
from typing import Final, Protocol
from zlib import crc32

NS_PER_SECOND: Final = 1_000_000_000

# A round of callbacks takes some time on a real core, so code that polls cannot freeze virtual time.
ROUND_NS_MIN: Final = 1_000
ROUND_NS_MAX: Final = 20_000

# Enough of the trace to see what led to a failure; the whole of it would not fit in memory for a long run.
TRACE_LINES_MAX: Final = 2_000


class SimulationError(Exception):
    """The simulated world cannot go on, or found a broken rule. Says what and where."""


class DeadlockError(SimulationError):
    """Something is waited for and nothing is left that could bring it about."""


class RunawayError(SimulationError):
    """More steps than a sane run takes: something spins."""


class Process(Protocol):
    """What the scheduler needs to know of a simulated process."""

    name: str
    paused: bool
    dead: bool

    @property
    def queue(self) -> Sized:
        """With nothing here nor in `stirred` it has no work."""

    @property
    def stirred(self) -> Sized: ...

    def has_work(self) -> bool: ...

    def run_round(self) -> None: ...

    def describe_waiting(self) -> str: ...


class Event:
    """Something that will happen at `when_ns`, unless cancelled or its process dies first."""

    __slots__ = ("action", "cancelled", "owner", "when_ns")

    def __init__(self, when_ns: int, owner: Process | None, action: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.owner = owner
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Trace:
    """What happened, as lines: the last few kept to be read, all of them folded into a hash.

    Details (every packet, every write) are only folded in, and by a cheaper hash, for there are many: they
    can be had by playing the seed again.
    """

    def __init__(
        self, *, start_ns: int = 0, echo: Callable[[str], None] | None = None, echoes_details: bool = False
    ) -> None:
        self.lines: deque[tuple[int, str]] = deque(maxlen=TRACE_LINES_MAX)
        self.count = 0
        self._start_ns = start_ns
        self._hash = blake2b(digest_size=16)
        self._details = 0
        self._echo = echo
        self._echo_detail = echo if echoes_details else None

    def add(self, now_ns: int, text: str) -> None:
        self.count += 1
        self._hash.update(f"{now_ns} {text}\n".encode())
        self.lines.append((now_ns, text))
        if self._echo is not None:
            self._echo(self.line(now_ns, text))

    def add_detail(self, now_ns: int, text: str) -> None:
        self.count += 1
        # Numbers hash alike in every process; texts do not.
        self._details = hash((self._details, now_ns, crc32(text.encode())))
        if self._echo_detail is not None:
            self._echo_detail(self.line(now_ns, text))

    def add_packet(self, now_ns: int, source: object, size: int) -> None:
        """A detail of which there are so many that its text is only made for who reads it."""
        self.count += 1
        self._details = hash((self._details, now_ns, size))
        if self._echo_detail is not None:
            self._echo_detail(self.line(now_ns, f"{source!r} brings {size}"))

    def line(self, now_ns: int, text: str) -> str:
        """As it is read: seconds since the world began, and what happened."""
        return f"{(now_ns - self._start_ns) / NS_PER_SECOND:10.6f}  {text}"

    def last(self, count: int) -> list[str]:
        """The last lines before now."""
        first = max(0, len(self.lines) - count)
        return [self.line(*each) for each in islice(self.lines, first, None)]

    def digest(self) -> str:
        whole = self._hash.copy()
        whole.update(f"{self._details}".encode())
        return whole.hexdigest()


class Scheduler:
    """Virtual time, the queue of events, and the processes that take turns."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        steps_max: int = 5_000_000,
        start_s: int = 1_000,
        echo: Callable[[str], None] | None = None,
        echoes_details: bool = False,
    ) -> None:
        self.seed = seed
        self.steps = 0
        self.steps_max = steps_max
        # Not zero: a moment that happens to be falsy hides mistakes.
        self.now_ns = start_s * NS_PER_SECOND
        self.start_ns = self.now_ns
        self.trace = Trace(start_ns=self.now_ns, echo=echo, echoes_details=echoes_details)
        self.processes: list[Process] = []
        self.processes_made = 0
        self.awake: dict[Process, None] = {}
        """Processes that may have something to do: whoever gives one work puts it here."""
        self.after_step: list[Callable[[], None]] = []
        self.failure: BaseException | None = None
        """What ends the run after this step."""
        self.ran: Process | None = None
        """The process whose round the last step was, if it was one's."""
        self._random = self.random_for("scheduler")
        self._events: list[tuple[int, float, int, Event]] = []
        self._events_made = 0
        self._deferred: list[Event] = []

    def random_for(self, purpose: str) -> random.Random:
        """A stream of chance of its own: one part drawing more does not change the luck of another."""
        return random.Random(f"{self.seed}/{purpose}")

    def note(self, text: str) -> None:
        """Write a line to the trace."""
        self.trace.add(self.now_ns, text)

    def note_detail(self, text: str) -> None:
        """Write a line that few want to read."""
        self.trace.add_detail(self.now_ns, text)

    def at(self, when_ns: int, action: Callable[[], None], *, owner: Process | None = None) -> Event:
        """Let `action` happen at a moment; a moment in the past means now."""
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        event = Event(when_ns, owner, action)
        self._events_made += 1
        heapq.heappush(self._events, (when_ns, self._random.random(), self._events_made, event))
        return event

    def after(self, delay_s: float, action: Callable[[], None], *, owner: Process | None = None) -> Event:
        return self.at(self.now_ns + round(delay_s * NS_PER_SECOND), action, owner=owner)

    def add_process(self, process: Process) -> None:
        self.processes.append(process)
        self.processes_made += 1
        self.awake[process] = None

    def remove_process(self, process: Process) -> None:
        """The process is gone: nothing it had planned will happen."""
        if process in self.processes:
            self.processes.remove(process)
        self.awake.pop(process, None)

    def resume(self, process: Process) -> None:
        """Events that fell due while the process was paused happen now."""
        mine = [event for event in self._deferred if event.owner is process]
        self._deferred = [event for event in self._deferred if event.owner is not process]
        for event in mine:
            event.when_ns = self.now_ns
            self._events_made += 1
            heapq.heappush(self._events, (self.now_ns, self._random.random(), self._events_made, event))

    def run(self, done: Callable[[], bool]) -> None:
        """Step until `done`; DeadlockError where that can never be."""
        step = self.step
        while not done():
            step()

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass."""
        until_ns = self.now_ns + round(seconds * NS_PER_SECOND)
        self.at(until_ns, lambda: None)
        while self.now_ns < until_ns:
            self.step()

    def step(self) -> None:
        """Fire what is due, then run one round of one process; with nothing to do, jump in time first."""
        self.steps += 1
        if self.steps > self.steps_max:
            raise RunawayError(f"no end after {self.steps_max} steps; {self._waiting()}")
        self.ran = None
        events = self._events
        is_due = bool(events) and events[0][0] <= self.now_ns
        if is_due:
            self._fire_due()
        runnable = self._runnable() if self.awake else ()
        if not runnable and not is_due:  # what was fired may be all that somebody waits for
            self._jump()
            self._fire_due()
            runnable = self._runnable()
        if runnable:
            chance = self._random.random
            process = runnable[0] if len(runnable) == 1 else runnable[int(chance() * len(runnable))]
            self.ran = process
            process.run_round()
            self.now_ns += ROUND_NS_MIN + int(chance() * (ROUND_NS_MAX - ROUND_NS_MIN))
        if self.failure is not None:
            raise self.failure
        for check in self.after_step:
            check()

    def _runnable(self) -> Sequence[Process]:
        if len(self.awake) == 1:
            (only,) = self.awake
            if not only.paused and (only.queue or only.has_work()):
                return (only,)
        runnable = []
        for process in list(self.awake):
            if not process.queue and not (process.stirred and process.has_work()):
                del self.awake[process]
            elif not process.paused:
                runnable.append(process)
        return runnable

    def _fire_due(self) -> None:
        events = self._events
        while events and events[0][0] <= self.now_ns:
            event = heapq.heappop(events)[3]
            owner = event.owner
            if event.cancelled or (owner is not None and owner.dead):
                continue
            if owner is not None and owner.paused:
                self._deferred.append(event)
            else:
                event.action()

    def _jump(self) -> None:
        events = self._events
        while events and (
            events[0][3].cancelled or ((owner := events[0][3].owner) is not None and owner.dead)
        ):
            heapq.heappop(events)
        if not events:
            raise DeadlockError(f"nothing is left to happen; {self._waiting()}")
        self.now_ns = max(self.now_ns, events[0][0])

    def _waiting(self) -> str:
        return "; ".join(f"{p.name}: {p.describe_waiting()}" for p in self.processes) or "no process is alive"
