"""Throttles around a reassignment: set before it begins, taken away when it is over.

Who sends is named in `leader.replication.throttled.replicas`: all replicas that a partition has. Who receives
in `follower.replication.throttled.replicas`: those that it gets. The rates are settings of the brokers.
"""

from collections.abc import Iterable
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.cli.reassign_plan import Plan
from headrace.clients import Admin
from headrace.clients.administering.configs import ResourceKind

REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


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
        admin.alter_configs(ResourceKind.TOPIC, topic, set_to=dict(zip(REPLICAS, values, strict=True)))
    brokers = {broker for each in (before, plan) for target in each.values() for broker in target.replicas}
    for broker in sorted(brokers):
        rates = dict.fromkeys(RATES, str(bytes_per_second))
        admin.alter_configs(ResourceKind.BROKER, str(broker), set_to=rates)


def clear_throttles(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    for broker in brokers:
        admin.alter_configs(ResourceKind.BROKER, str(broker), set_to={}, delete=RATES)
    for topic in sorted(topics):
        admin.alter_configs(ResourceKind.TOPIC, topic, set_to={}, delete=REPLICAS)
