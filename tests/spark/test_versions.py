"""What works on which version of Spark; `pytest -m slow` with this file tries it on each of them.

The long form fetches half a gigabyte a version from PyPI, so there is no short one: here only the documented
table is held against what is tried.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.versions.environments import ROOT, VERSIONS
from tests.spark.versions.lakes import LAKE_TRIALS
from tests.spark.versions.table import ROWS, as_markdown
from tests.spark.versions.trials import TRIALS


def test_the_documented_table_is_what_is_tried() -> None:
    assert [row.trial for row in ROWS] == [*TRIALS, *LAKE_TRIALS]
    assert as_markdown() in Path(ROOT, "docs/spark-clusters.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_does_what_is_said_of_it(version: str) -> None:
    command = [sys.executable, "-m", "tests.spark.versions", version]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
