"""One run: a cluster, writers and readers on it, faults for as long as asked, and then the verdict."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.faults import checker, disks, schedule
from tests.compat.faults.hosts import Hosts
from tests.compat.faults.readers import READERS, Prober, Reader
from tests.compat.faults.striking import Striking
from tests.compat.faults.topic import (
    NODES,
    PARTITIONS,
    TOPIC,
    are_in_sync,
    create_topic,
    differing,
    read_all,
)
from tests.compat.faults.writers import WRITERS, Writer

PROGRESS_SECONDS: Final = 60.0
END_SECONDS: Final = 120.0


@dataclass
class Outcome:
    """The figures of a run, and what was wrong with it."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    writers: dict[str, str] = field(default_factory=dict)
    records: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        struck = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.faults.items()))
        lines = [f"seed {self.seed}: {self.seconds:.0f} s, {self.faults.total()} faults ({struck})"]
        lines += [f"  {name}: {figures}" for name, figures in self.writers.items()]
        lines.append(f"  {self.records} records in the topic; {len(self.violations)} violations")
        return "\n".join(lines + [f"  VIOLATION {each}" for each in self.violations])


@dataclass(frozen=True)
class Plan:
    """What a run is to be like."""

    seed: int
    seconds: float
    kinds: Collection[str]
    records_per_second: float = 150.0
    rounds: int | None = None


def run(plan: Plan, folder: Path, hosts: Hosts | None, say: Callable[[str], None]) -> Outcome:
    """`hosts` is None where the nodes share the loopback; their files lie in `folder` afterwards."""
    outcome = Outcome(plan.seed)
    numbers = range(1, NODES + 1)
    data = folder / "nodes"
    if hosts:
        for number in numbers:
            disks.mount(data / f"node{number}")
    with HeadraceCluster(
        data,
        count=NODES,
        hosts=[hosts.address(number) for number in numbers] if hosts else (),
        entrances={number: hosts.entrance(number) for number in numbers} if hosts else {},
    ) as cluster:
        cluster.start()
        create_topic(cluster.bootstrap)
        args = (cluster.bootstrap, TOPIC, PARTITIONS)
        writers = [kind(*args, plan.records_per_second) for kind in WRITERS]
        readers = [kind(*args) for kind in READERS]
        for each in (*writers, *readers):
            each.start()
        _await_progress(writers, {each.name: 0 for each in writers}, outcome)
        prober = Prober(cluster.addresses, TOPIC)
        prober.start()
        _burn(plan, Striking(cluster.nodes, hosts), writers, outcome, say)
        prober.stop()
        outcome.violations += prober.violations[: checker.TOLD_MAX]
        _judge(cluster, writers, readers, outcome, say)
    return outcome


def _burn(
    plan: Plan, striking: Striking, writers: list[Writer], outcome: Outcome, say: Callable[[str], None]
) -> None:
    began = time.monotonic()
    for faults in islice(schedule.rounds(plan.seed, plan.kinds, NODES), plan.rounds):
        outcome.seconds = time.monotonic() - began
        if outcome.seconds >= plan.seconds or outcome.violations:
            return
        say(f"{outcome.seconds:5.1f} s: {' and '.join(map(str, faults))}")
        outcome.faults.update(fault.kind for fault in faults)
        try:
            striking.carry_out(faults)
        except AssertionError as error:
            outcome.violations.append(f"{' and '.join(map(str, faults))}: {error}")
            return
        outcome.violations += striking.violations
        _await_progress(writers, {each.name: len(each.acknowledged) for each in writers}, outcome)


def _await_progress(writers: list[Writer], before: dict[str, int], outcome: Outcome) -> None:
    """Every producer gets another record through to every partition, or one like it."""

    def stuck() -> list[str]:
        return [
            each.name
            for each in writers
            if each.trouble is None and len(each.acknowledged) < before[each.name] + PARTITIONS
        ]

    try:
        eventually(lambda: not stuck(), lambda: f"{', '.join(stuck())}: no progress", PROGRESS_SECONDS)
    except AssertionError as error:
        outcome.violations.append(str(error))


def _judge(
    cluster: HeadraceCluster,
    writers: list[Writer],
    readers: list[Reader],
    outcome: Outcome,
    say: Callable[[str], None],
) -> None:
    say("the faults are over: waiting for the last answers")
    for writer in writers:
        writer.stop()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    _expect(outcome, "every producer has its answers", lambda: all(each.is_done for each in writers))
    _expect(outcome, "all replicas are in sync", lambda: are_in_sync(admin))
    client = Confluent(cluster.bootstrap)
    ends = {at: end for at, (_, end) in client.bounds(TOPIC).items()}
    _expect(outcome, "the readers are at the end", lambda: all(each.has_reached(ends) for each in readers))
    for reader in readers:
        reader.stop()
    log = read_all(client, ends)
    outcome.records = sum(ends.values())
    told = [checker.Told(each.name, each.sent, each.acknowledged, each.failed) for each in writers]
    outcome.violations += checker.check(told, log, {each.name: each.seen for each in readers})
    outcome.violations += [each.trouble for each in [*writers, *readers] if each.trouble]
    for writer in writers:
        outcome.violations += [f"failed: {text}" for text in list(writer.failed.values())[: checker.TOLD_MAX]]
        outcome.writers[writer.name] = (
            f"{writer.sent} sent, {len(writer.acknowledged)} acknowledged, {len(writer.failed)} failed,"
            f" longest wait {writer.longest_wait:.1f} s"
        )
    cluster.stop()
    outcome.violations += differing(cluster.nodes)


def _expect(outcome: Outcome, what: str, ask: Callable[[], bool]) -> None:
    try:
        eventually(ask, what, END_SECONDS)
    except AssertionError as error:
        outcome.violations.append(str(error))
