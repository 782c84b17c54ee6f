"""A seed that fails says so, with the step, the rule and the way to see it again."""

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.sim import sim
from headrace.testing import scenarios
from headrace.testing.nemesis import Nemesis, Trouble
from headrace.testing.simulate import Play, SeedFailedError, play, play_all
from headrace.testing.world import CheckFailedError

OFFERED = sorted(scenarios.SCENARIOS)
GUIDE = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_every_scenario_is_told_of_with_an_example():
    help_text = CliRunner().invoke(sim, ["--help"]).output
    listed, _, samples = help_text.partition("Options:")
    for name in OFFERED:
        assert f"\n  {name} " in listed
        assert f"--scenario {name}" in samples or name == "cluster", (
            "cluster is played unless others are named"
        )
        assert f"| `{name}` |" in GUIDE.read_text()


def breaks_on_odd_luck(world):
    async def script():
        world.note("about to look")
        world.scheduler.note_detail("a packet")
        await asyncio.sleep(1)
        if world.rng.randrange(2):
            raise CheckFailedError("the rule is broken")

    world.run(script())


def is_killed(world):
    """Fails unless all that may happen to it is a kill."""

    async def forever(own):
        await asyncio.sleep(1000)

    async def script():
        machine = world.machine("victim")
        world.keep_running(machine, forever)
        nemesis = Nemesis(world, [machine], [Trouble.KILL, Trouble.PAUSE])
        await nemesis.rage(5)
        nemesis.calm()
        if set(nemesis.strikes) != {Trouble.KILL}:
            raise CheckFailedError(f"struck by {sorted(each.name for each in set(nemesis.strikes))}")

    world.run(script())


def complains(world):
    async def script():
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            logging.getLogger("headrace.somewhere").exception("that was not expected")
        await asyncio.sleep(1)

    world.run(script())


@pytest.fixture(autouse=True)
def more_scenarios(monkeypatch):
    for name, scenario in {"odd": breaks_on_odd_luck, "killed": is_killed, "complains": complains}.items():
        monkeypatch.setitem(scenarios.SCENARIOS, name, scenario)


def some_seed(fails):
    for seed in range(100):
        try:
            play("odd", seed)
        except SeedFailedError:
            if fails:
                return seed
        else:
            if not fails:
                return seed
    raise AssertionError("no such seed")


def run(*arguments):
    """The command as it is with these scenarios, which came after its options were made."""
    (scenario,) = [option for option in sim.params if option.name == "scenarios"]
    choices, scenario.type.choices = scenario.type.choices, [*scenarios.SCENARIOS, "all"]
    try:
        return CliRunner().invoke(sim, list(arguments))
    finally:
        scenario.type.choices = choices


def test_a_failure_names_seed_step_rule_trace_and_command():
    seed = some_seed(fails=True)
    with pytest.raises(SeedFailedError) as raised:
        play("odd", seed)
    told = str(raised.value)
    step = raised.value.failure.step
    assert step > 1
    assert f"seed {seed}, step {step}: CheckFailedError: the rule is broken" in told
    assert f"headrace sim --scenario odd --seed {seed} --trace" in told
    assert "0.000000  about to look" in told
    assert "a packet" not in told


def test_the_command_plays_many_and_lists_those_that_failed():
    result = run("--scenario", "odd", "--seeds", "20", "--processes", "1")
    assert result.exit_code == 1
    seed = some_seed(fails=True)
    assert f"headrace sim --scenario odd --seed {seed} --trace" in result.output
    assert "played 20 seeds" in result.output
    assert "seeds per minute" in result.output
    assert "broken   CheckFailedError: the rule is broken" in result.output


def test_several_processes_play_the_same():
    """In a process of its own, which has no other threads: it forks, so that its children know `odd` too."""
    program = """
from headrace.testing.scenarios import SCENARIOS
from headrace.testing.simulate import Play, play_all
from tests.testing.test_simulate import breaks_on_odd_luck

SCENARIOS["odd"] = breaks_on_odd_luck
assert list(play_all([Play("echo", seed) for seed in range(6)], processes=2)) == [None] * 6
odd = [Play("odd", seed) for seed in range(20)]
alone, together = (
    {failure.play.seed for failure in play_all(odd, processes=count) if failure} for count in (1, 2)
)
assert alone == together != set()
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_processes_are_not_forked_where_there_are_threads():
    """Who held a lock in one of them would hold it for ever in a child."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert list(play_all([Play("echo", 0), Play("echo", 1)], processes=2)) == [None] * 2
    finally:
        done.set()
        thread.join()


def test_the_command_plays_one():
    seed = str(some_seed(fails=False))
    result = run("--scenario", "odd", "--seed", seed, "--trace")
    assert result.exit_code == 0
    assert "about to look" in result.output
    assert "a packet" not in result.output
    assert "kept all rules" in result.output
    assert "a packet" in run("--scenario", "odd", "--seed", seed, "--trace", "--details").output
    assert run("--scenario", "odd", "--seed", str(some_seed(fails=True))).exit_code == 1


def test_a_range_has_both_its_ends():
    result = run("--scenario", "echo", "--seeds", "3..4", "--processes", "1")
    assert "played 2 seeds" in result.output
    assert run("--seeds", "four").exit_code == 2


def test_only_the_faults_that_were_asked_for_happen():
    assert run("--scenario", "killed", "--seed", "1").exit_code == 1
    assert run("--scenario", "killed", "--seed", "1", "--faults", "kill").exit_code == 0
    assert "struck by []" in run("--scenario", "killed", "--seed", "1", "--faults", "none").output
    assert "is no fault" in run("--faults", "kill,locusts").output
    assert Play("killed", 1, (Trouble.KILL,)).command.endswith("--trace --faults kill")


def test_an_error_that_somebody_had_to_log_breaks_a_rule():
    with pytest.raises(SeedFailedError, match="did not expect: ZeroDivisionError"):
        play("complains", 1)
