"""The two brokers: headrace from this checkout, and Apache Kafka from its jars, started the same way.

Kafka's jars and rdkafka_performance are looked for under $PEERS_HOME (default ~/.cache/peers); Kafka runs
with the flags of its own start script and a heap of 1 GiB.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from bench.machine import cpu_seconds, rss_mb, stop, wait_until_serving
from headrace.transport.system_network import free_ports

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache/peers"))
KAFKA_VERSION = os.environ.get("KAFKA_VERSION", "4.3.1")
KAFKA_LIBS = PEERS / "kafka" / KAFKA_VERSION / "libs"
RDKAFKA_PERFORMANCE = PEERS / "rdkafka/bin/rdkafka_performance"

KAFKA_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class Broker:
    """A broker process with a folder of its own; `ready_s` is how long it took from start to serving."""

    name = ""
    # What loads should not have to wait for; the same for both.
    settings: ClassVar[dict[str, str]] = {
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.delete.delay.ms": "100",
    }

    client: Mapping[str, str] = {}
    """What librdkafka needs to connect, besides the address."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_s = 0.0
        self.prepare()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def prepare(self) -> None:
        """What is done once, before the first start."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        began = time.monotonic()
        with open(self.folder / "broker.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        self.wait_until_serving()
        self.ready_s = time.monotonic() - began

    def wait_until_serving(self) -> None:
        wait_until_serving(("127.0.0.1", self.port))

    def cpu_s(self) -> float:
        return cpu_seconds(self.pid)

    def rss_mb(self) -> float:
        return rss_mb(self.pid)

    def stop(self, grace_s: float = 30) -> None:
        if self.process is not None:
            stop(self.process.pid, grace_s=grace_s)
            self.process = None

    def kill(self) -> None:
        """As kill -9 does: nothing is written out, nothing is marked."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Headrace(Broker):
    name = "headrace"

    def command(self) -> list[str]:
        headrace = Path(sys.executable).parent / "headrace"
        flags = [flag for name, value in self.settings.items() for flag in ("--set", f"{name}={value}")]
        return [str(headrace), "start", "--port", str(self.port), "--data", str(self.folder / "data"), *flags]


class Kafka(Broker):
    name = "kafka"

    def prepare(self) -> None:
        (controller,) = free_ports(1)
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }
        (self.folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        format_command = [
            *java(self.folder, "-Xmx512M"),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "MkU3OEVBNTcwNTJENDM2Qg",
            "-c",
            str(self.folder / "server.properties"),
        ]
        subprocess.run(format_command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(self) -> list[str]:
        return [*java(self.folder, *KAFKA_FLAGS), "kafka.Kafka", str(self.folder / "server.properties")]


def java(folder: Path, *flags: str) -> list[str]:
    """What runs a class of Kafka's jars without a word; a main class and its arguments follow."""
    (folder / "log4j2.properties").write_text("rootLogger.level = OFF\n")
    logging = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    return ["java", *flags, logging, "-cp", f"{KAFKA_LIBS}/*"]


def missing() -> list[str]:
    """What this machine lacks for a side-by-side run, each with what to do about it."""
    lacking = []
    if shutil.which("java") is None:
        lacking.append("java is not on PATH: install a Java 17 runtime")
    if not KAFKA_LIBS.is_dir():
        lacking.append(
            f"Apache Kafka's jars are not in {KAFKA_LIBS}: run ./test --all once, which fetches them"
        )
    if not RDKAFKA_PERFORMANCE.exists():
        lacking.append(f"{RDKAFKA_PERFORMANCE} is missing: build librdkafka's example of that name there")
    return lacking
