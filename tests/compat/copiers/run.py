"""One run: a broker or a cluster, the original and its copy, a crew under fire, and the verdict."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.brokers import Broker
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.copiers import schedule
from tests.compat.copiers.crew import Crew
from tests.compat.copiers.feeding import Feeder
from tests.compat.copiers.following import TOLD_MAX, Follower, read_again
from tests.compat.copiers.programs.settings import Settings
from tests.compat.copiers.roster import KINDS

SOURCE, TARGET = "original", "copy"
PARTITIONS: Final = 6
SEATS: Final = 3
SIZE: Final = 100
AHEAD: Final = 3_000
TRANSACTION_MS: Final = 3_000
END_SECONDS: Final = 180.0
TURN_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Plan:
    """What a run is to be like; it lasts `seconds`, or for so many strikes."""

    client: str
    seed: int
    seconds: float = 60.0
    strikes: int | None = None


@dataclass
class Outcome:
    plan: Plan
    seconds: float = 0.0
    copied: int = 0
    strikes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        struck = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.strikes.items()))
        what = (
            f"{self.plan.client}, seed {self.plan.seed}: {self.seconds:.0f} s, {self.copied} records copied"
        )
        struck = f"{self.strikes.total()} strikes ({struck})"
        lines = [f"{what}, {struck}, {len(self.violations)} violations"]
        lines += [f"  {count} ended by themselves: {word}" for word, count in self.ends.most_common()]
        return "\n".join(lines + [f"  VIOLATION {each}" for each in self.violations])


def run(broker: Broker, plan: Plan, folder: Path, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """The broker runs; `folder` gets what the copiers say."""
    outcome = Outcome(plan)
    make_topics(broker)
    follower = Follower(broker.bootstrap, TARGET, PARTITIONS)
    feeder = Feeder(
        broker.bootstrap,
        SOURCE,
        PARTITIONS,
        seed=plan.seed,
        ahead=AHEAD,
        copied=lambda: follower.copy.total,
    )
    for thread in (follower, feeder):
        thread.start()
    crew = Crew([partial(_command, broker.bootstrap, plan.client, number) for number in range(SEATS)], folder)
    began = time.monotonic()
    try:
        crew.await_start(lambda: follower.copy.total > 0)
        Fire(broker, plan, crew, follower, outcome, say).burn()
        feeder.stop()
        _await_end(crew, feeder, follower, outcome)
    finally:
        feeder.stop()
        crew.close()
        follower.stop()
    outcome.seconds = time.monotonic() - began
    outcome.copied, outcome.ends = follower.copy.total, crew.ends
    outcome.violations += [each for each in (feeder.trouble, follower.trouble) if each]
    outcome.violations += follower.copy.violations
    _read_again(broker, feeder, outcome)
    return outcome


def make_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    replicas = min(len(broker.addresses), 3)
    topics = [NewTopic(name, PARTITIONS, replicas) for name in (SOURCE, TARGET)]
    for done in admin.create_topics(topics).values():
        done.result(60)


class Fire:
    """Strikes as the schedule says, and tells every few seconds how far the copy is."""

    def __init__(
        self,
        broker: Broker,
        plan: Plan,
        crew: Crew,
        follower: Follower,
        outcome: Outcome,
        say: Callable[[str], None],
    ) -> None:
        self._nodes = broker.nodes if isinstance(broker, HeadraceCluster) else []
        self._plan = plan
        self._crew = crew
        self._follower = follower
        self._outcome = outcome
        self._say = say

    def burn(self) -> None:
        """One strike after the other; those that last go on meanwhile, but for one on the same seat."""
        turn = threading.Event()  # nobody sets it: strikes come by the clock
        began = now = time.monotonic()
        session_ms = KINDS[self._plan.client].session_ms
        plan = schedule.strikes(self._plan.seed, seats=SEATS, nodes=len(self._nodes), session_ms=session_ms)
        undoing: dict[tuple[bool, int], tuple[float, Callable[[], None]]] = {}
        coming = next(plan)
        due = now + coming.pause
        while self._goes_on(now - began):
            self._crew.tend()
            for whom in [whom for whom, (at, _) in undoing.items() if at <= now]:
                undoing.pop(whom)[1]()
            whom = (coming.kind == schedule.KILL_NODE, coming.at)
            if now >= due and whom not in undoing:
                self._tell(now - began, str(coming))
                self._outcome.strikes[coming.kind] += 1
                undoing[whom] = (now + coming.seconds, self._strike(coming))
                coming = next(plan)
                due = now + coming.pause
            turn.wait(TURN_SECONDS)
            now = time.monotonic()
        for _, undo in undoing.values():
            undo()

    def _goes_on(self, seconds: float) -> bool:
        if self._plan.strikes is not None:
            return self._outcome.strikes.total() < self._plan.strikes
        return seconds < self._plan.seconds and not self._follower.copy.violations

    def _strike(self, strike: schedule.Strike) -> Callable[[], None]:
        """Begin it; what is returned undoes it."""
        if strike.kind == schedule.KILL_NODE:
            self._nodes[strike.at].kill()
            return self._nodes[strike.at].start
        if strike.kind == schedule.KILL:
            self._crew.kill(strike.at)
            return lambda: None
        if strike.kind == schedule.FREEZE:
            return self._crew.freeze(strike.at)
        return self._crew.replace(strike.at)

    def _tell(self, seconds: float, what: str) -> None:
        self._say(f"{seconds:5.1f} s, {self._follower.copy.total:8d} copied: {what}")


def _command(bootstrap: str, client: str, number: int) -> list[str]:
    kind = KINDS[client]
    return kind.command(
        Settings(
            bootstrap=bootstrap,
            group="copiers",
            source=SOURCE,
            target=TARGET,
            transactional_id=f"copier-{number}",
            session_ms=kind.session_ms,
            transaction_ms=TRANSACTION_MS,
            size=SIZE,
        )
    )


def _await_end(crew: Crew, feeder: Feeder, follower: Follower, outcome: Outcome) -> None:
    """Everything that was fed is copied. Zombies without partitions are in nobody's way: they may stay."""

    def is_copied() -> bool:
        crew.tend()
        return follower.copy.total >= feeder.total or bool(follower.copy.violations)

    try:
        eventually(is_copied, lambda: f"{follower.copy.total} of {feeder.total} are copied", END_SECONDS)
    except AssertionError as error:
        outcome.violations.append(f"the copying does not go on: {error}; {dict(crew.ends)}")


def _read_again(broker: Broker, feeder: Feeder, outcome: Outcome) -> None:
    found = read_again(broker.bootstrap, TARGET, PARTITIONS)
    outcome.violations += [f"read again: {each}" for each in found.violations[:TOLD_MAX]]
    if found.counts != feeder.fed:
        outcome.violations.append(f"read again: {found.counts} records of {feeder.fed}")
