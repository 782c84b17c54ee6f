"""Play scenarios under many seeds: `python -m headrace.testing.simulate log --seeds 1000`.

A scenario is one function of a `World`. Seeds that fail are printed with the command that plays them
again, and `--seed N` plays one with its whole trace on request. Every seed is played in a world of its
own, so any of them can be had alone. Exit status 1 when one failed.
"""

import argparse
import itertools
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headrace.testing.scenarios import SCENARIOS
from headrace.testing.world import World

# The last lines before a failure tell most; the rest can be had by playing the seed again with --trace.
TRACE_LINES_SHOWN: Final = 40

# Ten times what a long run takes: code that spins is found within seconds.
STEPS_MAX: Final = 500_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that kept all rules. Two runs of one seed have equal digests."""

    seed: int
    digest: str
    steps: int
    virtual_s: float


class SeedFailedError(AssertionError):
    """A rule was broken; the message has the seed, the reason and the command that plays it again."""


def replay_command(scenario: str, seed: int) -> str:
    return shlex.join(["python", "-m", "headrace.testing.simulate", scenario, "--seed", str(seed)])


def play(scenario: str, seed: int, *, echo: Callable[[str], None] | None = None) -> Outcome:
    """Play one seed in a new world; SeedFailedError where it breaks a rule."""
    world = World(f"{scenario}/{seed}", steps_max=STEPS_MAX, echo=echo)
    try:
        SCENARIOS[scenario](world)
        return Outcome(seed, world.digest(), world.scheduler.steps, world.virtual_s)
    except Exception as error:
        raise SeedFailedError(_tell(world, scenario, seed, error)) from error
    finally:
        world.close()


def _tell(world: World, scenario: str, seed: int, error: Exception) -> str:
    tail = itertools.islice(reversed(world.scheduler.trace.lines), TRACE_LINES_SHOWN)
    return "\n".join(
        [
            f"scenario {scenario}, seed {seed}: {type(error).__name__}: {error}",
            f"play it again: {replay_command(scenario, seed)}",
            "the last that happened:",
            *reversed([f"  {line}" for line in tail]),
        ]
    )


def play_all(scenario: str, seeds: Iterable[int], *, fail_fast: bool = False) -> list[int]:
    """Play many seeds, telling of progress; returns those that failed."""
    failed: list[int] = []
    count, started = 0, time.monotonic()
    for seed in seeds:
        try:
            play(scenario, seed)
        except SeedFailedError as error:
            failed.append(seed)
            print(f"\n{error}\n", flush=True)
            if fail_fast:
                break
        count += 1
        if count % 50 == 0:
            rate = count / (time.monotonic() - started)
            print(f"{scenario}: {count} seeds, {len(failed)} failed, {rate:.1f}/s", flush=True)
    print(f"{scenario}: played {count} seeds in {time.monotonic() - started:.0f} s, {len(failed)} failed")
    for seed in failed:
        print(f"  {replay_command(scenario, seed)}")
    return failed


def _play_one(scenario: str, seed: int, *, show_trace: bool) -> bool:
    try:
        outcome = play(scenario, seed, echo=print if show_trace else None)
    except SeedFailedError as error:
        traceback.print_exc()
        print(f"\n{error}")
        return False
    print(f"seed {seed} kept all rules: {outcome.steps} steps, {outcome.virtual_s:.1f} s, {outcome.digest}")
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.testing.simulate", description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="play this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first seed that fails")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return 0 if _play_one(options.scenario, options.seed, show_trace=options.trace) else 1
    seeds = range(options.first, options.first + options.seeds)
    return 1 if play_all(options.scenario, seeds, fail_fast=options.fail_fast) else 0


if __name__ == "__main__":
    sys.exit(main())
