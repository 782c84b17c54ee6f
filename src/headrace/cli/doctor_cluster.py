"""What `headrace doctor` looks at in a cluster that runs: brokers, their folders, the quorum, partitions.

Partitions that lack the same brokers for the same reason are one finding: of a thousand a person is to read
what they have in common. What counts as wrong is in `console/health.py`: the console says it in the same
words.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.cli.doctor_findings import Finding
from headrace.clients import Admin, LogDirDescription, ResourceKind, TopicPartitionInfo
from headrace.clients.errors import ClientError, RefusedError, UnsupportedError
from headrace.console.health import (
    FENCED,
    START_AND_LOOK,
    UNREACHABLE,
    Diagnosis,
    lack_of_replicas,
    named_partitions,
    trouble_of_folder,
    troubles_of_quorum,
)

TOPICS_AT_ONCE: Final = 100


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
            yield Finding("error", where, FENCED, START_AND_LOOK)
            continue
        try:
            folders = admin.describe_log_dirs(broker.node_id)
        except ClientError as error:
            yield Finding(
                "error",
                where,
                f"it cannot be reached at {broker.host}:{broker.port}, where clients are sent: {error}",
                UNREACHABLE,
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
    trouble = trouble_of_folder(folder)
    if trouble is not None:
        yield Finding(trouble.level, f"{where}, {folder.path}", trouble.what, trouble.advice)


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
    for where, trouble in troubles_of_quorum(quorum, time.time(), "this machine"):
        yield Finding(trouble.level, where, trouble.what, trouble.advice)


def _partitions(admin: Admin, racks: Mapping[int, str | None]) -> Iterator[Finding]:
    names = [each.name for each in admin.list_topics()]
    lacking: dict[Diagnosis, list[str]] = {}
    together: list[str] = []
    for at in range(0, len(names), TOPICS_AT_ONCE):
        for topic in admin.describe_topics(names[at : at + TOPICS_AT_ONCE]):
            poor = [
                each for each in topic.partitions if each.leader < 0 or len(each.isr) < len(each.replicas)
            ]
            least = _min_in_sync(admin, topic.name) if poor else 1
            for each in poor:
                lacking.setdefault(lack_of_replicas(each, least), []).append(f"{topic.name}-{each.number}")
            together += [
                f"{topic.name}-{each.number}" for each in topic.partitions if _share_a_rack(each, racks)
            ]
    if together:
        yield Finding(
            "warning",
            named_partitions(together),
            "replicas share a rack, though there are racks for each: they are lost together",
            "spread them with `headrace reassign generate` and `headrace reassign execute`",
        )
    for lack, where in lacking.items():
        yield Finding(lack.level, named_partitions(where), lack.what, lack.advice)


def _share_a_rack(partition: TopicPartitionInfo, racks: Mapping[int, str | None]) -> bool:
    """Brokers without a rack say nothing about where they stand."""
    used = {racks.get(each) for each in partition.replicas}
    return None not in used and len(used) < min(len(partition.replicas), len(set(racks.values())))


def _min_in_sync(admin: Admin, topic: str) -> int:
    try:
        settings = admin.describe_configs(ResourceKind.TOPIC, topic)
    except ClientError:
        return 1  # whoever could tell is what is missing
    found = {each.name: each.value for each in settings}
    return int(found.get("min.insync.replicas") or 1)
