"""A standalone cluster of two workers, and the Pythons that they can have."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from headrace.spark.session import find_java_home
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually
from tests.compat.faults.hosts import CLIENTS, Hosts

ROOT = Path(__file__).resolve().parents[3]
START_S_MAX = 120.0
WORKERS = (1, 2)
_BASE_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def make_python(folder: Path, *, has_needs: bool, has_headrace: bool) -> Path:
    """An environment of its own; its packages are links to those of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir() if has_needs else ():
        # Spark's Python part comes from the worker's Spark, and an editable headrace from a .pth.
        if not each.name.startswith(
            ("pyspark", "py4j", "headrace", "_headrace", "__editable__", "_editable")
        ):
            (packages / each.name).symlink_to(each)
    if has_headrace:
        (packages / "checkout.pth").write_text(f"{ROOT / 'src'}\n")
        for each in Path(sysconfig.get_path("purelib")).glob("headrace-*.dist-info"):
            (packages / each.name).symlink_to(each)
    return folder / "bin/python3"


class StandaloneCluster:
    """A master beside the driver, and two workers whose own `python3` is the given one."""

    def __init__(self, folder: Path, hosts: Hosts | None, python: Path) -> None:
        self._folder = folder
        self._hosts = hosts
        self._python = python
        self.host = "127.0.0.1" if hosts is None else hosts.address(CLIENTS)
        (self._port,) = free_ports(1, self.host)
        self.master = f"spark://{self.host}:{self._port}"
        self._workers: dict[int, subprocess.Popen[bytes]] = {}  # those that were not killed
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._start([], self.host, "master.Master", "--port", str(self._port))
        # Whoever finds no master tries again after 20 seconds only.
        eventually(lambda: is_listening(self.host, self._port), "a master", START_S_MAX)
        self.start_workers()
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            end_group(process)

    def start_workers(self) -> None:
        """Those that are not there: both together at first, since each takes seconds to become one."""
        missing = [number for number in WORKERS if number not in self._workers]
        before = self._registered()
        for number in missing:
            self._start_worker(number)
        eventually(lambda: self._registered() == before + len(missing), "the workers", START_S_MAX)

    def _start_worker(self, number: int) -> None:
        host = f"127.0.0.{number}" if self._hosts is None else self._hosts.address(number)
        entrance = [] if self._hosts is None else self._hosts.entrance(number)
        work = self._folder / f"worker-{number}"
        work.mkdir(exist_ok=True)
        resources = ("--cores", "1", "--memory", "900m", "--work-dir", str(work))
        self._workers[number] = self._start(entrance, host, "worker.Worker", *resources, self.master)

    def kill_worker(self, number: int) -> None:
        """With all that it has started, at once, as when its machine goes."""
        os.killpg(self._workers[number].pid, signal.SIGKILL)
        self._workers.pop(number).wait()

    def _registered(self) -> int:
        return (self._folder / "cluster.log").read_text(errors="replace").count("Master: Registering worker")

    def _start(self, entrance: list[str], host: str, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [f"{spark_home()}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0", *arguments]
        variables = {
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_LOCAL_IP": host,
            "PATH": f"{self._python.parent}:{_BASE_PATH}",
        }
        with (self._folder / "cluster.log").open("ab") as log:
            process = subprocess.Popen(
                [*entrance, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=spark_variables(variables),
                start_new_session=True,
            )
        self._processes.append(process)
        return process


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def spark_variables(more: Mapping[str, str]) -> dict[str, str]:
    """An environment without what chooses a Python for Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    own = {"JAVA_HOME": str(find_java_home()), "SPARK_HOME": str(spark_home())}
    return {**kept, **own, **more}


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what was started as the first of its group, with what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
