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


def run(folder: Path, *, rounds: int, say: Callable[[str], None] = lambda _: None) -> list[str]:
    """What was wrong."""
    with HeadraceCluster(folder / "nodes") as cluster:
        cluster.start()
        create_topic(cluster.bootstrap)
        args = (cluster.bootstrap, TOPIC, PARTITIONS)
        groups = {kind.name: [kind(*args) for _ in range(MEMBERS)] for kind in MEMBER_KINDS}
        members = [member for group in groups.values() for member in group]
        for member in members:
            member.start()
        eventually(lambda: all(map(_is_shared, groups.values())), lambda: f"groups share: {_told(members)}")
        changes = {id(member): member.changes for member in members}
        writers = [kind(*args, 100.0) for kind in WRITERS]
        for writer in writers:
            writer.start()
        _await(writers)
        for at in range(rounds):
            for node in cluster.nodes:
                node.stop()
                node.start()
                _await(writers)
                say(f"round {at + 1}: node {node.number} is back")
        faults = _end(cluster, writers, groups)
        for member in members:
            if member.changes > changes[id(member)]:
                faults.append(f"a member of {member.group} had to give partitions back")
        cluster.stop()
        say(
            ", ".join(f"{each.name}: {each.longest_wait:.2f} s" for each in writers)
            + " at most without an answer"
        )
        return faults + differing(cluster.nodes)


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


def _end(cluster: HeadraceCluster, writers: list[Writer], groups: dict[str, list[Member]]) -> list[str]:
    for writer in writers:
        writer.stop()
    eventually(lambda: all(each.is_done for each in writers), "every producer has its answers")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    eventually(lambda: are_in_sync(admin), "all replicas are in sync")
    client = Confluent(cluster.bootstrap)
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
    told = [checker.Told(each.name, each.sent, each.acknowledged, each.failed) for each in writers]
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
