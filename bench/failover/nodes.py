"""Three nodes that can be killed one by one and brought back, and what the cluster says of itself."""

import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from bench.clusters import NODES, Cluster
from bench.machine import call, serves, stop, wait_until_serving
from headrace.clients import Admin
from headrace.clients.errors import ClientError

FIND_COORDINATOR = 10
LONGEST_S = 120.0
PAUSE_S = 0.05


class Nodes:
    """The nodes of a cluster by their ids, 1 to 3, each a process of its own that nobody else restarts."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._commands = cluster.commands()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for node in self.ids:
                self.start(node)
            self._until_all_serve()
            self.admin = Admin(bootstrap_servers=self.cluster.address)
        except BaseException:
            self._stop_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()
        self._stop_all()

    def _stop_all(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            stop(process.pid, grace_s=10)
        shutil.rmtree(self.cluster.folder, ignore_errors=True)

    @property
    def ids(self) -> range:
        return range(1, NODES + 1)

    def start(self, node: int) -> None:
        with open(self.cluster.folder / f"node{node}.log", "ab") as log:
            self._processes[node] = subprocess.Popen(
                self._commands[node - 1], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, node: int) -> float:
        """End a node with SIGKILL; the moment it was sent."""
        at = time.monotonic()
        self._processes[node].kill()
        return at

    def bring_back(self, node: int) -> None:
        """Start a killed node, wait until the cluster is whole again, and give the node its share to lead."""
        self._processes[node].wait()
        self.start(node)
        self._until_all_serve()
        wait_for(self._is_whole, "every replica to be in sync")
        self.admin.elect_leaders(None)

    def _until_all_serve(self) -> None:
        for port in self.cluster.ports:
            wait_until_serving(("127.0.0.1", port), LONGEST_S, brokers=NODES)
        wait_for(lambda: all(serves(("127.0.0.1", port), NODES) for port in self.cluster.ports), "all nodes")

    def _is_whole(self) -> bool:
        names = [topic.name for topic in self.admin.list_topics()]
        described = self.admin.describe_topics(names) if names else []
        return all(
            set(partition.isr) == set(partition.replicas) and partition.leader > 0
            for topic in described
            for partition in topic.partitions
        )

    def controller(self) -> int:
        """The active one, as the quorum says: a client's Metadata names any broker."""
        return self.admin.describe_quorum().leader_id

    def other_than(self, node: int) -> int:
        return random.choice([each for each in self.ids if each != node])

    def group_coordinated_by(self, node: int, prefix: str) -> str:
        """A group's name whose coordinator is this node."""
        for number in range(10_000):
            if self._coordinator_of(f"{prefix}-{number}") == node:
                return f"{prefix}-{number}"
        raise AssertionError(f"node {node} coordinates no group")

    def _coordinator_of(self, group: str) -> int:
        name = group.encode()
        body = struct.pack(f">h{len(name)}s", len(name), name)
        data = call(("127.0.0.1", self.cluster.ports[0]), FIND_COORDINATOR, 0, body)
        error, node = struct.unpack_from(">hi", data, 4)
        return -1 if error else int(node)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONGEST_S
    while True:
        try:
            if condition():
                return
        except ClientError:
            pass  # a cluster that comes back cannot answer everything yet
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {LONGEST_S} s for {what}")
        time.sleep(PAUSE_S)
