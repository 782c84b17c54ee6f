"""One run: a broker or a cluster, the driver, instances under fire, and the driver's verdict."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.compat.brokers import Broker
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.streams_groups import schedule
from tests.compat.streams_groups.instances import Instance, Process, program
from tests.compat.streams_groups.schedule import Strike

SESSION_SECONDS: Final = 6.0
BROKER_SETTINGS: Final = {
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": str(round(SESSION_SECONDS * 1000)),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
PARTITIONS: Final = 3
START_SECONDS: Final = 120.0
VERDICT_SECONDS: Final = 420.0
"""The driver itself waits for six minutes, where records are missing."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a run is to be like. Without `strikes` they come out of the seed as long as records are fed."""

    guarantee: str = "exactly_once_v2"
    seed: int = 0
    seconds: int = 60
    instances: int = 3
    keys: int = 20
    values: int = 1000
    standbys: int = 1
    initial_delay_ms: int = 3_000
    strikes: tuple[Strike, ...] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The broker's."""
        return BROKER_SETTINGS | {
            "group.streams.initial.rebalance.delay.ms": str(self.initial_delay_ms),
            "group.streams.num.standby.replicas": str(self.standbys),
        }


@dataclass
class Outcome:
    plan: Plan
    seconds: float = 0.0
    strikes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    verdict: str = ""

    def __str__(self) -> str:
        struck = (
            ", ".join(f"{count} × {kind}" for kind, count in sorted(self.strikes.items())) or "no strikes"
        )
        what = f"{self.plan.guarantee}, seed {self.plan.seed}: {self.seconds:.0f} s, {struck}"
        lines = [f"{what}, {len(self.violations)} violations", *self.verdict.splitlines()]
        return "\n".join(lines + [f"VIOLATION {each}" for each in self.violations])


def run(
    broker: Broker,
    plan: Plan,
    folder: Path,
    say: Say = lambda line: None,
    look: Callable[[], None] = lambda: None,
) -> Outcome:
    """The broker runs, with the plan's settings; `folder` gets what the processes say and keep. `look` is
    called when the driver has judged, and the instances are still there."""
    fire = Fire(broker, plan, folder, say)
    try:
        fire.burn(look)
    finally:
        fire.close()
    return fire.outcome


class Fire:
    """The driver, the instances, and what is done to them."""

    def __init__(self, broker: Broker, plan: Plan, folder: Path, say: Say) -> None:
        self.outcome = Outcome(plan)
        self._plan = plan
        self._say = say
        self._broker = broker
        self._nodes: list[Broker] = [*broker.nodes] if isinstance(broker, HeadraceCluster) else [broker]
        self._java = program()
        self._folder = folder
        self._began = time.monotonic()
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._struck: set[tuple[bool, int]] = set()
        is_exact = str(plan.guarantee == "exactly_once_v2").lower()
        numbers = (PARTITIONS, plan.keys, plan.values, plan.seconds)
        arguments = ["drive", broker.bootstrap, *map(str, numbers), is_exact]
        self._driver = Process([*self._java, *arguments], folder / "driver.out")
        self._instances: list[Instance] = []

    def burn(self, look: Callable[[], None]) -> None:
        eventually(lambda: self._has_said("FEEDING"), "the topics to be there", START_SECONDS)
        self._instances = [
            Instance(number, self._java, self._settings(), self._folder)
            for number in range(self._plan.instances)
        ]
        eventually(
            lambda: all(each.is_running() for each in self._instances),
            "all instances to run",
            START_SECONDS,
        )
        self._say(f"{self._seconds():5.1f} s: all run")
        for strike in self._strikes():
            if not self._pause(strike):
                break
            self._strike(strike)
        while self._due:
            self._due.pop(0)[1]()
        eventually(self._is_judged, "the driver's verdict", VERDICT_SECONDS)
        self._judge()
        look()
        for instance in self._instances:
            instance.end()
        self.outcome.seconds = self._seconds()

    def close(self) -> None:
        """Whatever went wrong, no process is left behind."""
        for instance in self._instances:
            instance.kill()
        self._driver.kill()

    def _settings(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._broker.bootstrap,
            "group.protocol": "streams",
            "processing.guarantee": self._plan.guarantee,
            "replication.factor": "-1",
            "num.stream.threads": "2",
            "commit.interval.ms": "500",
            "auto.offset.reset": "earliest",
        }

    # --- strikes ---

    def _strikes(self) -> Iterator[Strike]:
        if self._plan.strikes is not None:
            return iter(self._plan.strikes)
        return schedule.strikes(
            self._plan.seed,
            instances=self._plan.instances,
            nodes=len(self._nodes),
            session_seconds=SESSION_SECONDS,
        )

    def _pause(self, strike: Strike) -> bool:
        """Wait until it is time, and undo meanwhile what lasts; False once nothing is fed any more."""
        until = time.monotonic() + strike.pause
        is_planned = self._plan.strikes is not None

        def is_time() -> bool:
            self._look_after()
            is_over = not is_planned and self._has_said("FED\n")
            return is_over or time.monotonic() >= until

        eventually(is_time, "the time of a strike", strike.pause + START_SECONDS)
        return is_planned or not self._has_said("FED\n")

    def _look_after(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            self._due.pop(0)[1]()
        for number, instance in enumerate(self._instances):
            trouble = instance.trouble()
            if trouble is not None and (False, number) not in self._struck:
                self._violate(f"instance {number + 1}: {trouble}")
                instance.kill()
                instance.start()

    def _strike(self, strike: Strike) -> None:
        whom = (strike.kind == schedule.KILL_NODE, strike.at)
        if whom in self._struck:
            return
        self._say(f"{self._seconds():5.1f} s: {strike}")
        self.outcome.strikes[strike.kind] += 1
        undo = self._begin(strike)
        self._struck.add(whom)

        def over() -> None:
            undo()
            self._struck.discard(whom)

        self._due.append((time.monotonic() + strike.seconds, over))
        self._due.sort(key=lambda each: each[0])

    def _begin(self, strike: Strike) -> Callable[[], None]:
        """What is returned undoes it."""
        if strike.kind == schedule.KILL_NODE:
            node = self._nodes[strike.at]
            node.kill()
            return node.start
        instance = self._instances[strike.at]
        if strike.kind == schedule.FREEZE:
            instance.freeze()
            return instance.thaw
        if strike.kind == schedule.KILL:
            instance.kill()
        else:
            instance.end()
        return instance.start

    # --- the verdict ---

    def _has_said(self, word: str) -> bool:
        if self._driver.code not in (None, 0):
            return True
        return word in self._driver.text()

    def _is_judged(self) -> bool:
        self._look_after()
        return self._driver.code is not None

    def _judge(self) -> None:
        said = self._driver.text()
        self.outcome.verdict = said[said.find("GROUP ") :].strip() if "GROUP " in said else ""
        if self._driver.code != 0 or not said.rstrip().endswith("PASSED"):
            self._violate(f"the driver ended with {self._driver.code}: {said[-3000:]}")
        if "GROUP " not in said:
            self._violate("the driver found no streams group")

    def _violate(self, what: str) -> None:
        self._say(f"{self._seconds():5.1f} s: VIOLATION {what.splitlines()[0]}")
        self.outcome.violations.append(what)

    def _seconds(self) -> float:
        return time.monotonic() - self._began
