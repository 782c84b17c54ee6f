"""A Spark cluster of two hosts on one machine, for `tests.spark.fire`.

Spark starts a second attempt of a slow task only on clusters, and only on another host than the first. Every
address of 127.0.0.0/8 is this machine, so two of them are two hosts.
"""

import os
import socket
import subprocess
from pathlib import Path
from typing import Self

from headrace.spark.session import find_java_home
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually
from tests.spark.jvm_options import short_lived

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
START_S_MAX = 60.0
# What a driver tells this cluster: one executor on each host, and a twin for whoever is slow.
SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": short_lived(),
    "spark.executor.cores": "1",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.locality.wait": "0",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}


class TwoHosts:
    """A master and a worker on each host, as processes; the workers' executors write below `folder`."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.master = f"spark://{HOSTS[0]}:{port}"
        self._folder = folder
        self._port = port
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._start(HOSTS[0], "master.Master", "--port", str(self._port))
        # Whoever finds no master tries again after 20 seconds only.
        eventually(lambda: is_listening(HOSTS[0], self._port), "a master", START_S_MAX)
        for number, host in enumerate(HOSTS):
            work = self._folder / f"worker-{number}"
            work.mkdir()
            resources = ("--cores", "1", "--memory", "700m", "--work-dir", str(work))
            self._start(host, "worker.Worker", *resources, self.master)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)

    def _start(self, host: str, name: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "300m",
            "SPARK_LOCAL_IP": host,
        }
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--host", host, "--webui-port", "0"]
        with (self._folder / "cluster.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            )


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0
