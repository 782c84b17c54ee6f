"""Run a script on a simulated node, and hold what it answers to what Apache Kafka answered."""

import difflib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.server.beside_kafka.talk import STRANGERS, Talk
from tests.server.node_world import Client, NodeWorld

HERE = Path(__file__).parent

# Both brokers get these: little groups, short sessions, nothing by accident.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "2",
}


class SimulatedNode:
    """Implements `talk.Broker` on a node in a simulated world."""

    prefix = ""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world

    async def connect(self, client_id: str) -> Client:
        return await self._world.connect(client_id, machine=_machine(client_id))

    def host_of(self, client_id: str) -> str:
        return self._world.address_of(_machine(client_id))

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> bytes:
        return await self._world.create_topic(name, partitions, configs)

    async def delete_topic(self, name: str) -> None:
        await self._world.delete_topic(name)

    async def pass_time(self, milliseconds: int) -> None:
        await self._world.pass_time(milliseconds)


def _machine(client_id: str) -> str:
    """Strangers come from machines of their own."""
    return client_id if client_id in STRANGERS else "client"


def answers_file(name: str) -> Path:
    return HERE / f"{name}.kafka.txt"


def load(name: str) -> Any:
    """The module of a script, with its `script(talk)`."""
    return import_module(f"tests.server.beside_kafka.{name}")


def meant_otherwise(name: str) -> dict[str, str]:
    """By label, the answers in which headrace means to differ from Kafka; the file says why."""
    file = HERE / f"{name}.ours.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return {line.partition(": ")[0]: line for line in lines if not line.startswith("#")}


@cache
def our_answers(name: str) -> str:
    with NodeWorld(SETTINGS) as world:
        talk = Talk(SimulatedNode(world))

        async def conversation() -> None:
            await world.start()
            await load(name).script(talk)
            talk.close()
            await world.stop()

        world.run(conversation())
    return talk.text()


def _section(answers: str, title: str) -> str:
    return answers if not title else answers.partition(f"## {title}\n")[2].partition("\n\n## ")[0]


def expected_answers(name: str) -> str:
    """Kafka's, but for the ones in which headrace means to differ."""
    ours = meant_otherwise(name)
    lines = [ours.pop(line.partition(": ")[0], line) for line in answers_file(name).read_text().splitlines()]
    assert not ours, f"{name}: no answer of Kafka's has the labels {list(ours)}"
    return "\n".join(lines) + "\n"


def assert_answers_as_kafka(name: str, section: str = "") -> None:
    """Of the whole script, or of one section; fails with the lines that differ: - is Kafka's, + is ours."""
    expected, ours = _section(expected_answers(name), section), _section(our_answers(name), section)
    assert expected
    if expected != ours:
        diff = difflib.unified_diff(
            expected.splitlines(), ours.splitlines(), "Kafka", "headrace", lineterm="", n=1
        )
        raise AssertionError("\n".join(diff))
