"""`headrace sim`: whole clusters in one process, on virtual time, with everything failing that can.

A seed decides all of a run: what clients do, what fails and when, in which order things happen. The same seed
is the same run, on any machine. Rules are looked at after every step; a run that breaks one ends, and is told
of with its seed, the step, the rule, and the command that plays it again with a trace.
"""

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import click

from headrace.cli.options import examples, json_option
from headrace.cli.output import print_json_line
from headrace.testing.nemesis import Trouble
from headrace.testing.scenarios import SCENARIOS
from headrace.testing.simulate import FAULTS, Failure, Play, SeedFailedError, play, play_all

# How often a person hears of progress.
TELL_S: Final = 5.0


class SeedRange(click.ParamType[range]):
    """A..B, both of them played; or a number of seeds, from 0 on."""

    name = "range"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(value))
        if found is None:
            self.fail(f"{value!r} is neither A..B nor a number of seeds.", param, ctx)
        first, last = found.groups()
        return range(int(first)) if last is None else range(int(first), int(last) + 1)


class FaultNames(click.ParamType[tuple[Trouble, ...]]):
    """Kinds of faults, with commas between them; `none` for none at all."""

    name = "kinds"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Trouble, ...]:
        if isinstance(value, tuple):
            return value
        names = [] if value == "none" else str(value).split(",")
        unknown = [each for each in names if each not in FAULTS]
        if unknown:
            self.fail(f"{', '.join(unknown)} is no fault: choose of {', '.join(FAULTS)} or none.", param, ctx)
        return tuple(FAULTS[each] for each in names)


@click.command(
    epilog=examples(
        "headrace sim --seeds 1000",
        "headrace sim --seeds 5000..5999 --scenario quorum --scenario replication",
        "headrace sim --seeds 200 --scenario compaction --faults power-cut,crash-within",
        "headrace sim --seeds 200 --scenario node --scenario log --scenario echo",
        "headrace sim --seeds 100 --scenario tiers --scenario attackers --scenario share",
        "headrace sim --seeds 100 --faults kill,pause,partition",
        "headrace sim --seed 17 --trace",
    )
)
@click.option("--seeds", type=SeedRange(), default="100", help="A..B, or how many.  [default: 100]")
@click.option("--seed", type=int, help="Play this one alone.")
@click.option(
    "--scenario",
    "scenarios",
    type=click.Choice([*sorted(SCENARIOS), "all"]),
    multiple=True,
    default=["cluster"],
    show_default=True,
    help="What is played; may be given several times.",
)
@click.option("--faults", type=FaultNames(), help="The kinds of faults that may happen.  [default: all]")
@click.option("--trace", is_flag=True, help="With --seed: print what happens.")
@click.option("--details", is_flag=True, help="With --trace: also every packet and every write.")
@click.option(
    "--processes", type=click.IntRange(1), help="Processes that play.  [default: one for each core]"
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first seed that fails.")
@json_option
def sim(
    seeds: range,
    seed: int | None,
    scenarios: Sequence[str],
    faults: tuple[Trouble, ...] | None,
    trace: bool,
    details: bool,
    processes: int | None,
    fail_fast: bool,
    as_json: bool,
) -> None:
    """Play simulated clusters under seeds, and look for a broken rule.

    \b
    cluster      three whole nodes, producers, a group, an operator
    node         one whole node under producers and consumers
    quorum       three controllers and their metadata log
    replication  the replicas of two partitions, message by message
    log          one partition on a disk that cannot be trusted
    compaction   keyed logs that are cleaned on such a disk
    share        the same as cluster, with a share group in the place of the group
    tiers        tiered topics and a remote store that fails, on whole nodes
    attackers    the same as cluster, with clients that flood, stall and send garbage
    echo         the transport
    """
    names = sorted(SCENARIOS) if "all" in scenarios else list(dict.fromkeys(scenarios))
    if seed is not None:
        _play_one(names, seed, faults, trace=trace, details=details, as_json=as_json)
        return
    if trace:
        raise click.UsageError("--trace needs --seed: which of them shall be told?")
    plays = [Play(name, each, faults) for each in seeds for name in names]
    failures = _play_many(plays, processes, fail_fast=fail_fast, as_json=as_json)
    if failures:
        raise click.exceptions.Exit(1)


def _play_one(
    names: Sequence[str],
    seed: int,
    faults: tuple[Trouble, ...] | None,
    *,
    trace: bool,
    details: bool,
    as_json: bool,
) -> None:
    for name in names:
        try:
            outcome = play(
                name,
                seed,
                faults=faults,
                echo=partial(click.echo, err=as_json) if trace else None,
                echoes_details=details,
            )
        except SeedFailedError as error:
            _tell(error.failure, with_lines=not trace, as_json=as_json)
            raise click.exceptions.Exit(1) from error
        if as_json:
            figures = {"steps": outcome.steps, "virtual_s": outcome.virtual_s, "digest": str(outcome.digest)}
            print_json_line({"event": "kept", "scenario": name, "seed": seed, **figures})
            continue
        click.echo(
            f"{name}, seed {seed}: kept all rules in {outcome.steps} steps and {outcome.virtual_s:.1f} "
            f"virtual seconds; digest {outcome.digest}"
        )


def _play_many(
    plays: Sequence[Play], processes: int | None, *, fail_fast: bool, as_json: bool
) -> list[Failure]:
    failures: list[Failure] = []
    started = told = time.monotonic()
    count = 0
    for outcome in play_all(plays, processes=processes):
        count += 1
        if outcome is not None:
            failures.append(outcome)
            _tell(outcome, with_lines=True, as_json=as_json)
            if fail_fast:
                break
        now = time.monotonic()
        if now - told >= TELL_S:
            told = now
            left_s = (len(plays) - count) * (now - started) / count
            told_text = f"{_rate(count, len(failures), now - started)}, about {left_s:.0f} s to go"
            click.echo(told_text, err=as_json)
    if as_json:
        seconds = round(time.monotonic() - started, 3)
        print_json_line({"event": "played", "seeds": count, "failed": len(failures), "seconds": seconds})
        return failures
    click.echo(f"played {_rate(count, len(failures), time.monotonic() - started)}")
    for failure in failures:
        click.echo(f"  {failure.play.command}")
    return failures


def _rate(count: int, failed: int, seconds: float) -> str:
    per_minute = 60 * count / max(seconds, 0.001)
    return f"{count} seeds in {seconds:.0f} s, {failed} failed, {per_minute:.0f} seeds per minute"


def _tell(failure: Failure, *, with_lines: bool, as_json: bool) -> None:
    play_ = failure.play
    if as_json:
        which = {"scenario": play_.scenario, "seed": play_.seed, "step": failure.step}
        told = {"rule": failure.rule, "virtual_s": failure.virtual_s, "command": play_.command}
        print_json_line({"event": "failed", **which, **told})
        return
    click.echo(f"\nFAILED   scenario {play_.scenario}, seed {play_.seed}")
    click.echo(f"step     {failure.step}, after {failure.virtual_s:.3f} virtual seconds")
    click.echo(f"broken   {failure.rule}")
    click.echo(f"replay   {play_.command}")
    for line in failure.last_lines if with_lines else ():
        click.echo(f"         {line}")
    click.echo("")
