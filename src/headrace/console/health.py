"""What is wrong with a cluster now, out of its picture: each with where, what, and what to do about it.

Partitions that lack the same brokers for the same reason are one trouble: of a thousand a person is to read
what they have in common.
"""

import time
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from headrace.clients import LogDirDescription, TopicPartitionInfo
from headrace.console.cluster_picture import ClusterPicture

FREE_SHARE_MIN: Final = 0.05
QUORUM_LAG_MAX: Final = 1_000
CLOCK_SLACK_S: Final = 60.0
NAMED_MAX: Final = 5

Severity = Literal["error", "warning"]


class HealthFinding(NamedTuple):
    """Something that is wrong. `link` is the page of the console that shows more, below the cluster's."""

    level: Severity
    where: str
    what: str
    advice: str
    link: str = ""


def troubles(picture: ClusterPicture) -> list[HealthFinding]:
    """All that is wrong, the worst first."""
    found = [*_brokers(picture), *_folders(picture), *_quorum(picture), *_partitions(picture)]
    return sorted(found, key=lambda each: (each.level != "error", each.where))


def _brokers(picture: ClusterPicture) -> Iterator[HealthFinding]:
    for broker in picture.cluster.brokers:
        where = f"broker {broker.node_id}"
        if broker.fenced:
            what = "it is fenced: it does not run, or no controller hears of it"
            yield HealthFinding("error", where, what, "start it, and look at its log", "brokers")
        elif broker.node_id in picture.unreachable:
            what = f"it cannot be reached at {broker.host}:{broker.port}"
            advice = "start it; if it runs, correct its advertised.listeners, or look at names and firewalls"
            yield HealthFinding("error", where, what, advice, "brokers")


def _folders(picture: ClusterPicture) -> Iterator[HealthFinding]:
    for folder in picture.folders:
        where = f"broker {folder.node_id}, {folder.path}"
        if folder.error:
            advice = "replace the disk, empty the folder, restart the broker: replicas fill it again"
            yield HealthFinding("error", where, f"the folder is offline: {folder.error}", advice, "brokers")
        elif _is_short(folder):
            what = f"{100 * folder.usable_bytes / folder.total_bytes:.1f} % of the disk are free"
            advice = "make room, lower retention.bytes, or move replicas"
            yield HealthFinding("warning", where, what, advice, "brokers")


def _is_short(folder: LogDirDescription) -> bool:
    return folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * FREE_SHARE_MIN


def _quorum(picture: ClusterPicture) -> Iterator[HealthFinding]:
    quorum = picture.quorum
    if quorum is None:
        return
    for each in quorum.members:
        behind = quorum.high_watermark - each.log_end_offset
        where = f"node {each.node_id}"
        if behind > QUORUM_LAG_MAX:
            what = f"it is {behind} records behind the metadata log"
            yield HealthFinding("warning", where, what, "look at its log", "brokers")
        # The leader is always caught up, so it tells the time of its own clock.
        ahead_s = each.last_caught_up_ms / 1000 - time.time()
        if each.node_id == quorum.leader_id and each.last_caught_up_ms > 0 and abs(ahead_s) > CLOCK_SLACK_S:
            side = "ahead of" if ahead_s > 0 else "behind"
            what = f"its clock is {abs(ahead_s):.0f} s {side} the console's"
            yield HealthFinding("warning", where, what, "set the clock that is wrong (NTP)", "brokers")


def _partitions(picture: ClusterPicture) -> Iterator[HealthFinding]:
    lacking: dict[tuple[Severity, str, str], list[tuple[str, int]]] = {}
    for topic in picture.topics.values():
        for each in topic.partitions:
            if each.leader < 0 or each.is_under_replicated:
                lack = _lack(each, picture.min_in_sync.get(topic.name, 1))
                lacking.setdefault(lack, []).append((topic.name, each.number))
    for (level, what, advice), where in lacking.items():
        more = len(where) - NAMED_MAX
        names = ", ".join(f"{topic}-{number}" for topic, number in where[:NAMED_MAX])
        named = names + (f" and {more} more" if more > 0 else "")
        topics = {topic for topic, _ in where}
        yield HealthFinding(
            level, named, what, advice, "topics" if len(topics) > 1 else _page_of(where[0][0])
        )


def _page_of(topic: str) -> str:
    return f"topics/{quote(topic, safe='')}"


def _lack(partition: TopicPartitionInfo, least: int) -> tuple[Severity, str, str]:
    missing = sorted(set(partition.replicas) - set(partition.isr))
    brokers = f"broker{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    if partition.leader < 0:
        return "error", f"no leader: not in sync, or down: {brokers}", f"start {brokers}"
    # As brokers count: a topic with fewer replicas than the minimum needs all of them.
    if len(partition.isr) < min(least, len(partition.replicas)):
        what = f"acks=all is refused: not in sync: {brokers}; min.insync.replicas is {least}"
        return "error", what, f"start {brokers}, or look at what is logged there"
    return "warning", f"not in sync: {brokers}", f"start {brokers}, or look at what is logged there"
