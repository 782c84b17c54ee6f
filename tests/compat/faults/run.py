"""One run: a cluster, writers and readers on it, faults for as long as asked, and then the verdict."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.compat.cluster import HeadraceCluster
from tests.compat.faults import checker, disks, schedule
from tests.compat.faults.hosts import Hosts
from tests.compat.faults.loads import Load, Outcome, RecordLoad
from tests.compat.faults.locks import Locks
from tests.compat.faults.logins import NOBODY
from tests.compat.faults.readers import Prober
from tests.compat.faults.striking import Striking
from tests.compat.faults.topic import NODES, TOPIC, create_topic, differing
from tests.compat.faults.transactions import TxnLoad


@dataclass(frozen=True)
class Plan:
    """What a run is to be like."""

    seed: int
    seconds: float
    kinds: Collection[str]
    records_per_second: float = 150.0
    rounds: int | None = None
    is_transactional: bool = False
    is_secure: bool = False


def run(plan: Plan, folder: Path, hosts: Hosts | None, say: Callable[[str], None]) -> Outcome:
    """`hosts` is None where the nodes share the loopback; their files lie in `folder` afterwards."""
    outcome = Outcome(plan.seed)
    numbers = range(1, NODES + 1)
    data = folder / "nodes"
    if hosts:
        for number in numbers:
            disks.mount(data / f"node{number}")
    addresses = [hosts.address(number) for number in numbers] if hosts else []
    locks = Locks(folder / "security", addresses) if plan.is_secure else None
    login = locks.login if locks else NOBODY
    with HeadraceCluster(
        data,
        locks.settings() if locks else None,
        count=NODES,
        hosts=addresses,
        entrances={number: hosts.entrance(number) for number in numbers} if hosts else {},
    ) as cluster:
        if locks:
            locks.fit(cluster)
        cluster.start()
        if locks:
            locks.let_in()
        create_topic(cluster.bootstrap, login)
        load: Load = (
            TxnLoad(cluster.bootstrap, plan.seed)
            if plan.is_transactional
            else RecordLoad(cluster.bootstrap, plan.records_per_second, login)
        )
        load.start()
        load.await_progress(outcome)
        # It asks without a login, whatever the listener says: where that is needed, nobody answers it.
        prober = Prober([] if locks else cluster.addresses, TOPIC)
        prober.start()
        _burn(plan, Striking(cluster.nodes, hosts), load, outcome, say, locks)
        prober.stop()
        outcome.violations += prober.violations[: checker.TOLD_MAX]
        say("the faults are over: waiting for the last answers")
        load.judge(cluster, outcome)
        cluster.stop()
        if locks:
            outcome.violations += locks.refusals()[: checker.TOLD_MAX]
        outcome.violations += differing([*cluster.folders.values()])
    return outcome


def _burn(
    plan: Plan,
    striking: Striking,
    load: Load,
    outcome: Outcome,
    say: Callable[[str], None],
    locks: Locks | None,
) -> None:
    began = time.monotonic()
    for faults in islice(schedule.rounds(plan.seed, plan.kinds, NODES), plan.rounds):
        outcome.seconds = time.monotonic() - began
        if outcome.seconds >= plan.seconds or outcome.violations:
            return
        outcome.faults.update(fault.kind for fault in faults)
        try:
            if locks:
                say(f"{outcome.seconds:5.1f} s: {locks.turn_a_key()}")
                outcome.keys += 1
            say(f"{outcome.seconds:5.1f} s: {' and '.join(map(str, faults))}")
            striking.carry_out(faults)
        except AssertionError as error:
            outcome.violations.append(f"{' and '.join(map(str, faults))}: {error}")
            return
        outcome.violations += striking.violations
        load.await_progress(outcome)
