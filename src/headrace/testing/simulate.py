"""Play scenarios under many seeds, and tell what is needed to see a failure again.

A scenario is one function of a `World`. Every seed is played in a world of its own, so any of them can be had
alone, in any process, with its trace; several processes play different seeds. `headrace sim` is the command.
"""

import gc
import logging
import multiprocessing
import os
import shlex
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.testing.nemesis import Trouble
from headrace.testing.scenarios import SCENARIOS
from headrace.testing.world import CheckFailedError, World

# The last lines before a failure tell most; the rest can be had by playing the seed again.
TRACE_LINES_SHOWN: Final = 40

# Several times what a usual run takes, and more than the longest found (echo, seed 454: large frames that
# come in pieces of some hundred bytes, 676,872 steps): code that spins is found within a minute.
STEPS_MAX: Final = 1_000_000

# Seeds that are handed to a process at once: more than one, for the way there costs too.
SEEDS_AT_ONCE: Final = 4

# Objects between two looks for garbage. A run leaves little that only such a look finds until it is over.
GARBAGE_OBJECTS: Final = 100_000

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Play:
    """Which run it is: a scenario, a seed, and the kinds of faults that may happen (None: all)."""

    scenario: str
    seed: int
    faults: tuple[Trouble, ...] | None = None

    @property
    def command(self) -> str:
        """What plays it again and tells what happens."""
        words = ["headrace", "sim", "--scenario", self.scenario, "--seed", str(self.seed), "--trace"]
        if self.faults is not None:
            words += ["--faults", ",".join(fault_name(each) for each in self.faults) or "none"]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """A run that kept all rules. Two runs of one seed have equal digests."""

    seed: int
    digest: str
    steps: int
    virtual_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that broke a rule: which, where, and what led to it."""

    play: Play
    step: int
    virtual_s: float
    rule: str
    last_lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(
            [
                f"scenario {self.play.scenario}, seed {self.play.seed}, step {self.step}: {self.rule}",
                f"play it again: {self.play.command}",
                "the last that happened:",
                *(f"  {line}" for line in self.last_lines),
            ]
        )


class SeedFailedError(AssertionError):
    """A rule was broken; the message has the seed, the step, the rule and the command that plays it again."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def fault_name(kind: Trouble) -> str:
    return kind.name.lower().replace("_", "-")


FAULTS: Final = {fault_name(kind): kind for kind in Trouble}


def play(
    scenario: str,
    seed: int,
    *,
    faults: Collection[Trouble] | None = None,
    echo: Echo | None = None,
    echoes_details: bool = False,
) -> SeedOutcome:
    """Play one seed in a new world; SeedFailedError where it breaks a rule."""
    which = Play(scenario, seed, None if faults is None else tuple(faults))
    world = World(
        f"{scenario}/{seed}",
        steps_max=STEPS_MAX,
        echo=echo,
        echoes_details=echoes_details,
        faults=faults,
    )
    try:
        with _heard_logs(world, echo), _rare_garbage_collections():
            SCENARIOS[scenario](world)
        return SeedOutcome(seed, world.digest(), world.scheduler.steps, world.virtual_s)
    except Exception as error:
        raise SeedFailedError(_failure(world, which, error)) from error
    finally:
        world.close()


def _failure(world: World, which: Play, error: Exception) -> Failure:
    return Failure(
        which,
        world.scheduler.steps,
        world.virtual_s,
        f"{type(error).__name__}: {error}",
        tuple(world.scheduler.trace.last(TRACE_LINES_SHOWN)),
    )


class _Listener(logging.Handler):
    """What the processes of a world say for themselves: told among what happens to them, and judged."""

    def __init__(self, world: World, echo: Echo | None) -> None:
        super().__init__(logging.INFO)
        self._world = world
        self._write = echo

    def emit(self, record: logging.LogRecord) -> None:
        scheduler = self._world.scheduler
        who = "a thread" if scheduler.ran is None else scheduler.ran.name
        if self._write is not None:
            self._write(scheduler.trace.line(scheduler.now_ns, f"{who} says: {self.format(record)}"))
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            error = CheckFailedError(f"{who} met what it did not expect: {record.exc_info[1]!r}")
            error.__cause__ = record.exc_info[1]
            self._world.fail(error)


@contextmanager
def _heard_logs(world: World, echo: Echo | None) -> Iterator[None]:
    """Logs go into the trace where one is told, and nowhere else: simulated nodes complain a lot."""
    logger = logging.getLogger("headrace")
    level, propagates = logger.level, logger.propagate
    handler = _Listener(world, echo)
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if echo is None else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


@contextmanager
def _rare_garbage_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def play_all(plays: Iterable[Play], *, processes: int | None = None) -> Iterator[Failure | None]:
    """Play many, in several processes: of each, in the order in which they end, what failed if it did."""
    processes = processes or os.cpu_count() or 1
    if processes == 1:
        for each in plays:
            yield _try(each)
        return
    parts = _parts(iter(plays))
    # A fork has all modules at once, but hangs where another thread of this process held a lock just then.
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    pool = ProcessPoolExecutor(processes, context, _begin_worker)
    try:
        under_way: set[Future[list[Failure | None]]] = set()
        for part in islice(parts, 2 * processes):
            under_way.add(pool.submit(_try_some, part))
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for part in islice(parts, len(done)):
                under_way.add(pool.submit(_try_some, part))
            for future in done:
                yield from future.result()
        pool.shutdown()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _parts(plays: Iterator[Play]) -> Iterator[list[Play]]:
    while part := list(islice(plays, SEEDS_AT_ONCE)):
        yield part


def _try(which: Play) -> Failure | None:
    try:
        play(which.scenario, which.seed, faults=which.faults)
    except SeedFailedError as error:
        return error.failure
    return None


def _try_some(plays: list[Play]) -> list[Failure | None]:
    return [_try(each) for each in plays]


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    gc.freeze()
