"""Which clients there are, what each needs on the machine, and what each library itself cannot do.

To add a client: a program or module that answers the calls of face.Client, and a line here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.compat import prepare
from tests.compat.clients.aio import Aiokafka
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.external import External
from tests.compat.clients.face import Client
from tests.compat.clients.kafka_python import KafkaPython


@dataclass(frozen=True)
class Entry:
    """`cannot` names a call of face.Client, a kind of record in samples.py that the library has no way to
    send, or BLURS_EMPTY. Scenarios leave that out; it says nothing about the broker.
    """

    name: str
    open: Callable[[str], Client]
    mark: str | None = None
    cannot: frozenset[str] = frozenset()


# The library reads an empty key, value or header as null.
BLURS_EMPTY = "blurs empty"


def _go(name: str) -> Callable[[str], Client]:
    return lambda bootstrap: External([str(prepare.go_program()), name, bootstrap])


def _kafkajs(bootstrap: str) -> Client:
    return External(["node", str(prepare.node_program() / "kafkajs.mjs"), bootstrap])


def _java(group_protocol: str) -> Callable[[str], Client]:
    def start(bootstrap: str) -> Client:
        command = [*prepare.java_command(classes=prepare.java_program()), "Compat"]
        return External([*command, bootstrap, group_protocol])

    return start


ROSTER = (
    Entry("confluent", Confluent),
    Entry("aiokafka", Aiokafka, cannot=frozenset({"delete_group", "null both"})),
    Entry("kafka-python", KafkaPython, cannot=frozenset({"null header", "null both"})),
    Entry("java", _java("classic"), "java"),
    Entry("franz", _go("franz"), "golang"),
    Entry("sarama", _go("sarama"), "golang"),
    Entry("kafka-go", _go("kafka-go"), "golang", frozenset({"delete_records", BLURS_EMPTY})),
    Entry("kafkajs", _kafkajs, "nodejs", frozenset({"null header"})),
)


# The same libraries in groups whose broker assigns (KIP-848).
CONSUMER_PROTOCOL_ROSTER = (
    Entry("confluent-kip848", partial(Confluent, group_protocol="consumer")),
    Entry("java-kip848", _java("consumer"), "java"),
)


def as_params(*able: str, roster: Sequence[Entry] = ROSTER) -> list[Any]:
    """The clients that can do all of it, for pytest.mark.parametrize, each with its mark."""
    return [
        pytest.param(entry, id=entry.name, marks=[getattr(pytest.mark, entry.mark)] if entry.mark else [])
        for entry in roster
        if entry.cannot.isdisjoint(able)
    ]
