"""A machine as the documents know it, in a folder: /etc, /opt, /var and `systemctl`, and the steps of a
document taken on it.

A step is a block of shell in a document, found by the heading that it stands under. What differs from the
words of the document is said here: folders lie below the machine's own, `kafka-1:9092,…` are the addresses of
the test's nodes, and the user that owns files is the test's.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.house.source import ROOT
from tests.packaging.systemctl import Unit, below

SYSTEMCTL = ROOT / "tests/packaging/systemctl.py"
THIS_ENVIRONMENT = Path(sys.prefix)
"""Where this checkout is installed."""
NAMES = "kafka-1:9092,kafka-2:9092,kafka-3:9092"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def steps(page: str, heading: str) -> list[str]:
    """The shell blocks of a document under a heading, in their order."""
    text = (ROOT / "docs" / page).read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/{page} has no heading {heading!r}"
    blocks = BLOCK.findall(found[2])
    assert blocks, f"there are no steps under {heading!r}"
    return blocks


class Machine:
    """`bootstrap` has the addresses of all nodes; `environment` is what this machine's processes have in
    theirs, beside the test's own."""

    def __init__(self, root: Path, bootstrap: str, **environment: str) -> None:
        self.root = root
        self._bootstrap = bootstrap
        self._environment = environment
        for name in ("bin", "etc/systemd/system", "etc/headrace", "opt", "var/lib/headrace", "run"):
            (root / name).mkdir(parents=True)
        script = root / "bin/systemctl"
        script.write_text(f'#!/bin/sh\nROOT={root} exec {sys.executable} {SYSTEMCTL} "$@"\n')
        script.chmod(0o755)
        for unit in (ROOT / "packaging/systemd").iterdir():
            (root / "etc/systemd/system" / unit.name).write_text(unit.read_text())

    def install(self, environment: Path) -> None:
        """What `pip install` has made, where the documents have it."""
        (self.root / "opt/headrace").symlink_to(environment)

    def take(self, block: str, **variables: str) -> str:
        """The block's commands, one after the other, until one fails; what they print."""
        process = self.begin(block, **variables)
        output, _ = process.communicate()
        assert process.returncode == 0, f"{process.args[-1]}\n{output}"
        return output

    def begin(self, block: str, **variables: str) -> "subprocess.Popen[str]":
        """The same without waiting."""
        text = below(self.root, block).replace(NAMES, self._bootstrap)
        text = text.replace("headrace:headrace", f"{os.getuid()}:{os.getgid()}")
        own = f"{self.root}/bin{os.pathsep}{self.root}/opt/headrace/bin"
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.root,
            env=os.environ
            | {
                "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
                "HEADRACE_BOOTSTRAP_SERVER": self._bootstrap,
                **self._environment,
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def pid_of(self, unit: str) -> int | None:
        return Unit(self.root, unit).pid

    def log_of(self, unit: str) -> str:
        return (self.root / f"run/{unit}.log").read_text()

    def is_ready(self, unit: str) -> bool:
        """Whether it has said that clients are served."""
        return "headrace ready: " in self.log_of(unit)

    def end(self, *units: str) -> None:
        """Whatever went wrong, no process is left behind."""
        for name in units:
            Unit(self.root, name).stop(signal.SIGKILL)
