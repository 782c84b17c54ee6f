"""The references in docs/ are written from the code, and are what the code says."""

import subprocess
import sys

import pytest

from tests.house.source import ROOT


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "tools").glob("*_docs.py")))
def test_reference_is_current(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / script), "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
