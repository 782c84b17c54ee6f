"""The broker under test: a process that can be stopped, killed and started again on the same port and data.

headrace by default. COMPAT_BROKER=kafka starts Apache Kafka in its place, so that a test can be shown to be
right; COMPAT_BOOTSTRAP=host:port points the suite at a broker that runs already (its files are out of
reach). COMPAT_NODES=3 runs everything against a cluster of headrace nodes (cluster.py), whose topics have
three replicas."""

import os
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Self

from headrace.transport.system_network import free_ports
from tests.compat import prepare

READY = re.compile(rb"headrace ready: (\S+):(\d+)")
START_SECONDS = 150.0  # a JVM on a machine with much else to do
NODES = int(os.environ.get("COMPAT_NODES", "1"))
REPLICAS = min(NODES, 3)
STOP_SECONDS = 90.0

# Both brokers get the same ones: groups that do not wait for seconds, and no topic by accident.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
}

# For a Kafka that is not started again: one that a busy machine holds up for nine seconds is fenced, and
# knows of no transaction until it leads again. A second start would wait for the end of the first one's
# session.
NEVER_FENCED = {"broker.session.timeout.ms": "120000"}


class Broker(ABC):
    """One broker process. `data` is None where its files cannot be seen."""

    clean_codes: tuple[int, ...] = (0,)

    def __init__(self, data: Path | None, settings: dict[str, str] | None = None) -> None:
        self.data = data
        self.settings = SETTINGS | (settings or {})
        self.bootstrap = ""
        self.environment: dict[str, str] = {}  # beside this process's own
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever went wrong, no process is left behind."""
        if self._process is not None:
            self.kill()

    @abstractmethod
    def start(self) -> None:
        """Returns once clients can be served; `bootstrap` is then known."""

    @property
    def is_running(self) -> bool:
        """False once it was stopped here. One that ended by itself is for the next request to find out."""
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        """Of a process that ended by itself, until it is stopped here too; negative: by that signal."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """A clean stop, which must end with exit code 0."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"the broker did not stop within {STOP_SECONDS} s\n{self.log_tail()}"
            ) from None
        assert code in self.clean_codes, f"the broker ended with {code}\n{self.log_tail()}"

    def kill(self) -> None:
        """What a crash of the process is: nothing flushed, nothing said."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    @property
    def folders(self) -> dict[int, Path]:
        """The data folder of each node whose files can be seen, by its id."""
        return {} if self.data is None else {1: self.data}

    @property
    def addresses(self) -> list[str]:
        return self.bootstrap.split(",")

    def partition_folder(self, topic: str, partition: int) -> Path:
        assert self.data is not None
        return self.data / f"{topic}-{partition}"

    @property
    def log(self) -> Path:
        assert self.data is not None
        return self.data.with_suffix(".out")

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:]) if self.data else ""

    def _spawn(self, command: list[str]) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment,
            )

    def _wait_for(self, what: str, is_ready: Callable[[], bool]) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self._process.poll() is not None:
                raise AssertionError(
                    f"the broker ended with {self._process.returncode} at start\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"no {what} within {START_SECONDS} s\n{self.log_tail()}")
            time.sleep(0.02)


class HeadraceBroker(Broker):
    """`headrace start`, the command that users have."""

    def __init__(self, data: Path | None, settings: dict[str, str] | None = None) -> None:
        super().__init__(data, settings)
        (self._port,) = free_ports(1)

    def start(self) -> None:
        said_before = self.log.stat().st_size if self.log.exists() else 0
        command = [str(Path(sys.executable).with_name("headrace")), "start", "--port", str(self._port)]
        command += ["--data", str(self.data)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        self._spawn(command)

        def is_ready() -> bool:
            found = READY.search(self.log.read_bytes(), said_before)
            if found:
                self._port = int(found[2])
                self.bootstrap = f"{found[1].decode()}:{self._port}"
            return found is not None

        self._wait_for("line `headrace ready: HOST:PORT`", is_ready)


class ApacheKafkaBroker(Broker):
    """One combined KRaft node out of Apache Kafka's jars."""

    clean_codes = (0, 143)  # a JVM that ends in order upon SIGTERM says 128 + 15

    def start(self) -> None:
        assert self.data is not None
        properties = self.data.with_suffix(".properties")
        if not self.bootstrap:
            self._format(properties)
        flags = ["-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1"]
        self._spawn([*prepare.java_command(*flags), "kafka.Kafka", str(properties)])
        self._wait_for("answer", lambda: answers(self.bootstrap))

    def _format(self, properties: Path) -> None:
        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        } | self.settings
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        storage_tool = [*prepare.java_command(), "kafka.tools.StorageTool", "format"]
        storage_tool += ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
        subprocess.run(storage_tool, check=True, capture_output=True)


class OutsideBroker(Broker):
    """Someone else's: neither started nor stopped here."""

    def start(self) -> None:
        self.bootstrap = os.environ["COMPAT_BOOTSTRAP"]

    @property
    def is_running(self) -> bool:
        return True


def under_test(folder: Path, settings: dict[str, str] | None = None) -> Broker:
    """The broker that the environment asks for, not yet started, with its files in `folder`."""
    if os.environ.get("COMPAT_BOOTSTRAP"):
        return OutsideBroker(None, settings)
    if NODES > 1:
        from tests.compat.cluster import HeadraceCluster

        return HeadraceCluster(folder / "data", settings, count=NODES)
    kinds = {"headrace": HeadraceBroker, "kafka": ApacheKafkaBroker}
    return kinds[os.environ.get("COMPAT_BROKER", "headrace")](folder / "data", settings)


def answers(bootstrap: str) -> bool:
    """Does a Metadata request list a broker? Asked with another's client, since this is another's broker."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return bool(
            AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2).brokers
        )
    except KafkaException:
        return False
