"""The short forms of the package `faults`, and its checker, which must be able to find fault."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests.compat.faults import rolling, schedule
from tests.compat.faults.checker import Told, check, value_of

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_or_doubled_whatever_fails() -> None:
    """As a command: it moves into namespaces of its own, if it may, and a test's process must not."""
    plan = ["--rounds", "4", "--seed", "30741", "--records-per-second", "50"]
    command = [sys.executable, "-m", "tests.compat.faults", *plan]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    assert "0 violations" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_transactions_are_whole_or_gone_whatever_fails() -> None:
    plan = ["--transactions", "--rounds", "4", "--seed", "30741"]
    command = [sys.executable, "-m", "tests.compat.faults", *plan]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    assert "0 violations" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nobody_is_turned_away_while_keys_change_whatever_fails() -> None:
    """Its short form in every run: tests/security/test_changed_keys.py."""
    plan = ["--secure", "--rounds", "9", "--seed", "30741", "--only", "kill", "restart"]
    command = [sys.executable, "-m", "tests.compat.faults", *plan]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    assert "9 changes of certificates and passwords" in done.stdout
    assert "0 violations" in done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("only", ["confluent", pytest.param(None, id="all", marks=pytest.mark.slow)])
def test_no_client_sees_a_rolling_restart(tmp_path: Path, only: str | None) -> None:
    assert rolling.run(tmp_path, rounds=1, only=only) == []


def test_a_seed_decides_everything() -> None:
    def drawn(seed: int) -> list[list[schedule.Fault]]:
        return list(islice(schedule.rounds(seed, schedule.EVERYTHING), 200))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    faults = [fault for each in drawn(1) for fault in each]
    assert {fault.kind for fault in faults} == set(schedule.EVERYTHING)
    assert all(len({fault.node for fault in each}) == len(each) for each in drawn(1))
    only = [fault.kind for each in islice(schedule.rounds(1, {schedule.KILL}), 20) for fault in each]
    assert set(only) == {schedule.KILL}


A, B, C, D = (value_of("a", number) for number in range(4))


def _faults(log: dict[int, list[bytes]], told: Told, seen: dict[int, list[bytes]] | None = None) -> list[str]:
    numbered = {at: list(enumerate(values)) for at, values in log.items()}
    views = {} if seen is None else {"r": {at: list(enumerate(values)) for at, values in seen.items()}}
    return check([told], numbered, views)


def test_the_checker_finds_nothing_where_nothing_is_wrong() -> None:
    told = Told("a", 4, {A: (0, 0), B: (1, 0), C: (0, 1), D: (1, 1)})
    log = {0: [A, C], 1: [B, D]}
    assert _faults(log, told, log) == []
    # One that failed may be there or not.
    assert _faults({0: [A, C], 1: [B]}, Told("a", 4, {A: (0, 0), B: (1, 0), C: (0, 1)}, {D})) == []
    assert _faults({0: [A, C], 1: [D]}, Told("a", 4, {A: (0, 0), C: (0, 1), D: (1, 0)}, {B})) == []


@pytest.mark.parametrize(
    ("log", "what"),
    [
        ([A, C, D], "b'a/1': is lost"),
        ([A, B, B, C, D], "is there more than once"),
        ([A, C, B, D], "comes where number"),
        ([A, B, value_of("a", 9), C, D], "was never sent"),
        ([B, A, C, D], "is not where it was said to be"),
    ],
)
def test_the_checker_finds_what_is_wrong(log: list[bytes], what: str) -> None:
    told = Told("a", 4, {value: (0, offset) for offset, value in enumerate([A, B, C, D])})
    assert any(what in fault for fault in _faults({0: log}, told))


def test_an_acknowledgement_without_an_offset_counts_where_the_client_may_give_one() -> None:
    """librdkafka's implicit acknowledgement: the record must be there, once and in its partition."""
    places: dict[bytes, tuple[int, int | None]] = {A: (0, 0), B: (1, None), C: (0, 1), D: (1, 1)}
    implicit = Told("a", 4, places, tells_every_offset=False)
    assert _faults({0: [A, C], 1: [B, D]}, implicit) == []
    assert any("b'a/1': is lost" in each for each in _faults({0: [A, C], 1: [D]}, implicit))
    assert any("more than once" in each for each in _faults({0: [A, C], 1: [B, B, D]}, implicit))
    other_partition = _faults({0: [A, C, B], 1: [D]}, implicit)
    assert any("(0, 2) instead of (1, None)" in each for each in other_partition)
    # An offset that it did tell is compared, and other clients always tell one.
    assert any("instead of (0, 0)" in each for each in _faults({0: [C, A], 1: [B, D]}, implicit))
    strict = Told("a", 4, places)
    assert any("instead of (1, None)" in each for each in _faults({0: [A, C], 1: [B, D]}, strict))


def test_the_checker_finds_gaps_and_what_readers_saw_too_early_or_never() -> None:
    told = Told("a", 2, {A: (0, 0), B: (0, 1)})
    log = {0: [A, B]}
    assert any("saw b'a/2' at 1, where b'a/1' is now" in each for each in _faults(log, told, {0: [A, C]}))
    assert any("saw 1 of 2 records" in each for each in _faults(log, told, {0: [A]}))
    assert check([told], {0: [(0, A), (1, B)]}, {"r": {0: [(0, A), (0, A), (1, B)]}})
    assert any("offset 2 follows 0" in each for each in check([told], {0: [(0, A), (2, B)]}, {}))
