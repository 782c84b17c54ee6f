"""./run and ./test do their own set-up, mend what is broken, and say what to do when they cannot.

A stand-in for Python takes the place of `venv` and `pip`, writes down how it was called, and is quick.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

STAND_IN = """#!/bin/sh
for last; do :; done
case "$*" in
  *"-m venv "*)
    echo venv >>"$CALLS"
    mkdir -p "$last/bin" "$last/lib/python{version}/site-packages/pip"
    cp "$0" "$last/bin/python"
    echo "VIRTUAL_ENV=$last" >"$last/bin/activate" ;;
  *"pip install"*"-e ."*)
    printf '#!/bin/sh\\necho "headrace $*"\\n' >"$(dirname "$0")/headrace"
    chmod +x "$(dirname "$0")/headrace" ;;
  *"pip install"*sources.lock)
    echo spark >>"$CALLS" ;;
  *"pip install"*)
    echo install >>"$CALLS"
    if [ -n "${{PIP_SAYS:-}}" ]; then echo "$PIP_SAYS"; exit 1; fi ;;
  *"pip --version"*) ;;
  *"warm()"*) echo warm >>"$CALLS" ;;
  *) exec {python} "$@" ;;
esac
"""


class Checkout:
    """A copy of what the scripts need, in a folder whose name has spaces."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a check out"
        self.calls_file = folder / "calls"
        self.python = folder / "stand-in" / "python3"
        (self.root / "src/headrace/records/kernels").mkdir(parents=True)
        (self.root / "tools").mkdir()
        for name in ("run", "test", "tools/set-up.sh", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "src/headrace/records/kernels/records.py").write_text("")
        self.python.parent.mkdir()
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.python.write_text(STAND_IN.format(version=version, python=sys.executable))
        self.python.chmod(0o755)

    def run(
        self, *arguments: str, script: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        self.calls_file.write_text("")
        path = f"{self.python.parent}{os.pathsep}{os.defpath}"
        return subprocess.run(
            [str(script or self.root / "run"), *arguments],
            cwd="/",
            env={"PATH": path, "CALLS": str(self.calls_file), "HOME": "", **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self) -> list[str]:
        return self.calls_file.read_text().split()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_first_start_sets_up_and_the_second_does_not(checkout: Checkout) -> None:
    first = checkout.run("--port", "1", "two words")
    assert first.returncode == 0, first.stderr
    assert checkout.calls() == ["venv", "install", "spark", "warm"]
    assert first.stdout == "headrace demo --port 1 two words\n"
    second = checkout.run()
    assert (second.stdout, second.stderr) == ("headrace demo\n", "")
    assert checkout.calls() == []


def test_only_spark_is_built_from_source(checkout: Checkout) -> None:
    """Everything of the lock is in one of the two parts, and wheels alone are in the first."""
    checkout.run("--setup")
    whole, wheels, sources = (
        (checkout.root / name).read_text()
        for name in ("requirements.lock", ".venv/wheels.lock", ".venv/sources.lock")
    )
    assert sorted(whole.splitlines()) == sorted((wheels + sources).splitlines())
    assert [line.split("==")[0] for line in sources.splitlines() if not line.startswith(" ")] == ["pyspark"]


def test_called_through_a_symbolic_link(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(checkout.root / "run")
    (tmp_path / "link").symlink_to("elsewhere")
    assert checkout.run(script=tmp_path / "link").stdout == "headrace demo\n"


def test_set_up_alone(checkout: Checkout) -> None:
    done = checkout.run("--setup")
    assert done.stdout == ""
    assert f"{checkout.root}/.venv/bin/headrace" in done.stderr
    assert checkout.calls() == ["venv", "install", "spark", "warm"]


def test_help_sets_nothing_up(checkout: Checkout) -> None:
    for script in ("run", "test"):
        done = checkout.run("--help", script=checkout.root / script)
        assert done.returncode == 0
        assert f"./{script}" in done.stdout
    assert not (checkout.root / ".venv").exists()


def test_broken_environment_is_made_again(checkout: Checkout) -> None:
    checkout.run()
    (checkout.root / ".venv/bin/python").unlink()
    assert checkout.run().stdout == "headrace demo\n"
    assert checkout.calls() == ["venv", "install", "spark", "warm"]


def test_half_made_environment_is_finished(checkout: Checkout) -> None:
    assert checkout.run(PIP_SAYS="killed").returncode == 1
    assert checkout.run().stdout == "headrace demo\n"
    assert checkout.calls() == ["install", "spark", "warm"]


def test_environment_of_an_older_python_is_made_again(checkout: Checkout) -> None:
    (checkout.root / ".venv/bin").mkdir(parents=True)
    old = checkout.root / ".venv/bin/python"
    old.write_text("#!/bin/sh\necho 3.10\nexit 1\n")
    old.chmod(0o755)
    assert checkout.run().stdout == "headrace demo\n"
    assert checkout.calls() == ["venv", "install", "spark", "warm"]


def test_moved_checkout_is_set_up_again(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run()
    checkout.root = checkout.root.rename(tmp_path / "moved")
    assert checkout.run().stdout == "headrace demo\n"
    assert checkout.calls() == ["venv", "install", "spark", "warm"]


def test_new_lock_is_installed(checkout: Checkout) -> None:
    checkout.run()
    with (checkout.root / "requirements.lock").open("a") as lock:
        lock.write("# a newer release\n")
    checkout.run()
    assert checkout.calls() == ["install", "spark"]


def test_new_kernels_are_compiled(checkout: Checkout) -> None:
    checkout.run()
    (checkout.root / "src/headrace/records/kernels/records.py").write_text("# another\n")
    checkout.run()
    assert checkout.calls() == ["warm"]


def test_without_python_it_says_so(checkout: Checkout, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cat", "cksum", "dirname", "grep", "ln", "readlink", "rm", "sh", "sleep"):
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
    done = checkout.run(PATH=str(tools))
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr


@pytest.mark.parametrize(
    ("pip_says", "told"),
    [
        ("NewConnectionError: Temporary failure in name resolution", "PyPI cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "the installation failed"),
    ],
)
def test_failed_installation_says_what_to_do(checkout: Checkout, pip_says: str, told: str) -> None:
    done = checkout.run(PIP_SAYS=pip_says)
    assert done.returncode == 1
    assert told in done.stderr
    assert pip_says in done.stderr
    assert not (checkout.root / ".venv.lock").exists()


def test_set_up_that_was_killed_does_not_block_the_next(checkout: Checkout) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    (checkout.root / ".venv.lock").symlink_to(str(gone.pid))
    assert checkout.run().stdout == "headrace demo\n"
