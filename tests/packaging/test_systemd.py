"""The units in packaging/systemd: systemd accepts them, and what they start knows its options."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from tests.house.source import ROOT

FOLDER = ROOT / "packaging/systemd"
UNITS = sorted(path.name for path in FOLDER.iterdir())
SERVICES = [name for name in UNITS if name.endswith(".service")]


def setting(unit: str, name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.*)$", (FOLDER / unit).read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_it(unit: str, tmp_path: Path) -> None:
    """With the command where this environment has it: systemd looks whether it is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not on this machine, and nobody checks its units")
    for each in UNITS:
        text = (FOLDER / each).read_text()
        command = str(Path(sys.executable).with_name("headrace"))
        (tmp_path / each).write_text(text.replace("/opt/headrace/bin/headrace", command))
    tool = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit)]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", SERVICES)
def test_its_command_has_options_that_are_known(unit: str) -> None:
    program, *words = shlex.split(setting(unit, "ExecStart"))
    assert program == "/opt/headrace/bin/headrace"
    told = CliRunner().invoke(cli, [words[0], "--help"]).output
    assert not [word for word in words if word.startswith("--") and word not in told]


@pytest.mark.parametrize("unit", SERVICES)
def test_it_is_locked(unit: str) -> None:
    """By systemd's own measure of what a service could reach; below 2 is its best class."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not on this machine, and nobody measures its units")
    tool = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(FOLDER / unit)]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("unit", SERVICES)
def test_no_memory_is_left_on_a_disk(unit: str) -> None:
    """A dump would have passwords and keys."""
    assert setting(unit, "LimitCORE") == "0"


def test_units_of_one_node_and_of_several_are_locked_alike() -> None:
    """They differ in what they start, not in what that may do."""
    locks = [
        (FOLDER / unit).read_text().partition("NoNewPrivileges")[2].partition("[Install]")[0]
        for unit in SERVICES
    ]
    assert len(SERVICES) == 3
    assert len(set(locks)) == 1
