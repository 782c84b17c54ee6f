"""What is tried on a cluster. Each case runs the same pipeline, and says what came out of it."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from headrace.clients import Admin, Producer
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually
from tests.compat.faults.hosts import Hosts
from tests.spark.clusters.workers import (
    ROOT,
    START_S_MAX,
    StandaloneCluster,
    end_group,
    is_listening,
    make_python,
    spark_home,
    spark_variables,
)
from tests.spark.jvm_options import short_lived
from tests.spark.whole_topics import whole_topic

RUN_S_MAX: Final = 400.0
ROWS: Final = 1500
_FILE: Final = """\
-- in numbers: feed numbers
--   json: n INT
--   option maxOffsetsPerTrigger: 500
-- out: feed {out}
-- trigger: available now
-- checkpoint: {folder}/checkpoint-{out}
-- set spark.executor.memory: 500m
SELECT n FROM numbers
"""


class Trial:
    """A broker, a cluster, and a driver's program to run on them."""

    def __init__(self, folder: Path, hosts: Hosts | None) -> None:
        self.folder = folder
        self._hosts = hosts
        self._pythons: dict[str, Path] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.cluster = StandaloneCluster(self.folder, self._hosts, self.python("bare"))
        try:
            self.brokers = self._start_broker()
            self._open.enter_context(self.cluster)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def python(self, kind: str) -> Path:
        """`bare`, `needs` (all but headrace) or `whole`."""
        if kind not in self._pythons:
            self._pythons[kind] = make_python(
                self.folder / kind, has_needs=kind != "bare", has_headrace=kind == "whole"
            )
        return self._pythons[kind]

    def driver(self, *arguments: str, **conf: str) -> "Run":
        """`headrace pipeline run` on the cluster."""
        return self._run(
            [*headrace("pipeline", "run"), "{file}", "--master", self.cluster.master, *arguments], conf
        )

    def submitted(self, *arguments: str, **conf: str) -> "Run":
        """`spark-submit` with the package's program, from a shell whose `python3` is this one."""
        script = subprocess.check_output(headrace("pipeline", "submit-script"), text=True).strip()
        settings = {"spark.driver.host": self.cluster.host, **conf}
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [f"{spark_home()}/bin/spark-submit", "--master", self.cluster.master, *given, *arguments]
        return self._run([*command, script, "{file}"], {}, is_driver_known=False)

    def remote(self, url: str, *arguments: str) -> "Run":
        """`headrace pipeline run` at a Connect server."""
        command = [*headrace("pipeline", "run"), "{file}", "--remote", url, *arguments]
        return self._run(command, {}, is_driver_known=False)

    @contextmanager
    def connect_server(self, **conf: str) -> Iterator[str]:
        """A Spark Connect server on the cluster, whose own Python has headrace; its address.

        It keeps its executors, so there is one at a time.
        """
        (port,) = free_ports(1, self.cluster.host)
        settings = {
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": self.cluster.host,
            "spark.driver.host": self.cluster.host,
            "spark.ui.enabled": "false",
            "spark.executor.memory": "500m",
            **conf,
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [f"{spark_home()}/bin/spark-submit", "--master", self.cluster.master, *given]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        path = f"{self.python('whole').parent}:/usr/bin:/bin"
        server = self._started(command, "connect.log", {"PATH": path})
        try:
            eventually(lambda: is_listening(self.cluster.host, port), "a Connect server", START_S_MAX)
            yield f"sc://{self.cluster.host}:{port}"
        finally:
            end_group(server)

    def _run(self, command: Sequence[str], conf: dict[str, str], *, is_driver_known: bool = True) -> "Run":
        self.cluster.start_workers()  # the case before may have killed one
        out = f"copies-{uuid.uuid4().hex[:8]}"
        file = self.folder / f"{out}.sql"
        file.write_text(_FILE.format(out=out, folder=self.folder))
        with Admin(bootstrap_servers=self.brokers) as admin:
            admin.create_topic(out, partitions=2)
        if is_driver_known:
            java = {"spark.executor.extraJavaOptions": short_lived()}
            conf = {"spark.driver.host": self.cluster.host, **java, **conf}
        given = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        whole = [each.format(file=file) for each in command] + given + ["--json", "-b", self.brokers]
        run = Run(whole, self.brokers, out, self.folder)
        self._open.callback(run.end)
        return run

    def _start_broker(self) -> str:
        (port,) = free_ports(1, self.cluster.host)
        address = f"{self.cluster.host}:{port}"
        listeners = [f"{name}=PLAINTEXT://{address}" for name in ("listeners", "advertised.listeners")]
        given = [part for each in listeners for part in ("--set", each)]
        command = headrace("start", "--data", str(self.folder / "broker"), *given)
        self._open.callback(end_group, self._started(command, "broker.log", {}))
        eventually(lambda: is_listening(self.cluster.host, port), "a broker", START_S_MAX)
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topic("numbers", partitions=4)
        with Producer(bootstrap_servers=address) as producer:
            for number in range(ROWS):
                producer.send("numbers", json.dumps({"n": number}).encode(), partition=number % 4)
        return address

    def _started(self, command: Sequence[str], log: str, more: dict[str, str]) -> "subprocess.Popen[bytes]":
        with (self.folder / log).open("ab") as told:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                env=spark_variables(more),
                cwd=self.folder,
                start_new_session=True,
            )


def headrace(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace.cli.main", *arguments]


class Run:
    """A driver's program that was started, and what it says."""

    def __init__(self, command: Sequence[str], brokers: str, out: str, folder: Path) -> None:
        self._brokers = brokers
        self._out = out
        self._errors = folder / f"{out}.err"
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=spark_variables({"PATH": path, "PYTHONPATH": str(ROOT / "src")}),
                cwd=folder,
                start_new_session=True,
            )

    def to_its_end(self, at_first_batch: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
        """Its batches; fails with what it said where it failed."""
        assert self._process.stdout is not None
        batches = []
        for line in self._process.stdout:
            if not line.startswith(b"{"):  # spark-submit has a program's stderr among its stdout
                continue
            event = json.loads(line)
            if event["event"] == "batch":
                batches.append(event)
                if len(batches) == 1:
                    at_first_batch()
        assert self._process.wait(RUN_S_MAX) == 0, self.said()
        return batches

    def refusal(self) -> str:
        """The one line on stderr by which it failed, behind those about waits."""
        assert self._process.wait(RUN_S_MAX) == 1, self.said()
        lines = self.said().splitlines()
        own = [line for line in lines if not line.startswith("headrace: ")]
        assert len(own) == 1, self.said()
        message: str = json.loads(own[0])["error"]["message"]
        return message

    def end(self) -> None:
        """Where a case has failed it may still run."""
        end_group(self._process)

    def said(self) -> str:
        return self._errors.read_text(errors="replace")

    def check_exactly_once(self) -> None:
        got = sorted(json.loads(each.value or b"null")["n"] for each in whole_topic(self._brokers, self._out))
        assert got == list(range(ROWS)), f"{len(got)} rows, {len(set(got))} of them different"


# Cases


def lacking(trial: Trial) -> None:
    """Workers with a bare Python: one sentence says what to do."""
    told = trial.driver().refusal()
    assert told.startswith("the workers' Python lacks headrace: "), told
    assert "pip install 'headrace[spark]==" in told
    assert "headrace pipeline pack" in told


def installed(trial: Trial) -> None:
    """headrace in an environment of the workers."""
    run = trial.driver(**{"spark.pyspark.python": str(trial.python("whole"))})
    _to_its_end_without(trial, 1, run)


def archives(trial: Trial) -> None:
    """An environment that is packed and shipped, to workers with a bare Python."""
    _pack(trial, "env.tar.gz")
    _to_its_end_without(trial, 2, trial.driver(**{"spark.archives": "env.tar.gz#environment"}))


def py_files(trial: Trial) -> None:
    """headrace alone is shipped, to workers that have what it needs."""
    _pack(trial, "headrace.zip")
    conf = {"spark.pyspark.python": str(trial.python("needs")), "spark.submit.pyFiles": "headrace.zip"}
    _to_its_end_without(trial, 1, trial.driver(**conf))


def submit(trial: Trial) -> None:
    """`spark-submit` with the package's program and an archive."""
    _pack(trial, "env.tar.gz")
    _to_its_end_without(trial, 2, trial.submitted("--archives", "env.tar.gz#environment"))


def connect(trial: Trial) -> None:
    """At a Connect server whose executors have an environment of their own."""
    path = f"{trial.python('whole').parent}:/usr/bin:/bin"
    with trial.connect_server(**{"spark.executorEnv.PATH": path}) as url:
        _to_its_end_without(trial, 1, trial.remote(url))


def _to_its_end_without(trial: Trial, worker: int, run: Run) -> None:
    """One of the workers dies behind the first batch, and each row comes out once all the same."""
    batches = run.to_its_end(lambda: trial.cluster.kill_worker(worker))
    assert len(batches) > 1, "the worker was killed at the end, not in the middle"
    run.check_exactly_once()


def connect_lacking(trial: Trial) -> None:
    """At a Connect server whose executors have a bare Python."""
    with trial.connect_server() as url:
        told = trial.remote(url).refusal()
    assert told.startswith("the workers' Python lacks headrace: "), told


def _pack(trial: Trial, name: str) -> None:
    if not (trial.folder / name).exists():
        subprocess.run(headrace("pipeline", "pack", "-o", str(trial.folder / name)), check=True)


CASES: Final[dict[str, Callable[[Trial], None]]] = {
    each.__name__.replace("_", "-"): each
    for each in (lacking, installed, archives, py_files, submit, connect_lacking, connect)
}
