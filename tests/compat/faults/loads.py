"""What goes on while faults do: producers and readers, and the verdict over them at the end."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.faults import checker
from tests.compat.faults.logins import NOBODY, Login
from tests.compat.faults.readers import READERS
from tests.compat.faults.topic import PARTITIONS, TOPIC, admin_of, are_in_sync, read_all
from tests.compat.faults.writers import WRITERS

PROGRESS_SECONDS: Final = 120.0
END_SECONDS: Final = 120.0


@dataclass
class Outcome:
    """The figures of a run, and what was wrong with it."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    writers: dict[str, str] = field(default_factory=dict)
    records: int = 0
    keys: int = 0  # changes of certificates and passwords
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        struck = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.faults.items()))
        lines = [f"seed {self.seed}: {self.seconds:.0f} s, {self.faults.total()} faults ({struck})"]
        if self.keys:
            lines.append(f"  {self.keys} changes of certificates and passwords")
        lines += [f"  {name}: {figures}" for name, figures in self.writers.items()]
        lines.append(f"  {self.records} records in the topic; {len(self.violations)} violations")
        return "\n".join(lines + [f"  VIOLATION {each}" for each in self.violations])

    def expect(self, what: str | Callable[[], str], ask: Callable[[], bool], seconds: float) -> None:
        """It must become true within the time."""
        try:
            eventually(ask, what, seconds)
        except AssertionError as error:
            self.violations.append(str(error))


class Load(ABC):
    """Writers and readers of one topic."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def progress(self) -> dict[str, int]:
        """How much each writer got done that can still get something done."""

    @abstractmethod
    def judge(self, cluster: HeadraceCluster, outcome: Outcome) -> None:
        """Stop, and hold against each other what writers were told, readers saw, and is there."""

    def await_progress(self, outcome: Outcome) -> None:
        """Every writer gets something through to every partition, or as much."""
        before = self.progress()

        def stuck() -> list[str]:
            return [name for name, done in self.progress().items() if done < before[name] + PARTITIONS]

        outcome.expect(lambda: f"{', '.join(stuck())}: no progress", lambda: not stuck(), PROGRESS_SECONDS)


class RecordLoad(Load):
    """Idempotent producers, and readers of everything."""

    def __init__(self, bootstrap: str, records_per_second: float, login: Login = NOBODY) -> None:
        args = (bootstrap, TOPIC, PARTITIONS)
        self._login = login
        self._writers = [kind(*args, records_per_second, login) for kind in WRITERS]
        self._readers = [kind(*args, login=login) for kind in READERS]

    def start(self) -> None:
        for each in (*self._writers, *self._readers):
            each.start()

    def progress(self) -> dict[str, int]:
        return {each.name: len(each.acknowledged) for each in self._writers if each.trouble is None}

    def judge(self, cluster: HeadraceCluster, outcome: Outcome) -> None:
        writers, readers = self._writers, self._readers
        for writer in writers:
            writer.stop()
        outcome.expect("every producer has its answers", lambda: all(w.is_done for w in writers), END_SECONDS)
        await_sync(cluster, outcome, self._login)
        client = Confluent(cluster.bootstrap, settings=self._login.librdkafka())
        ends = {at: end for at, (_, end) in client.bounds(TOPIC).items()}

        def behind() -> list[str]:
            return [f"{each.name} of {each.left(ends)}" for each in readers if not each.has_reached(ends)]

        outcome.expect(
            lambda: f"not at the end, with (partition, next offset, end): {'; '.join(behind())}",
            lambda: not behind(),
            END_SECONDS,
        )
        for reader in readers:
            reader.stop()
        log = read_all(client, ends)
        outcome.records = sum(ends.values())
        told = [each.told for each in writers]
        outcome.violations += checker.check(told, log, {each.name: each.seen for each in readers})
        outcome.violations += [each.trouble for each in [*writers, *readers] if each.trouble]
        for writer in writers:
            outcome.violations += [
                f"failed: {text}" for text in list(writer.failed.values())[: checker.TOLD_MAX]
            ]
            outcome.writers[writer.name] = (
                f"{writer.sent} sent, {len(writer.acknowledged)} acknowledged, {len(writer.failed)} failed,"
                f" longest wait {writer.longest_wait:.1f} s"
            )


def await_sync(cluster: HeadraceCluster, outcome: Outcome, login: Login = NOBODY) -> None:
    admin = admin_of(cluster.bootstrap, login)
    outcome.expect("all replicas are in sync", lambda: are_in_sync(admin), END_SECONDS)
