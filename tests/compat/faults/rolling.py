"""A rolling restart that nobody notices: every node is stopped with SIGTERM and started again, one after
the other, while programs write and read.

    python -m tests.compat.faults.rolling [--rounds 3]

No client may see an error. What counts: a record that could not be delivered, an exception out of a call, a
record that is lost, doubled or out of order, and a member that has to give its partitions back. What a
library does by itself when a broker closes its connection or no longer leads (reconnect, ask for metadata,
send again; librdkafka tells such things to its error callback) is not an error to the program."""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.compat.faults import checker
from tests.compat.faults.members import MEMBER_KINDS, MEMBERS, Member
from tests.compat.faults.topic import PARTITIONS, TOPIC, are_in_sync, create_topic, differing, read_all
from tests.compat.faults.writers import WRITERS, Writer

BETWEEN = 30  # records that every producer gets through before the next node is stopped


class Load:
    """Producers and groups of several libraries on the topic, and what they have to say about it; `only`
    those of one library where that is to be quick."""

    def __init__(self, bootstrap: str, only: str | None = None) -> None:
        self._bootstrap = bootstrap
        args = (bootstrap, TOPIC, PARTITIONS)
        members = [kind for kind in MEMBER_KINDS if only in (None, kind.name)]
        self._groups = {kind.name: [kind(*args) for _ in range(MEMBERS)] for kind in members}
        self._members = [member for group in self._groups.values() for member in group]
        self._writers = [kind(*args, 100.0) for kind in WRITERS if only in (None, kind.name)]
        self._changes: dict[int, int] = {}

    def start(self) -> None:
        """Returns when every group shares the partitions and every producer gets on."""
        for member in self._members:
            member.start()
        eventually(
            lambda: all(map(_is_shared, self._groups.values())),
            lambda: f"groups share: {_told(self._members)}",
        )
        self._changes = {id(member): member.changes for member in self._members}
        for writer in self._writers:
            writer.start()
        self.get_on()

    def get_on(self) -> None:
        """Every producer has so many more answers."""
        _await(self._writers)

    def end(self) -> list[str]:
        """What was wrong."""
        faults = _end(self._bootstrap, self._writers, self._groups)
        for member in self._members:
            if member.changes > self._changes[id(member)]:
                faults.append(f"a member of {member.group} had to give partitions back")
        return faults

    @property
    def longest_waits(self) -> str:
        waits = ", ".join(f"{each.name}: {each.longest_wait:.2f} s" for each in self._writers)
        return f"{waits} at most without an answer"


def run(
    folder: Path, *, rounds: int, only: str | None = None, say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """What was wrong; with `only` one library's producers and members."""
    with HeadraceCluster(folder / "nodes") as cluster:
        cluster.start()
        create_topic(cluster.bootstrap)
        load = Load(cluster.bootstrap, only)
        load.start()
        for at in range(rounds):
            for node in cluster.nodes:
                node.stop()
                node.start()
                load.get_on()
                say(f"round {at + 1}: node {node.number} is back")
        faults = load.end()
        cluster.stop()
        say(load.longest_waits)
        return faults + differing([*cluster.folders.values()])


def _is_shared(group: list[Member]) -> bool:
    owned = [member.owned for member in group]
    return all(owned) and set().union(*owned) == set(range(PARTITIONS)) and sum(map(len, owned)) == PARTITIONS


def _told(members: list[Member]) -> str:
    return "; ".join(f"{member.name}: {member.trouble or sorted(member.owned)}" for member in members)


def _await(writers: list[Writer]) -> None:
    """Every producer gets on."""
    goals = {each.name: len(each.acknowledged) + BETWEEN for each in writers}
    eventually(
        lambda: all(each.trouble or len(each.acknowledged) >= goals[each.name] for each in writers),
        lambda: f"answers: {[(each.name, goals[each.name] - len(each.acknowledged)) for each in writers]}",
    )


def _end(bootstrap: str, writers: list[Writer], groups: dict[str, list[Member]]) -> list[str]:
    for writer in writers:
        writer.stop()
    eventually(lambda: all(each.is_done for each in writers), "every producer has its answers")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    eventually(lambda: are_in_sync(admin), "all replicas are in sync")
    client = Confluent(bootstrap)
    ends = {at: end for at, (_, end) in client.bounds(TOPIC).items()}
    seen = {name: lambda group=group: _merged(group) for name, group in groups.items()}
    total = sum(ends.values())
    eventually(
        lambda: all(_count(view()) >= total for view in seen.values()),
        lambda: f"groups read {total} records: { {name: _count(view()) for name, view in seen.items()} }",
    )
    members = [member for group in groups.values() for member in group]
    for member in members:
        member.ask_to_stop()  # all of them first: when one leaves its group, the other must rebalance
    for member in members:
        member.stop()
    told = [each.told for each in writers]
    faults = checker.check(told, read_all(client, ends), {name: view() for name, view in seen.items()})
    faults += [text for each in writers for text in each.failed.values()]
    faults += [each.trouble for each in writers if each.trouble]
    faults += [each.trouble for group in groups.values() for each in group if each.trouble]
    return faults


def _merged(group: list[Member]) -> dict[int, list[tuple[int, bytes]]]:
    """What a group was handed, by offset: an offset that came twice is there twice."""
    return {at: sorted(record for member in group for record in member.seen[at]) for at in range(PARTITIONS)}


def _count(view: checker.Log) -> int:
    return sum(map(len, view.values()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.faults.rolling")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rolling-") as folder:
        faults = run(Path(folder), rounds=options.rounds, say=lambda line: print(line, flush=True))
    print("\n".join(faults) or "no client saw an error, and nothing is lost or doubled")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
