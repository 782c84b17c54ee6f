"""The short form of the suite against three nodes: topics with three replicas, and groups whose coordinator
may be any node, with the clients of PyPI. The long form is the whole suite with COMPAT_NODES=3."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOSEN = "tests/compat/test_groups.py::test_two_members_share_and_a_third_resumes"


@pytest.mark.timeout(600)
def test_stock_clients_work_with_three_nodes() -> None:
    """In a process of its own, because the number of nodes is fixed when the suite is loaded."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", CHOSEN]
    command += ["-m", "not java and not golang and not nodejs"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"COMPAT_NODES": "3"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "4 passed" in done.stdout
