"""One demonstration from its first record to its account.

    topics ─► Spark starts ─► records, until time is up ─► Spark finishes ─► what came out is read ─► account

One loop does it, ten times a second: write what is due, read what has come out, hear what Spark says, and
once a second ask the cluster how long its feeds are. Records are written while Spark starts, so it has a
backlog to begin with, as a pipeline has that was down for a while.
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, Producer
from headrace.clients.errors import RefusedError
from headrace.spark.demo import table
from headrace.spark.demo.account import Line, account
from headrace.spark.demo.events import Company
from headrace.spark.demo.feeder import Feeder
from headrace.spark.demo.feeds import DERIVED, INPUTS, PARTITIONS, TABLE
from headrace.spark.demo.harm import Harm, do_what_is_due, harms
from headrace.spark.demo.job import Plan
from headrace.spark.demo.job_process import JobProcess
from headrace.spark.demo.picture import Picture

# Where there are nodes for it: one may be lost, and records are still acknowledged by two.
REPLICATION_MAX: Final = 3
_POLL_S: Final = 0.1
_LOOK_MS: Final = 1_000
# Reading a backlog to its end takes seconds. After this long something is broken.
_FINISH_MS_MAX: Final = 300_000


class View(Protocol):
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
class Cluster:
    """The clients of the cluster that is shown."""

    bootstrap_servers: str
    admin: Admin
    producer: Producer
    consumer: Consumer


class Demonstration:
    """`run` does it all; `start_job` makes the Spark program's process."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        view: View,
        *,
        per_second: int,
        clock: Clock,
        rng: random.Random,
        kill_node: Callable[[], None] | None = None,
        kills_spark: bool = False,
        start_job: Callable[[Plan, Path], JobProcess] = JobProcess,
    ) -> None:
        """`kill_node` kills one of the cluster's nodes, which comes back; without it all nodes live."""
        self.picture = Picture(cluster.bootstrap_servers)
        self._cluster = cluster
        self._folder = folder
        self._view = view
        self._clock = clock
        self._kill_node = kill_node
        self._kills_spark = kills_spark
        self._start_job = start_job
        self._harms: list[Harm] = []
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

            self._harms = harms(
                duration_ms, kill_node=self._kill_node, kill_spark=kill_spark if self._kills_spark else None
            )
            self.picture.phase = "running"
            feeder.open(self._clock.now_ms())
            while not self._is_time_up(duration_ms) and not is_stopped() and self._failure is None:
                feeder.write_due(self.picture.elapsed_ms)
                self._turn()
                self.picture.news += do_what_is_due(self._harms, self.picture.elapsed_ms)
            feeder.close(self.picture.elapsed_ms)
            self._finish()
        self._read_to_the_end()
        self._view.update(self.picture)
        return Result(self._account(), self._failure)

    def _prepare_topics(self) -> None:
        admin, consumer = self._cluster.admin, self._cluster.consumer
        replication = min(REPLICATION_MAX, len(admin.describe_cluster().brokers))
        for name, partitions in PARTITIONS.items():
            try:
                admin.create_topic(name, partitions=partitions, replication=replication)
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

    def _is_time_up(self, duration_ms: int | None) -> bool:
        return duration_ms is not None and self.picture.elapsed_ms >= duration_ms

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

    def _hear(self, job: JobProcess) -> None:
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
            self.picture.note_feed(topic.name, held[topic.name], f"{len(fewest.isr)}/{len(fewest.replicas)}")
        self.picture.note_lag()

    def _held(self) -> Counter[str]:
        """How many records of this run each feed has."""
        held: Counter[str] = Counter()
        for place, end in self._cluster.admin.end_offsets(self._starts).items():
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
        numbers = table.column(self._folder / TABLE, "number")
        return account(self._company.ledger, held=self._held(), outcome=self.picture.outcome, numbers=numbers)
