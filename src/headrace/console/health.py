"""What is wrong with a cluster now, out of its picture: each with where, what, and what to do about it.

Partitions that lack the same brokers for the same reason are one trouble: of a thousand a person is to read
what they have in common. `headrace doctor` says the same of a cluster in the same words.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from headrace.clients import ActiveProducer, LogDirDescription, QuorumInfo, TopicPartitionInfo
from headrace.console.cluster_picture import ClusterPicture

FREE_SHARE_MIN: Final = 0.05
FULL_BYTES: Final = 100 << 20
QUORUM_LAG_MAX: Final = 1_000
CLOCK_SLACK_S: Final = 60.0
NAMED_MAX: Final = 5
"""Partitions of one finding that are named; the others are counted."""

FENCED: Final = "it is fenced: it does not run, or no controller hears of it"
START_AND_LOOK: Final = "start it, and look at its log"
UNREACHABLE: Final = "start it; if it runs, correct its advertised.listeners, or look at names and firewalls"

Severity = Literal["error", "warning"]


class Diagnosis(NamedTuple):
    """What is wrong with something, and what to do: the console says it, and `headrace doctor`."""

    level: Severity
    what: str
    advice: str


class HealthFinding(NamedTuple):
    """Something that is wrong. `link` is the page of the console that shows more, below the cluster's."""

    level: Severity
    where: str
    what: str
    advice: str
    link: str = ""


def troubles(picture: ClusterPicture, hanging: Iterable[ActiveProducer] = ()) -> list[HealthFinding]:
    """All that is wrong, the worst first. `hanging` are transactions that nobody will end."""
    found = [
        *_brokers(picture),
        *_folders(picture),
        *_quorum(picture),
        *_partitions(picture),
        *_hanging(hanging),
    ]
    return sorted(found, key=lambda each: (each.level != "error", each.where))


def _brokers(picture: ClusterPicture) -> Iterator[HealthFinding]:
    for broker in picture.cluster.brokers:
        where = f"broker {broker.node_id}"
        if broker.fenced:
            yield HealthFinding("error", where, FENCED, START_AND_LOOK, "brokers")
        elif broker.node_id in picture.unreachable:
            what = f"it cannot be reached at {broker.host}:{broker.port}"
            yield HealthFinding("error", where, what, UNREACHABLE, "brokers")


def _folders(picture: ClusterPicture) -> Iterator[HealthFinding]:
    for folder in picture.folders:
        trouble = trouble_of_folder(folder)
        if trouble is not None:
            where = f"broker {folder.node_id}, {folder.path}"
            yield HealthFinding(*_at(where, trouble), "brokers")


def _quorum(picture: ClusterPicture) -> Iterator[HealthFinding]:
    if picture.quorum is not None:
        for where, trouble in troubles_of_quorum(picture.quorum, time.time(), "the console"):
            yield HealthFinding(*_at(where, trouble), "brokers")


def _at(where: str, trouble: Diagnosis) -> tuple[Severity, str, str, str]:
    return trouble.level, where, trouble.what, trouble.advice


def _partitions(picture: ClusterPicture) -> Iterator[HealthFinding]:
    lacking: dict[Diagnosis, list[tuple[str, int]]] = {}
    # People's own topics are named first.
    for topic in sorted(picture.topics.values(), key=lambda each: (each.internal, each.name[:1] == "_")):
        for each in topic.partitions:
            if each.leader < 0 or each.is_under_replicated:
                trouble = lack_of_replicas(each, picture.min_in_sync.get(topic.name, 1))
                lacking.setdefault(trouble, []).append((topic.name, each.number))
    for trouble, where in lacking.items():
        named = named_partitions([f"{topic}-{number}" for topic, number in where])
        topics = {topic for topic, _ in where}
        link = "topics" if len(topics) > 1 else _page_of(where[0][0])
        yield HealthFinding(*_at(named, trouble), link)


def _hanging(hanging: Iterable[ActiveProducer]) -> Iterator[HealthFinding]:
    places = sorted({each.partition for each in hanging})
    if places:
        yield HealthFinding(
            "error",
            named_partitions([str(each) for each in places]),
            "a transaction hangs: no coordinator knows it, and readers of committed records wait behind it",
            "abort it on the page of transactions, or with `headrace txn abort`",
            "transactions",
        )


def _page_of(topic: str) -> str:
    return f"topics/{quote(topic, safe='')}"


# -- what is wrong with one thing ----------------------------------------------------------------------------


def trouble_of_folder(folder: LogDirDescription) -> Diagnosis | None:
    if folder.error:
        return Diagnosis(
            "error",
            f"the folder is offline: {folder.error}",
            "replace the disk, empty the folder, restart the broker: replicas fill it again",
        )
    if folder.total_bytes <= 0 or folder.usable_bytes >= folder.total_bytes * FREE_SHARE_MIN:
        return None
    is_full = folder.usable_bytes < min(FULL_BYTES, folder.total_bytes / 100)
    what = f"{100 * folder.usable_bytes / folder.total_bytes:.1f} % of the disk are free"
    if is_full:
        what = f"the disk is full: {what}, and writes are refused where there is no room"
    advice = "make room, lower retention.bytes, or move replicas with `headrace reassign`"
    return Diagnosis("error" if is_full else "warning", what, advice)


def troubles_of_quorum(quorum: QuorumInfo, now_s: float, here: str) -> Iterator[tuple[str, Diagnosis]]:
    """With the node that each is about. `here` is who has the clock that says `now_s`."""
    for each in quorum.members:
        where = f"node {each.node_id}"
        behind = quorum.high_watermark - each.log_end_offset
        if behind > QUORUM_LAG_MAX:
            what = f"it is {behind} records behind the metadata log"
            yield where, Diagnosis("warning", what, "look at its log")
        # The leader is always caught up, so it tells the time of its own clock.
        ahead_s = each.last_caught_up_ms / 1000 - now_s
        if each.node_id == quorum.leader_id and each.last_caught_up_ms > 0 and abs(ahead_s) > CLOCK_SLACK_S:
            side = "ahead of" if ahead_s > 0 else "behind"
            yield (
                where,
                Diagnosis(
                    "warning",
                    f"its clock is {abs(ahead_s):.0f} s {side} {here}'s",
                    "set the clock that is wrong (NTP): retention and time-outs of groups go by these times",
                ),
            )


def lack_of_replicas(partition: TopicPartitionInfo, least: int) -> Diagnosis:
    """Of a partition without a leader, or with fewer in sync than it has; `least` is min.insync.replicas."""
    missing = sorted(set(partition.replicas) - set(partition.isr))
    brokers = f"broker{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    if partition.leader < 0:
        return Diagnosis("error", f"no leader: not in sync, or down: {brokers}", f"start {brokers}")
    # As brokers count: a topic with fewer replicas than the minimum needs all of them.
    advice = f"start {brokers}, or look at what is logged there"
    if len(partition.isr) < min(least, len(partition.replicas)):
        what = f"acks=all is refused: not in sync: {brokers}; min.insync.replicas is {least}"
        return Diagnosis("error", what, advice)
    return Diagnosis("warning", f"not in sync: {brokers}", advice)


def named_partitions(partitions: list[str]) -> str:
    more = len(partitions) - NAMED_MAX
    return ", ".join(partitions[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
