"""Three nodes of each kind on this machine, started and measured like one broker.

Every topic has three replicas and needs two in sync, as both systems' cluster defaults here say. CPU and
memory are those of the three nodes together.
"""

import os
import random
import signal
import subprocess
import time

from bench.brokers import KAFKA_FLAGS, Broker, java
from bench.machine import await_end, cpu_seconds, rss_mb, wait_until_serving
from headrace.node.fleet import fleet_configs, format_fleet
from headrace.node.supervisor import node_command
from headrace.transport.system_network import free_ports

NODES = 3
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class Cluster(Broker):
    """`commands` start the nodes; each has a log of its own in the folder."""

    ports: list[int]

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        super().__init__()

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def commands(self) -> list[list[str]]:
        raise NotImplementedError

    def start(self) -> None:
        began = time.monotonic()
        for number, command in enumerate(self.commands()):
            with open(self.folder / f"node{number + 1}.log", "ab") as log:
                self._processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                )
        for port in self.ports:
            wait_until_serving(("127.0.0.1", port), brokers=NODES)
        self.ready_s = time.monotonic() - began

    def cpu_s(self) -> float:
        return sum(map(cpu_seconds, self.pids))

    def rss_mb(self) -> float:
        return sum(map(rss_mb, self.pids))

    def kill(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def stop(self, grace_s: float = 20) -> None:
        """All at once; the last node of Kafka's waits for a quorum that is gone, and is made to end."""
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        for pid in self.pids:
            await_end(pid, grace_s=grace_s)
        self._processes.clear()


class HeadraceCluster(Cluster):
    name = "headrace"

    def prepare(self) -> None:
        self._configs = fleet_configs(NODES, 0, str(self.folder), {"log.segment.delete.delay.ms": "100"})
        format_fleet(self._configs, random.SystemRandom())
        self.ports = [config.listeners[0].port for config in self._configs]

    def commands(self) -> list[list[str]]:
        # Not by a supervisor, which would start a node again that is killed here.
        supervised = [
            node_command(config.log_dirs[0], ["--log-level", "warning"]) for config in self._configs
        ]
        return [[part for part in command if part != "--supervised"] for command in supervised]


class KafkaCluster(Cluster):
    name = "kafka"

    def prepare(self) -> None:
        self.ports = free_ports(NODES)
        controllers = free_ports(NODES)
        voters = ",".join(f"{number + 1}@127.0.0.1:{port}" for number, port in enumerate(controllers))
        for number, (port, controller) in enumerate(zip(self.ports, controllers, strict=True), 1):
            self._prepare_node(number, port, controller, voters)

    def _prepare_node(self, number: int, port: int, controller: int, voters: str) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / f"node{number}"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "group.initial.rebalance.delay.ms": "0",
            "log.segment.delete.delay.ms": "100",
        }
        path = self.folder / f"server{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
        subprocess.run(
            [*java(self.folder, "-Xmx512M"), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def commands(self) -> list[list[str]]:
        paths = [str(self.folder / f"server{number}.properties") for number in range(1, NODES + 1)]
        return [[*java(self.folder, *KAFKA_FLAGS), "kafka.Kafka", path] for path in paths]
