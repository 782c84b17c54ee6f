"""A rolling upgrade and downgrade that nobody notices: three nodes of an earlier commit's package become
nodes of this checkout's, one after the other, and go back, by the steps of docs/operations.md, while programs
of stock clients write and read.

    python -m tests.packaging.upgrade [--from COMMIT] [--machines 3]

What counts is what counts in a rolling restart (`tests/compat/faults/rolling.py`): no client may see an
error, nothing is lost, doubled or out of order, and no member has to give partitions back. At the end the
replicas are the same bytes."""

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from headrace.transport.system_network import free_ports
from tests.compat.brokers import SETTINGS
from tests.compat.either import CLUSTER_ID
from tests.compat.faults.rolling import Load
from tests.compat.faults.topic import create_topic, differing
from tests.house.source import ROOT
from tests.packaging.machine import Machine, steps

OLD, NEW = "0.0.1", "0.0.2"
"""Versions that stand for the commits: a package is known by its version, and commits share theirs."""
COUNT = 3
KERNELS = "headrace/records/kernels"
STEP = "Upgrading and downgrading"


class NoHistoryError(Exception):
    """This is no checkout with an earlier commit."""


def earlier_tree(folder: Path, commit: str) -> Path:
    """The files of a commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise NoHistoryError(archive.stderr.decode().strip())
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def wheel_of(tree: Path, folder: Path) -> Path:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
    done = subprocess.run([*build, str(folder), str(tree)], capture_output=True, text=True, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def environment_of(wheel: Path, folder: Path) -> Path:
    """What `pip install` makes of a wheel, with what it needs taken from this environment."""
    venv.create(folder, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(packages)
    # Its own packages come first; .pth files of the other environment, as of this checkout, are not followed.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    take_compiled(packages / KERNELS)
    command = folder / "bin/headrace"
    command.write_text(f"#!{folder}/bin/python\nfrom headrace.cli.main import main\nmain()\n")
    command.chmod(0o755)
    return folder


def take_compiled(folder: Path) -> None:
    """Kernels that are this checkout's are there as they were compiled here; a machine that upgrades for good
    compiles them once, and this test would on each run."""
    own = ROOT / "src" / KERNELS
    sources = sorted(path.name for path in own.glob("*.py"))
    _, different, missing = filecmp.cmpfiles(own, folder, sources, shallow=False)
    if not different and not missing:
        shutil.copytree(own, folder, dirs_exist_ok=True)  # with times, by which numba knows them


def earlier_environment(folder: Path, commits: Sequence[str]) -> Path:
    """Of the first of these commits whose package is whole: one that was made in the middle of a change may
    not be."""
    for at, commit in enumerate(commits):
        wheel = wheel_of(earlier_tree(folder / f"earlier-{at}", commit), folder / f"earlier-wheel-{at}")
        environment = environment_of(wheel, folder / f"environment-old-{at}")
        command = [environment / "bin/python", "-c", "import headrace.cli.main, headrace.node.lifecycle"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""})
        if not done.returncode:
            return environment
    raise AssertionError(f"none of {commits} can be imported: {done.stderr}")


class Cluster:
    """Three machines, on which both packages are installed and the earlier one is used."""

    def __init__(self, folder: Path, environments: dict[str, Path]) -> None:
        ports = free_ports(2 * COUNT)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports[:COUNT])
        voters = ",".join(f"{at + 1}@127.0.0.1:{ports[COUNT + at]}" for at in range(COUNT))
        # Whatever the test's own Python was told, a package's processes find that package.
        self.machines = [
            Machine(folder / f"kafka-{at + 1}", self.bootstrap, PYTHONPATH="") for at in range(COUNT)
        ]
        for at, machine in enumerate(self.machines):
            for version, environment in environments.items():
                (machine.root / f"opt/headrace-{version}").symlink_to(environment)
            machine.install(machine.root / f"opt/headrace-{OLD}")
            settings = {
                "process.roles": "broker,controller",
                "node.id": str(at + 1),
                "listeners": f"PLAINTEXT://127.0.0.1:{ports[at]},CONTROLLER://127.0.0.1:{ports[COUNT + at]}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": f"{machine.root}/var/lib/headrace",
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
            } | SETTINGS
            lines = "".join(f"{name}={value}\n" for name, value in settings.items())
            (machine.root / "etc/headrace/server.properties").write_text(lines)
            machine.take(f"headrace format -t {CLUSTER_ID} -c /etc/headrace/server.properties")

    def __enter__(self) -> Self:
        # Each waits for the others: a node of a cluster is ready when the quorum is.
        starting = [machine.begin("systemctl start headrace") for machine in self.machines]
        for each in starting:
            assert each.wait() == 0
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.end("headrace")

    @property
    def folders(self) -> list[Path]:
        return [machine.root / "var/lib/headrace" for machine in self.machines]


def run(
    folder: Path,
    *,
    commits: Sequence[str] = ("HEAD~1",),
    machines: int = COUNT,
    only: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """What was wrong, when so many of the machines were upgraded and downgraded."""
    environments = {
        OLD: earlier_environment(folder, commits),
        NEW: environment_of(wheel_of(ROOT, folder / "wheel"), folder / "environment-new"),
    }
    with Cluster(folder, environments) as cluster:
        create_topic(cluster.bootstrap)
        load = Load(cluster.bootstrap, only)
        load.start()
        for version in (NEW, OLD):
            for machine in cluster.machines[:machines]:
                for block in steps("operations.md", STEP):
                    machine.take(block, VERSION=version)
                load.get_on()
                say(f"{machine.root.name} runs {environments[version].name}")
        faults = load.end()
        for machine in cluster.machines:
            machine.take("systemctl stop headrace")
        say(load.longest_waits)
        return faults + differing(cluster.folders)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.upgrade")
    parser.add_argument("--from", dest="commit", default="HEAD~1", help="the earlier commit (HEAD~1)")
    parser.add_argument("--machines", type=int, default=COUNT, choices=range(1, COUNT + 1))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="upgrade-") as folder:
        faults = run(
            Path(folder),
            commits=[options.commit],
            machines=options.machines,
            say=lambda line: print(line, flush=True),
        )
    print("\n".join(faults) or "no client saw an error, and nothing is lost or doubled")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
