"""Three headrace nodes as one cluster: each a process with a folder of its own, which can be stopped,
killed, frozen and started again by itself.

To the suite the cluster is a broker like any other (COMPAT_NODES=3, see brokers.py). Tests that break single
nodes ask for `nodes`. The voters are in the metadata log (kraft.version 1), as `headrace start --nodes 3`
makes them."""

import secrets
import signal
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.transport.system_network import free_ports
from tests.compat.brokers import READY, Broker

HEADRACE = str(Path(sys.executable).with_name("headrace"))
LOOPBACK = "127.0.0.1"


class Node(Broker):
    """One node. `entrance` is a command that its own runs under: nsenter, where it has a network of its
    own."""

    def __init__(
        self,
        number: int,
        data: Path,
        settings: dict[str, str],
        *,
        address: tuple[str, int],
        entrance: Sequence[str] = (),
    ) -> None:
        super().__init__(data, settings)
        self.number = number
        self.bootstrap = f"{address[0]}:{address[1]}"
        self.is_frozen = False
        self._entrance = list(entrance)
        self._said_before = 0

    @property
    def properties(self) -> Path:
        assert self.data is not None
        return self.data.with_suffix(".properties")

    def format(self, cluster_id: str, voters: str) -> None:
        """Once, before the first start."""
        self.write_properties()
        command = [HEADRACE, "format", "-c", str(self.properties), "-t", cluster_id, "-I", voters]
        subprocess.run(command, check=True, capture_output=True)

    def write_properties(self) -> None:
        """The file of its settings, for the next start."""
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Without waiting: it may need the others first."""
        self._said_before = self.log.stat().st_size if self.log.exists() else 0
        self._spawn([*self._entrance, HEADRACE, "start", "--config", str(self.properties)])

    def await_ready(self) -> None:
        self._wait_for("line `headrace ready: HOST:PORT`", self.is_ready)

    def is_ready(self) -> bool:
        return READY.search(self.log.read_bytes(), self._said_before) is not None

    def has_given_up(self) -> bool:
        """Whether it said, since it was started, that it stops because of a fault."""
        return b" CRITICAL " in self.log.read_bytes()[self._said_before :]

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        super().kill()
        self.is_frozen = False

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def ended_by_itself(self) -> int | None:
        """The exit code of a process that nobody ended; it then counts as stopped."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        return code

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class HeadraceCluster(Broker):
    """All nodes as one broker: `bootstrap` names them all, a stop or kill is one of all."""

    def __init__(
        self,
        data: Path | None,
        settings: dict[str, str] | None = None,
        *,
        count: int = 3,
        hosts: Sequence[str] = (),
        entrances: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(data, settings)
        assert data is not None
        places = _addresses(count, hosts)
        self._voters = [f"{at + 1}@{host}:{port}:{_new_id()}" for at, (host, _, port) in enumerate(places)]
        self.nodes = [
            Node(
                at + 1,
                data / f"node{at + 1}",
                _settings_of(at + 1, places, data, self.settings),
                address=places[at][:2],
                entrance=(entrances or {}).get(at + 1, ()),
            )
            for at in range(count)
        ]
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)
        self._is_formatted = False

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.__exit__()

    def start(self) -> None:
        self.format()
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.await_ready()

    def format(self) -> None:
        if self._is_formatted:
            return
        self._is_formatted = True
        assert self.data is not None
        self.data.mkdir(parents=True, exist_ok=True)
        cluster_id, voters = _new_id(), ",".join(self._voters)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.format(cluster_id, voters), self.nodes))

    @property
    def is_running(self) -> bool:
        return all(node.is_running for node in self.nodes)

    @property
    def pid(self) -> int:
        return self.nodes[0].pid

    def stop(self) -> None:
        """All at once: the last ones have nobody left to hand their partitions to, and must still end in
        order."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.stop, self.nodes))

    def kill(self) -> None:
        for node in self.nodes:
            if node.is_running:
                node.kill()

    @property
    def folders(self) -> dict[int, Path]:
        return {node.number: node.data for node in self.nodes if node.data is not None}

    def partition_folder(self, topic: str, partition: int) -> Path:
        """Any will do: with as many replicas as nodes, what is acknowledged is on all that are in sync."""
        return self.nodes[0].partition_folder(topic, partition)

    def log_tail(self) -> str:
        return "\n".join(f"node {node.number}:\n{node.log_tail()}" for node in self.nodes)


def _new_id() -> str:
    """An id as Kafka writes them, which never begins with a dash: tools would take it for an option."""
    while (text := urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _addresses(count: int, hosts: Sequence[str]) -> list[tuple[str, int, int]]:
    """Host, clients' port and controllers' port of each node."""
    if hosts:
        return [(host, 9092, 9093) for host in hosts]
    ports = free_ports(2 * count)
    return [(LOOPBACK, ports[at], ports[count + at]) for at in range(count)]


def _settings_of(
    number: int, places: Sequence[tuple[str, int, int]], data: Path, more: Mapping[str, str]
) -> dict[str, str]:
    host, port, controller_port = places[number - 1]
    replicas, needed = str(min(len(places), 3)), "2" if len(places) > 2 else "1"
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(
            f"{at + 1}@{each[0]}:{each[2]}" for at, each in enumerate(places)
        ),
        "log.dirs": str(data / f"node{number}"),
        "default.replication.factor": replicas,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": needed,
    } | dict(more)
