"""A script played on a broker: a running one, or a node in a simulated world."""

import asyncio
import json
import random
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.compat import brokers
from tests.compat.alike.session import Answer, Session
from tests.server.beside_kafka.compare import SimulatedNode
from tests.server.beside_kafka.record import RunningKafka
from tests.server.beside_kafka.talk import Broker
from tests.server.node_world import NodeWorld

RECORDED = Path(__file__).parent / "recorded"
AREAS = (
    "groups",
    "offsets",
    "consumer_groups",
    "epochs",
    "migrations",
    "transactions",
    "topics",
    "configs",
    "cluster",
    "producing",
    "fetching",
    "no_migration",
    "upgrades_only",
    "classic_only",
    "no_rights",
    "share_groups",
    "streams_groups",
)

ON_THREE_NODES = ("replicas",)
"""What is played on clusters (`three_nodes.py`)."""

# Both brokers get these: little groups, short sessions, nothing by accident or by time.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def settings_of(area: str) -> dict[str, str]:
    """Those of all areas, and an area's own: it is played on brokers of its own then."""
    own: dict[str, str] = getattr(load(area), "SETTINGS", {})
    return SETTINGS | own


def load(area: str) -> Any:
    """The module of an area, with its `script(session)` and perhaps a `walk(session, rng)` and SETTINGS."""
    return import_module(f"tests.compat.alike.scripts.{area}")


async def converse(broker: Broker, area: str, seed: int | None) -> list[Answer]:
    """An area's script, or its random walk under a seed."""
    session = Session(broker)
    try:
        if seed is None:
            await load(area).script(session)
        else:
            await load(area).walk(session, random.Random(seed))
    finally:
        session.close()
    return session.answers


def on_running(bootstrap: str, area: str, seed: int | None = None) -> list[Answer]:
    host, _, port = bootstrap.rpartition(":")
    return asyncio.run(converse(RunningKafka(host, int(port)), area, seed))


def on_simulated(area: str, seed: int | None = None) -> list[Answer]:
    with NodeWorld(brokers.SETTINGS | settings_of(area)) as world:

        async def conversation() -> list[Answer]:
            await world.start()
            answers = await converse(SimulatedNode(world), area, seed)
            await world.stop()
            return answers

        return world.run(conversation())


def keep(area: str, answers: Sequence[Answer]) -> None:
    """Write down what Kafka said: each different answer once, and after it the places of its labels."""
    RECORDED.mkdir(exist_ok=True)
    labels: dict[str, dict[str, list[int]]] = {}
    for place, (label, content) in enumerate(answers):
        told = json.dumps(content, separators=(",", ":"))
        labels.setdefault(told, {}).setdefault(label, []).append(place)
    lines = [f"[{told},{json.dumps(places, separators=(',', ':'))}]" for told, places in labels.items()]
    (RECORDED / f"{area}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def kept(area: str) -> list[Answer]:
    """What Kafka said, as far as an area's `is_served` has it compared."""
    is_served = getattr(load(area), "is_served", lambda label: True)
    return [answer for answer in _kept(area) if is_served(answer.label)]


def _kept(area: str) -> list[Answer]:
    found = {}
    for content, labels in json.loads((RECORDED / f"{area}.json").read_text()):
        found |= {place: Answer(label, content) for label, places in labels.items() for place in places}
    return [found[place] for place in sorted(found)]
