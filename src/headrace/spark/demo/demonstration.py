"""One demonstration from its first record to its account.

    topics ─► Spark starts ─► records, until time is up ─► Spark finishes ─► what came out is read ─► account

One loop does it, ten times a second: write what is due, read what has come out, hear what Spark says, and
once a second ask the cluster how long its feeds are. Records are written while Spark starts, so it has a
backlog to begin with, as a pipeline has that was down for a while.
"""

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, Producer
from headrace.clients.errors import RefusedError
from headrace.spark.demo.account import Line, account
from headrace.spark.demo.events import Company, Feeder
from headrace.spark.demo.feeds import DERIVED, INPUTS, PARTITIONS, TABLE
from headrace.spark.demo.job import Plan
from headrace.spark.demo.outcome import table_column
from headrace.spark.demo.picture import Picture

# Where there are nodes for it: one may be lost, and records are still acknowledged by two.
REPLICATION_MAX: Final = 3
_POLL_S: Final = 0.1
_LOOK_MS: Final = 1_000
# Reading a backlog to its end takes seconds. After this long something is broken.
_FINISH_MS_MAX: Final = 300_000
JOB: Final = (sys.executable, "-m", "headrace.spark.demo.job")
# A JVM that was told to stop has this long.
_STOP_S_MAX: Final = 20
_QUOTED_LINES: Final = 15
# A run may last so much longer for what is still to be killed: a busy machine takes minutes to start Spark.
_HARMS_MS_MAX: Final = 180_000


class DemoView(Protocol):
    """Shows a demonstration."""

    def update(self, picture: Picture) -> None:
        """Some time has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended: the account, and what went wrong with the Spark program, if anything."""

    lines: list[Line]
    failure: str | None = None

    @property
    def is_right(self) -> bool:
        return self.failure is None and all(line.is_right for line in self.lines)


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The clients of the cluster that is shown."""

    bootstrap_servers: str
    admin: Admin
    producer: Producer
    consumer: Consumer


class Demonstration:
    """`run` does it all; `start_job` makes the Spark program's process."""

    def __init__(
        self,
        cluster: DemoCluster,
        folder: Path,
        view: DemoView,
        *,
        per_second: int,
        clock: Clock,
        rng: random.Random,
        kill_node: Callable[[], None] | None = None,
        kills_spark: bool = False,
        start_job: Callable[[Plan, Path], "JobProcess"] | None = None,
        console: str = "",
    ) -> None:
        """`kill_node` kills one of the cluster's nodes, which comes back; without it all nodes live."""
        self.picture = Picture(cluster.bootstrap_servers, console)
        self._cluster = cluster
        self._folder = folder
        self._view = view
        self._clock = clock
        self._kill_node = kill_node
        self._kills_spark = kills_spark
        self._start_job = start_job or JobProcess
        self._company = Company(rng)
        self._per_second = per_second
        self._began_ms = 0
        self._looked_ms = -_LOOK_MS
        self._starts: dict[TopicPartition, int] = {}
        self._failure: str | None = None

    def run(self, duration_ms: int | None, is_stopped: Callable[[], bool]) -> Result:
        """Until the time is up, or somebody stops it; without a duration that is the only end."""
        self._prepare_topics()
        self._began_ms = self._clock.monotonic_ms()
        feeder = Feeder(
            self._cluster.producer,
            self._company,
            per_second=self._per_second,
            started_ms=self._clock.now_ms(),
        )
        plan = Plan(self._cluster.bootstrap_servers, self._starts_by_topic(), str(self._folder))
        with ExitStack() as jobs:
            self._job = jobs.enter_context(self._start_job(plan, self._folder / "spark.log"))

            def kill_spark() -> None:
                self._job.kill()
                self._job = jobs.enter_context(self._start_job(plan, self._folder / "spark.log"))
                self.picture.spark_step = "starting Spark again"
                self.picture.spark_began_ms = self.picture.elapsed_ms

            ways = {NODE: self._kill_node, SPARK: kill_spark if self._kills_spark else None}
            harms = Harms([(what, do) for what, do in ways.items() if do is not None])
            self.picture.phase = "running"
            feeder.open(self._clock.now_ms())
            while not self._is_time_up(duration_ms, harms) and not is_stopped() and self._failure is None:
                feeder.write_due(self.picture.elapsed_ms)
                self._turn()
                self.picture.news += harms.do_what_is_due(self.picture)
            feeder.close(self.picture.elapsed_ms)
            self.picture.news += harms.left()
            self._finish()
        self._read_to_the_end()
        self._view.update(self.picture)
        return Result(self._account(), self._failure)

    def _prepare_topics(self) -> None:
        admin, consumer = self._cluster.admin, self._cluster.consumer
        replication = min(REPLICATION_MAX, len(admin.describe_cluster().brokers))
        for name, partitions in PARTITIONS.items():
            try:
                admin.create_topic(name, partitions=partitions, replication_factor=replication)
            except RefusedError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        # A cluster that was used before has other records: this run's begin where those end.
        everything = [place for name in PARTITIONS for place in consumer.partitions_for(name)]
        self._starts = consumer.end_offsets(everything)
        consumer.assign([place for place in everything if place.topic in DERIVED])
        for place in consumer.assignment:
            consumer.seek(place, self._starts[place])

    def _starts_by_topic(self) -> dict[str, dict[str, int]]:
        starts: dict[str, dict[str, int]] = {name: {} for name in INPUTS}
        for place, offset in self._starts.items():
            if place.topic in starts:
                starts[place.topic][str(place.partition)] = offset
        return starts

    def _is_time_up(self, duration_ms: int | None, harms: "Harms") -> bool:
        if duration_ms is None:
            return False
        return self.picture.elapsed_ms >= duration_ms + (_HARMS_MS_MAX if harms.left() else 0)

    def _turn(self) -> None:
        picture = self.picture
        for record in self._cluster.consumer.poll(_POLL_S):
            picture.outcome.take(record)
        picture.elapsed_ms = self._clock.monotonic_ms() - self._began_ms
        self._hear(self._job)
        if picture.elapsed_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = picture.elapsed_ms
            self._look()
        self._view.update(picture)

    def _hear(self, job: "JobProcess") -> None:
        for said in job.messages():
            if said["kind"] == "step":
                self.picture.spark_step = said["text"]
            elif said["kind"] == "progress":
                self.picture.note_progress(said, self._starts_by_topic())
                if self.picture.is_spark_ready:
                    self.picture.spark_step = None
            elif said["kind"] == "failed":
                self._failure = said["text"]
            elif said["kind"] == "done":
                self.picture.phase = "over"
        if job.is_over and self.picture.phase != "over" and self._failure is None:
            words = job.last_lines()
            self._failure = f"the Spark program ended by itself. Its last words ({job.log}):\n{words}"

    def _look(self) -> None:
        held = self._held()
        for topic in self._cluster.admin.describe_topics(list(PARTITIONS)):
            fewest = min(topic.partitions, key=lambda each: len(each.isr))
            in_sync = f"{len(fewest.isr)}/{len(fewest.replicas)}"
            self.picture.note_feed(topic.name, held[topic.name], in_sync)
        self.picture.note_lag()

    def _held(self) -> Counter[str]:
        """How many records of this run each feed has; of the derived ones, those that were read."""
        held = Counter(self.picture.outcome.taken)
        inputs = [place for place in self._starts if place.topic in INPUTS]
        for place, end in self._cluster.admin.end_offsets(inputs).items():
            held[place.topic] += end - self._starts[place]
        return held

    def _finish(self) -> None:
        self.picture.phase = "finishing"
        if self._failure is None:
            self._job.finish()
        deadline_ms = self.picture.elapsed_ms + _FINISH_MS_MAX
        while self._failure is None and not self._job.is_over:
            self._turn()
            if self.picture.elapsed_ms > deadline_ms:
                self._failure = f"the Spark program did not finish within {_FINISH_MS_MAX // 1000} s"

    def _read_to_the_end(self) -> None:
        consumer = self._cluster.consumer
        ends = consumer.end_offsets(consumer.assignment)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for record in consumer.poll(_POLL_S):
                self.picture.outcome.take(record)
        self._look()

    def _account(self) -> list[Line]:
        numbers = table_column(self._folder / TABLE, "number")
        return account(self._company.ledger, held=self._held(), outcome=self.picture.outcome, numbers=numbers)


class JobProcess:
    """The Spark program as a child process. Used with `with`; whatever happens, no process is left behind.

    It has a session of its own, so that Ctrl-C reaches only the command, which then lets it finish. Its own
    words come on stdout and wait in a queue; what Spark and its JVM have to say goes to a file, which is
    quoted when something goes wrong. However this process ends, the other's input closes, and it ends too.
    """

    def __init__(self, plan: Plan, log: Path, command: Sequence[str] | None = None) -> None:
        self.log = log
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*(command or JOB), plan.as_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it has said since the last call."""
        while not self._said.empty():
            yield self._said.get()

    @property
    def is_over(self) -> bool:
        """It has ended, and all it said has been heard."""
        return self._process.poll() is not None and not self._listener.is_alive() and self._said.empty()

    def finish(self) -> None:
        """Let it read what there is, and end."""
        self._tell("finish\n")

    def kill(self) -> None:
        """End it as a power cut would: the JVM and all, nothing said."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_lines(self) -> str:
        """The end of what Spark had to say."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_QUOTED_LINES:])

    def close(self) -> None:
        """End it now: its input closes, and if that is not enough it is killed."""
        assert self._process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):  # it has ended; `is_over` says so
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it was asked for"
        for line in self._process.stdout:
            try:
                self._said.put(json.loads(line))
            except ValueError:  # a library that prints
                continue
        self._process.stdout.close()


class Harms:
    """What is killed while records flow, one after the other: a node, then the Spark program.

    The first is due when every query of Spark has finished a batch, the next when each has finished another
    and all replicas are in sync again: not by the clock, which knows nothing of how long a machine takes to
    start Spark. The node is started again by its supervisor and fetches what it missed; the Spark program is
    started again and goes on from its checkpoints. The account at the end has to be exact all the same.
    """

    def __init__(self, planned: Sequence[tuple[str, Callable[[], None]]]) -> None:
        """What each is called, and what does it."""
        self._planned = list(planned)
        self._done_at: dict[str, int | None] = {}

    def do_what_is_due(self, picture: Picture) -> list[str]:
        """Do it; returns what was done, for the picture."""
        if not self._planned or not self._is_time(picture):
            return []
        what, do = self._planned.pop(0)
        do()
        self._done_at = {each.name: each.batch for each in picture.queries.values()}
        return [f"{picture.elapsed_ms // 1000} s: {what} was killed (kill -9): {_COMES_BACK[what]}"]

    def _is_time(self, picture: Picture) -> bool:
        if not picture.is_spark_ready or not picture.is_all_in_sync or picture.spark_step is not None:
            return False
        return all(each.batch != self._done_at.get(each.name, -1) for each in picture.queries.values())

    def left(self) -> list[str]:
        """What there was no time for, for the picture."""
        return [f"{what} was not killed: the run was over before it was time" for what, _ in self._planned]


NODE: Final = "a node"
SPARK: Final = "Spark"
_COMES_BACK: Final = {
    NODE: "its supervisor starts it again",
    SPARK: "it goes on from its checkpoints",
}
