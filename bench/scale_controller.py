"""The controller alone: three nodes of the quorum, no brokers, and N partitions in their image.

Brokers are only played: a hundred of them register, are unfenced and never die unless told so. Topics of
1000 partitions with three replicas each are made through the active controller; snapshots are written on the
way, as the defaults say. Then a broker goes, the active controller is killed, and a standby goes on; the
killed one starts again and loads snapshot and log, and once more with an empty disk, so that it has to fetch
them. All the while every node is asked for something small each few milliseconds, so that the longest answer
tells the longest pause of its loop. What the node's thread has worked meanwhile tells the same on a machine
that has other things to do.
"""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from bench.clusters import CLUSTER_ID
from bench.machine import cpu_seconds, read_frame, rss_mb
from bench.topic_wire import ask
from headrace.base.clock import SystemClock
from headrace.log.system_disk import SystemDisk
from headrace.metadata.features import SUPPORTED
from headrace.node.storage import format_node
from headrace.node.supervisor import READY, node_command
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.system_network import free_ports
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.schemas.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)

R = TypeVar("R")

NODES = (1, 2, 3)
BROKERS = range(101, 201)
REPLICAS = 3
TOPIC_PARTITIONS = 1000
PULSE_S = 0.005
LONGEST_S = 600.0
NOT_CONTROLLER = 41

API_VERSIONS_FRAME = struct.pack(">ihhih5s", 15, 18, 0, 7, 5, b"pulse")


class Quorum:
    """Three controllers, each a process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bench-controller-"))
        self.ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._starts = dict.fromkeys(NODES, 0)
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items())
        for node in NODES:
            self._format(node, voters)

    def _format(self, node: int, voters: str) -> None:
        folder = self.folder / f"node{node}"
        settings = {
            "process.roles": "controller",
            "node.id": str(node),
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(folder),
            # Brokers that are only played send no heartbeats.
            "broker.session.timeout.ms": "3600000",
        }
        config = BrokerConfig(settings)
        format_node(config, CLUSTER_ID, disk=SystemDisk(), clock=SystemClock(), rng=random.SystemRandom())
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "server.properties").write_text(lines)

    def start(self, node: int) -> None:
        command = [
            part
            for part in node_command(str(self.folder / f"node{node}"), ["--log-level", "warning"])
            if part != "--supervised"
        ]
        self._starts[node] += 1
        with open(self.folder / f"node{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes.pop(node).wait()
        if node in self._sockets:
            self._sockets.pop(node).close()

    def empty(self, node: int) -> None:
        """Take a node that does not run its metadata log, as a new disk does."""
        shutil.rmtree(self.folder / f"node{node}" / "__cluster_metadata-0")

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, node: int, request: object, response: type[R], version: int) -> R:
        """OSError where it is not there."""
        try:
            if node not in self._sockets:
                self._sockets[node] = socket.create_connection(("127.0.0.1", self.ports[node]), timeout=120)
            return ask(self._sockets[node], request, response, version)
        except OSError:
            self._sockets.pop(node, None)
            raise

    def state(self) -> tuple[int, dict[int, int]] | None:
        """Who is active, and how far each node's log reaches by its word; None while nobody is."""
        topic = RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])
        for node in self.processes:
            with suppress(OSError):
                request = DescribeQuorumRequest(topics=[topic])
                answer = self.ask(node, request, DescribeQuorumResponse, 0)
                found = answer.topics[0].partitions[0] if answer.topics else None
                if not answer.error_code and found is not None and found.leader_id == node:
                    return node, {each.replica_id: each.log_end_offset for each in found.current_voters}
        return None

    def ask_active(self, request: object, response: type[R], version: int) -> R:
        """The active controller's answer; one that is only about to be active is asked again."""
        while True:
            with suppress(OSError):
                answer = self.ask(self.active(), request, response, version)
                topics = getattr(answer, "topics", None)
                code = topics[0].error_code if topics else getattr(answer, "error_code", 0)
                if code != NOT_CONTROLLER:
                    return answer
            time.sleep(0.005)

    def active(self) -> int:
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            state = self.state()
            if state is not None:
                return state[0]
            time.sleep(0.005)
        raise TimeoutError("there is no active controller")

    def until_ready(self, node: int) -> None:
        """Return when a node says that it is: it has loaded and replayed all that is committed."""
        deadline = time.monotonic() + LONGEST_S
        path = self.folder / f"node{node}.log"
        while path.read_text().count(READY) < self._starts[node]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"node {node} does not come up: see {path}")
            time.sleep(0.02)

    def until_even(self) -> None:
        """Return when every running node has all of the log."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            state = self.state()
            if state is not None and len({state[1].get(node, -1) for node in self.processes}) == 1:
                return
            time.sleep(0.02)
        raise TimeoutError("the standbys do not catch up")


class Pulse:
    """Asks every node that runs for its versions, again and again, and notes the longest answer and the most
    work of a node's thread during one."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._end = threading.Event()
        self._longest_s = self._most_work_s = 0.0
        self._threads = [threading.Thread(target=self._beat, args=(node,)) for node in NODES]
        for thread in self._threads:
            thread.start()

    def take(self) -> tuple[float, float]:
        """Those of any node since they were last taken."""
        found = self._longest_s, self._most_work_s
        self._longest_s = self._most_work_s = 0.0
        return found

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _beat(self, node: int) -> None:
        connection: socket.socket | None = None
        while not self._end.wait(PULSE_S):
            try:
                if connection is None:
                    connection = socket.create_connection(
                        ("127.0.0.1", self._quorum.ports[node]), timeout=120
                    )
                pid = self._quorum.processes[node].pid
                began, worked_s = time.monotonic(), thread_work_s(pid)
                connection.sendall(API_VERSIONS_FRAME)
                read_frame(connection)
                self._longest_s = max(time.monotonic() - began, self._longest_s)
                self._most_work_s = max(thread_work_s(pid) - worked_s, self._most_work_s)
            except (OSError, KeyError):
                connection = None


def thread_work_s(pid: int) -> float:
    """Seconds that a process's first thread, which runs its loop, was on a processor."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Run:
    """The steps, each a row of figures."""

    def __init__(self, quorum: Quorum, pulse: Pulse, partitions: int) -> None:
        self._quorum = quorum
        self._pulse = pulse
        self._partitions = partitions
        self._epochs: dict[int, int] = {}
        self.rows: list[str] = []

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._pulse.take()
        cpu = {node: cpu_seconds(process.pid) for node, process in self._quorum.processes.items()}
        began = time.monotonic()
        yield
        took_s, (pause_s, work_s) = time.monotonic() - began, self._pulse.take()
        spent = {
            node: cpu_seconds(process.pid) - cpu.get(node, 0.0)
            for node, process in self._quorum.processes.items()
        }
        memory = [rss_mb(process.pid) for process in self._quorum.processes.values()]
        cells = [name, f"{took_s:.1f}", f"{max(spent.values()):.1f}"]
        cells += [f"{pause_s:.2f}", f"{work_s:.2f}", f"{max(memory):,.0f}"]
        self.rows.append("| " + " | ".join(cells) + " |")
        print("  " + "  ".join(cells), flush=True)

    def all(self) -> None:
        quorum = self._quorum
        with self._step("three controllers start, a hundred brokers register"):
            for node in NODES:
                quorum.start(node)
            self._register()
        with self._step(f"{self._partitions:,} partitions are made"):
            self._create()
        with self._step("the standbys have all of it"):
            quorum.until_even()
        with self._step("a broker is fenced"):
            self._heartbeat(BROKERS[0], want_fence=True)
            quorum.until_even()
        with self._step("and back"):
            self._heartbeat(BROKERS[0], want_fence=False)
            quorum.until_even()
        killed = quorum.active()
        with self._step("the active controller is killed; another makes a topic"):
            quorum.kill(killed)
            self._make("after-failover", 1)
        with self._step("the killed one is started, loads, and has all of the log"):
            quorum.start(killed)
            quorum.until_ready(killed)
            quorum.until_even()
        with self._step("it is killed, its disk is new; it is started, fetches all of it and loads"):
            quorum.kill(killed)
            quorum.empty(killed)
            quorum.start(killed)
            quorum.until_ready(killed)
            quorum.until_even()
        size_mb = sum(path.stat().st_size for path in self._snapshots(killed)[-1:]) / 1e6
        self.rows.append(f"\nThe last snapshot of the one that was killed has {size_mb:,.0f} MB.")

    def _snapshots(self, node: int) -> list[Path]:
        return sorted((self._quorum.folder / f"node{node}" / "__cluster_metadata-0").glob("0*.checkpoint"))

    def _register(self) -> None:
        for broker in BROKERS:
            request = BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id=CLUSTER_ID,
                incarnation_id=os.urandom(16),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
                features=[Feature(name, levels.min, levels.max) for name, levels in SUPPORTED.items()],
                rack=None,
                log_dirs=[os.urandom(16)],
            )
            answer = self._quorum.ask_active(request, BrokerRegistrationResponse, 4)
            if answer.error_code:
                raise RuntimeError(f"broker {broker} was refused: {answer.error_code}")
            self._epochs[broker] = answer.broker_epoch
            self._heartbeat(broker, want_fence=False)

    def _heartbeat(self, broker: int, *, want_fence: bool) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self._epochs[broker],
            current_metadata_offset=1 << 60,
            want_fence=want_fence,
        )
        answer = self._quorum.ask_active(request, BrokerHeartbeatResponse, 1)
        if answer.error_code or answer.is_fenced is not want_fence:
            raise RuntimeError(f"broker {broker} is not as it should be: {answer}")

    def _create(self) -> None:
        for number in range(self._partitions // TOPIC_PARTITIONS):
            self._make(f"topic-{number}", TOPIC_PARTITIONS)
            if number % 100 == 99:
                print(f"    {(number + 1) * TOPIC_PARTITIONS:,} partitions", flush=True)

    def _make(self, name: str, partitions: int) -> None:
        asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=REPLICAS)
        request = CreateTopicsRequest(topics=[asked], timeout_ms=120_000)
        answer = self._quorum.ask_active(request, CreateTopicsResponse, 5)
        if answer.topics[0].error_code:
            raise RuntimeError(f"{name} was refused: {answer.topics[0]}")


def measure(partitions: int) -> str:
    """The table."""
    quorum = Quorum()
    pulse = Pulse(quorum)
    run = Run(quorum, pulse, partitions)
    try:
        run.all()
    finally:
        pulse.close()
        quorum.close()
    head = [
        "| | s | CPU s of the busiest node | longest pause, s | of it work, s | memory of the largest, MB |",
        "|---|---|---|---|---|---|",
    ]
    title = f"{partitions:,} partitions, three replicas each, in a quorum of three controllers"
    return "\n".join([title, "", *head, *run.rows]) + "\n"
