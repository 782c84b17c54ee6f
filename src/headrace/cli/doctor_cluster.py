"""What `headrace doctor` looks at in a cluster that runs: brokers, their folders, the quorum, partitions.

Partitions that lack the same brokers for the same reason are one finding: of a thousand a person is to read
what they have in common.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headrace.cli.doctor_findings import Finding, Level
from headrace.clients import Admin, LogDirDescription, ResourceKind, TopicPartitionInfo
from headrace.clients.errors import ClientError, RefusedError, UnsupportedError

FREE_SHARE_MIN: Final = 0.05
FULL_BYTES: Final = 100 << 20
LAG_MAX: Final = 1_000
CLOCK_SLACK_S: Final = 60.0
TOPICS_AT_ONCE: Final = 100
NAMED_MAX: Final = 5
"""Partitions of one finding that are named; the others are counted."""

MAKE_ROOM: Final = "make room, lower retention.bytes, or move replicas with `headrace reassign`"


def look_at_cluster(admin: Admin, bootstrap: str) -> Iterator[Finding]:
    """All findings of the cluster that this administrator is connected to, which it was to find at
    `bootstrap`."""
    try:
        found = admin.describe_cluster()
    except ClientError as error:
        yield _unreachable(str(error), bootstrap)
        return
    for broker in found.brokers:
        where = f"broker {broker.node_id}"
        if broker.fenced:
            yield Finding(
                "error",
                where,
                "it is fenced: it does not run, or no controller hears of it",
                "start it, look at its log",
            )
            continue
        try:
            folders = admin.describe_log_dirs(broker.node_id)
        except ClientError as error:
            yield Finding(
                "error",
                where,
                f"it cannot be reached at {broker.host}:{broker.port}, where clients are sent: {error}",
                "start it; if it runs, correct its advertised.listeners, or look at names and firewalls",
            )
            continue
        for folder in folders:
            yield from _folder(where, folder)
    yield from _quorum(admin)
    yield from _partitions(admin, {each.node_id: each.rack for each in found.brokers})


def _unreachable(error: str, bootstrap: str) -> Finding:
    """Nobody answers, or those who do send clients elsewhere."""
    if any(address.strip() in error for address in bootstrap.split(",")):
        return Finding("error", bootstrap, error, "start a broker, or ask where one listens")
    return Finding(
        "error",
        bootstrap,
        f"brokers answer there, and send clients on to where nobody answers: {error}",
        "correct advertised.listeners of the brokers, or look at names and firewalls",
    )


def _folder(where: str, folder: LogDirDescription) -> Iterator[Finding]:
    where = f"{where}, {folder.path}"
    if folder.error:
        yield Finding(
            "error",
            where,
            f"the folder is offline: {folder.error}",
            "replace the disk, empty the folder, restart the broker: replicas fill it again",
        )
    elif folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * FREE_SHARE_MIN:
        is_full = folder.usable_bytes < min(FULL_BYTES, folder.total_bytes / 100)
        what = f"{100 * folder.usable_bytes / folder.total_bytes:.1f} % of the disk are free"
        if is_full:
            what = f"the disk is full: {what}, and writes are refused where there is no room"
        yield Finding("error" if is_full else "warning", where, what, MAKE_ROOM)


def _quorum(admin: Admin) -> Iterator[Finding]:
    try:
        quorum = admin.describe_quorum()
    except (UnsupportedError, RefusedError):
        return
    except ClientError as error:
        yield Finding(
            "error", "quorum", f"it does not answer: {error}", "start enough controllers for a majority"
        )
        return
    for each in quorum.members:
        where = f"node {each.node_id}"
        lag = quorum.high_watermark - each.log_end_offset
        if lag > LAG_MAX:
            yield Finding("warning", where, f"it is {lag} records behind the metadata log", "look at its log")
        # The leader is always caught up, so it tells the time of its own clock.
        ahead_s = each.last_caught_up_ms / 1000 - time.time()
        if each.node_id == quorum.leader_id and each.last_caught_up_ms > 0 and abs(ahead_s) > CLOCK_SLACK_S:
            yield Finding(
                "warning",
                where,
                f"its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's",
                "set the clock that is wrong (NTP): retention and time-outs of groups go by these times",
            )


class _Lack(NamedTuple):
    """What partitions have in common that lack replicas."""

    level: Level
    what: str
    advice: str


def _partitions(admin: Admin, racks: Mapping[int, str | None]) -> Iterator[Finding]:
    names = [each.name for each in admin.list_topics()]
    lacking: dict[_Lack, list[str]] = {}
    together: list[str] = []
    for at in range(0, len(names), TOPICS_AT_ONCE):
        for topic in admin.describe_topics(names[at : at + TOPICS_AT_ONCE]):
            poor = [
                each for each in topic.partitions if each.leader < 0 or len(each.isr) < len(each.replicas)
            ]
            least = _min_in_sync(admin, topic.name) if poor else 1
            for each in poor:
                lacking.setdefault(_lack(each, least), []).append(f"{topic.name}-{each.number}")
            together += [
                f"{topic.name}-{each.number}" for each in topic.partitions if _share_a_rack(each, racks)
            ]
    if together:
        yield Finding(
            "warning",
            _named(together),
            "replicas share a rack, though there are racks for each: they are lost together",
            "spread them with `headrace reassign generate` and `headrace reassign execute`",
        )
    for lack, where in lacking.items():
        yield Finding(lack.level, _named(where), lack.what, lack.advice)


def _share_a_rack(partition: TopicPartitionInfo, racks: Mapping[int, str | None]) -> bool:
    """Brokers without a rack say nothing about where they stand."""
    used = {racks.get(each) for each in partition.replicas}
    return None not in used and len(used) < min(len(partition.replicas), len(set(racks.values())))


def _lack(partition: TopicPartitionInfo, least: int) -> _Lack:
    missing = sorted(set(partition.replicas) - set(partition.isr))
    brokers = f"broker{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    if partition.leader < 0:
        return _Lack("error", f"no leader: not in sync, or down: {brokers}", f"start {brokers}")
    # As brokers count: a topic with fewer replicas than the minimum needs all of them.
    if len(partition.isr) < min(least, len(partition.replicas)):
        what = f"acks=all is refused: not in sync: {brokers}; min.insync.replicas is {least}"
        return _Lack("error", what, f"start {brokers}, or look at what is logged there")
    return _Lack("warning", f"not in sync: {brokers}", f"start {brokers}, or look at what is logged there")


def _named(partitions: list[str]) -> str:
    more = len(partitions) - NAMED_MAX
    return ", ".join(partitions[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _min_in_sync(admin: Admin, topic: str) -> int:
    try:
        settings = admin.describe_configs(ResourceKind.TOPIC, topic)
    except ClientError:
        return 1  # whoever could tell is what is missing
    found = {each.name: each.value for each in settings}
    return int(found.get("min.insync.replicas") or 1)
