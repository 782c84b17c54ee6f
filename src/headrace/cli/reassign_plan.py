"""Plans of reassignments: Kafka's JSON files, a proposal that spreads topics over brokers, and throttles.

    {"version": 1, "topics": [{"topic": "orders"}]}                            what shall move
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 3],
                                   "log_dirs": ["any", "/data/2"]}]}           where it shall be

`log_dirs` may be left out; it lines up with `replicas`, and "any" leaves a folder to its broker.

Throttles are set before a reassignment begins and taken away when it is over. Who sends is named in
`leader.replication.throttled.replicas`: all replicas that a partition has. Who receives is named in
`follower.replication.throttled.replicas`: those that it gets. The rates are settings of the brokers.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, BrokerDescription, ResourceKind, TopicDescription
from headrace.controller.replica_placer import place
from headrace.metadata.brokers import BrokerRegistration

ANY: Final = "any"
VERSION: Final = 1
THROTTLED_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLE_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class ReplicaTarget(NamedTuple):
    """Where a partition's replicas shall be, and in which folders (none given: any)."""

    replicas: list[int]
    log_dirs: list[str]

    def moved_folders(self) -> dict[int, str]:
        """The folder that a broker shall hold the replica in, where one is named."""
        return {
            broker: path for broker, path in zip(self.replicas, self.log_dirs, strict=False) if path != ANY
        }


Plan = dict[TopicPartition, ReplicaTarget]


def read_topics(path: Path) -> list[str]:
    """The topics of a topics-to-move file."""
    try:
        return [str(each["topic"]) for each in _read(path)["topics"]]
    except (KeyError, TypeError) as error:
        raise _wrong(
            path, f'it must look like {{"version": 1, "topics": [{{"topic": "NAME"}}]}} ({error})'
        ) from None


def read_plan(path: Path) -> Plan:
    """A reassignment file; what is wrong with it is told before anything is asked of a cluster."""
    plan: Plan = {}
    try:
        for each in _read(path)["partitions"]:
            where = TopicPartition(str(each["topic"]), int(each["partition"]))
            replicas = [int(replica) for replica in each["replicas"]]
            log_dirs = [str(folder) for folder in each.get("log_dirs") or [ANY] * len(replicas)]
            _check(path, plan, where, replicas, log_dirs)
            plan[where] = ReplicaTarget(replicas, log_dirs)
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(path, f"an entry lacks topic, partition or replicas ({error})") from None
    if not plan:
        raise _wrong(path, "it names no partitions")
    return plan


def _check(path: Path, plan: Plan, where: TopicPartition, replicas: list[int], log_dirs: list[str]) -> None:
    if where in plan:
        raise _wrong(path, f"{where} is named twice")
    if not replicas or len(set(replicas)) != len(replicas):
        raise _wrong(path, f"{where} needs replicas, each once, and has {replicas}")
    if len(log_dirs) != len(replicas):
        raise _wrong(path, f"{where} has {len(replicas)} replicas and {len(log_dirs)} log_dirs")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise _wrong(path, f"it is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("version", VERSION) != VERSION:
        raise _wrong(path, 'it must be an object with "version": 1')
    return found


def _wrong(path: Path, why: str) -> click.ClickException:
    return click.ClickException(f"{path}: {why}")


def plan_text(plan: Plan) -> str:
    """The plan as one line of JSON, as Kafka's tool prints and reads it."""
    partitions = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": target.replicas,
            "log_dirs": target.log_dirs,
        }
        for where, target in sorted(plan.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def current_plan(described: Iterable[TopicDescription]) -> Plan:
    """Where partitions are now."""
    return {
        TopicPartition(topic.name, each.number): ReplicaTarget(
            list(each.replicas), [ANY] * len(each.replicas)
        )
        for topic in described
        for each in topic.partitions
    }


def propose(
    described: Iterable[TopicDescription],
    brokers: Sequence[BrokerDescription],
    *,
    by_rack: bool,
    rng: random.Random,
) -> Plan:
    """Spread topics over these brokers as new ones would be, with as many replicas as they have."""
    images = [
        BrokerRegistration(
            id=broker.node_id,
            epoch=0,
            incarnation_id=b"",
            endpoints={},
            features={},
            rack=broker.rack if by_rack else None,
            fenced=broker.fenced,
        )
        for broker in brokers
    ]
    plan: Plan = {}
    for topic in described:
        count = len(topic.partitions)
        factor = max(len(each.replicas) for each in topic.partitions)
        if factor > len(images):
            raise click.ClickException(
                f"topic {topic.name!r} has {factor} replicas of a partition, each on a broker of its own, "
                f"and {len(images)} brokers are named: name more with --brokers"
            )
        placed = place(images, partitions=count, replication_factor=factor, rng=rng)
        for each, replicas in zip(topic.partitions, placed, strict=True):
            plan[TopicPartition(topic.name, each.number)] = ReplicaTarget(replicas, [ANY] * len(replicas))
    return plan


def throttled_replicas(before: Plan, plan: Plan) -> dict[str, tuple[str, str]]:
    """Of each topic the settings for its leaders and its followers."""
    senders: dict[str, set[tuple[int, int]]] = {}
    receivers: dict[str, set[tuple[int, int]]] = {}
    for where, target in plan.items():
        old = before[where].replicas if where in before else []
        senders.setdefault(where.topic, set()).update(_named(where, old))
        receivers.setdefault(where.topic, set()).update(_named(where, set(target.replicas) - set(old)))
    return {topic: (_text(senders[topic]), _text(receivers[topic])) for topic in senders}


def _named(where: TopicPartition, brokers: Iterable[int]) -> set[tuple[int, int]]:
    return {(where.partition, broker) for broker in brokers}


def _text(replicas: set[tuple[int, int]]) -> str:
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(replicas))


def set_throttles(admin: Admin, before: Plan, plan: Plan, bytes_per_second: int) -> None:
    """Name the replicas first: a rate without names throttles nobody."""
    for topic, values in throttled_replicas(before, plan).items():
        admin.alter_configs(
            ResourceKind.TOPIC, topic, set_to=dict(zip(THROTTLED_REPLICAS, values, strict=True))
        )
    brokers = {broker for each in (before, plan) for target in each.values() for broker in target.replicas}
    for broker in sorted(brokers):
        rates = dict.fromkeys(THROTTLE_RATES, str(bytes_per_second))
        admin.alter_configs(ResourceKind.BROKER, str(broker), set_to=rates)


def clear_throttles(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    for broker in brokers:
        admin.alter_configs(ResourceKind.BROKER, str(broker), set_to={}, delete=THROTTLE_RATES)
    for topic in sorted(topics):
        admin.alter_configs(ResourceKind.TOPIC, topic, set_to={}, delete=THROTTLED_REPLICAS)
