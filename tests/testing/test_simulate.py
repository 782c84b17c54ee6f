"""A seed that fails says so, with the reason and the way to see it again."""

import asyncio

import pytest

from headrace.testing import scenarios
from headrace.testing.simulate import SeedFailedError, main, play, replay_command
from headrace.testing.world import CheckFailedError


def breaks_on_odd_luck(world):
    async def script():
        world.note("about to look")
        await asyncio.sleep(1)
        if world.rng.randrange(2):
            raise CheckFailedError("the rule is broken")

    world.run(script())


@pytest.fixture(autouse=True)
def scenario(monkeypatch):
    monkeypatch.setitem(scenarios.SCENARIOS, "odd", breaks_on_odd_luck)


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


def test_a_failure_names_seed_reason_trace_and_command():
    seed = some_seed(fails=True)
    with pytest.raises(SeedFailedError) as raised:
        play("odd", seed)
    told = str(raised.value)
    assert f"seed {seed}: CheckFailedError: the rule is broken" in told
    assert f"python -m headrace.testing.simulate odd --seed {seed}" in told
    assert "about to look" in told


def test_the_command_plays_many_and_lists_those_that_failed(capsys):
    assert main(["odd", "--seeds", "20"]) == 1
    printed = capsys.readouterr().out
    assert replay_command("odd", some_seed(fails=True)) in printed
    assert "played 20 seeds" in printed


def test_the_command_plays_one(capsys):
    assert main(["odd", "--seed", str(some_seed(fails=False)), "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "about to look" in printed
    assert "kept all rules" in printed
    assert main(["odd", "--seed", str(some_seed(fails=True))]) == 1
