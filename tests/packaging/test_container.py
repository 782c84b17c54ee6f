"""The Containerfile: what it copies is there, what it installs is locked, what it starts and probes fits."""

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.parse
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement

from headrace.cli.main import cli
from headrace.node.config import load
from tests.house.source import ROOT
from tests.packaging.container import instructions

STEPS = instructions()


def last(word: str) -> str:
    return [rest for each, rest in STEPS if each == word][-1]


def test_all_that_is_copied_is_there() -> None:
    copied = [rest.split()[:-1] for word, rest in STEPS if word == "COPY" and not rest.startswith("--from=")]
    assert copied
    assert not [name for names in copied for name in names if not (ROOT / name).exists()]


def test_versions_are_those_of_the_lock_file(tmp_path: Path) -> None:
    (line,) = [rest for word, rest in STEPS if word == "RUN" and "constraints.txt" in rest and "grep" in rest]
    (tmp_path / "requirements.lock").symlink_to(ROOT / "requirements.lock")
    subprocess.run(["sh", "-ec", line], cwd=tmp_path, check=True)
    found = [Requirement(each) for each in (tmp_path / "constraints.txt").read_text().splitlines()]
    assert {"numba", "numpy", "uvloop", "crc32c"} <= {each.name for each in found}
    assert not [each for each in found if each.extras], "pip takes no constraint with extras"


@pytest.mark.parametrize("extras", ["", "stores"])
def test_extras_are_ones_that_the_package_has(extras: str) -> None:
    (line,) = [rest for word, rest in STEPS if word == "RUN" and "pip install" in rest]
    script = line.replace("/opt/headrace/bin/pip", 'printf "%s\\n"')
    told = subprocess.run(["sh", "-ec", script], env={"EXTRAS": extras}, capture_output=True, text=True)
    assert told.stdout.splitlines()[-1] == (f".[{extras}]" if extras else ".")
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert not extras or extras in offered


def test_what_it_starts_is_known_and_what_probes_ask_is_served() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["headrace"]
    command, *words = json.loads(last("CMD"))
    told = CliRunner().invoke(cli, [command, "--help"]).output
    assert not [word for word in words if word.startswith("--") and word not in told]
    given = dict(each.split("=", 1) for name, each in pairwise(words) if name == "--set")
    config = load(None, given, None, words[words.index("--data") + 1])
    (probe,) = re.findall(r"http://\S+?(?=')", last("HEALTHCHECK"))
    asked = urllib.parse.urlsplit(probe)
    assert config.str("headrace.metrics.listener") == f"HTTP://:{asked.port}"
    assert asked.path == "/health/live"
    assert last("EXPOSE").split() == [str(config.broker_listeners[0].port), str(asked.port)]
    assert list(config.log_dirs) == [last("VOLUME")] == [last("WORKDIR")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_is_built_and_serves() -> None:
    """As `python -m tests.packaging.container` does, which needs root, and PyPI."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make layers in a namespace")
    command = [sys.executable, "-m", "tests.packaging.container"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is healthy and stops in order" in done.stdout
