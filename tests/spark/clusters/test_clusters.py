"""A real cluster of processes, in the short form; the long one has every way to ship headrace."""

import subprocess
import sys

import pytest

from tests.spark.clusters.cases import CASES
from tests.spark.clusters.workers import ROOT

SHORT = ("installed",)


@pytest.mark.timeout(600)
def test_a_worker_is_killed_and_every_row_comes_out_once() -> None:
    _try(*SHORT)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_way_to_ship_it() -> None:
    _try(*(name for name in CASES if name not in SHORT))


def _try(*names: str) -> None:
    """In a process of its own, since it moves into namespaces."""
    command = [sys.executable, "-m", "tests.spark.clusters", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[-len(names) :]] == list(names)
