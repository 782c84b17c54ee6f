"""Who takes part: twenty seats in four groups, each with the program that sits on it.

Seats are in the order in which a smaller company takes them: every group and every kind of client early. A
larger company starts over, with a second program of the same kind.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.compat import prepare

TOPIC: Final = "numbers"

EAGER: Final = "eager"
COOPERATIVE: Final = "cooperative"
ASSIGNED: Final = "assigned"  # by the coordinator: KIP-848
CONVERTED: Final = "converted"  # members of both protocols

# As short as the clients bear on a busy machine. A classic member says its own, the broker says the others'.
HEARTBEAT_MS: Final = 1_000
SESSION_MS: Final = 8_000
POLL_INTERVAL_MS: Final = 30_000

BROKER_SETTINGS: Final = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    # All groups in one log: what happened in which order is then plain.
    "offsets.topic.num.partitions": "1",
}

_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
_COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


@dataclass(frozen=True)
class Seat:
    """A place in a group. `needs` names the marker of what the machine must have."""

    group: str
    kind: str
    more: dict[str, Any]
    commit: str = "sync"
    needs: str | None = None
    number: int = 0

    @property
    def name(self) -> str:
        return f"{self.group}.{self.kind}" + (f".{self.number}" if self.number else "")

    @property
    def leaves_by_signal(self) -> bool:
        """Whether it takes SIGTERM for the word to leave, as it has no ear on stdin."""
        return self.kind.startswith("verifiable")

    def command(self, bootstrap: str, client_id: str, folder: Path) -> list[str]:
        settings = {
            "bootstrap": bootstrap,
            "group": self.group,
            "topic": TOPIC,
            "client_id": client_id,
            "commit": self.commit,
            "heartbeat_ms": HEARTBEAT_MS,
            "session_ms": SESSION_MS,
            "poll_interval_ms": POLL_INTERVAL_MS,
            "more": self.more,
        }
        return _COMMANDS[self.kind.split("-")[0]](settings, folder)


def _python(module: str) -> Callable[[dict[str, Any], Path], list[str]]:
    name = f"tests.compat.mixed_groups.members.{module}"
    return lambda settings, _: [sys.executable, "-m", name, json.dumps(settings)]


def _java(settings: dict[str, Any], _: Path) -> list[str]:
    command = prepare.java_command(classes=prepare.java_program())
    return [*command, "GroupMember", json.dumps(settings)]


def _franz(settings: dict[str, Any], _: Path) -> list[str]:
    return [str(prepare.go_program()), "member", json.dumps(settings)]


def _kafkajs(settings: dict[str, Any], _: Path) -> list[str]:
    return ["node", str(prepare.node_program() / "group_member.mjs"), json.dumps(settings)]


def _verifiable(settings: dict[str, Any], folder: Path) -> list[str]:
    """Apache Kafka's own test program; what it has no option for goes into a file."""
    file = folder / f"{settings['client_id']}.properties"
    lines = {"client.id": settings["client_id"], "max.poll.interval.ms": settings["poll_interval_ms"]}
    options = ["--bootstrap-server", settings["bootstrap"], "--topic", settings["topic"]]
    options += ["--group-id", settings["group"], "--reset-policy", "earliest"]
    if settings["more"]["group.protocol"] == "consumer":
        options += ["--group-protocol", "consumer"]
    else:
        lines["heartbeat.interval.ms"] = settings["heartbeat_ms"]
        options += ["--session-timeout", str(settings["session_ms"]), "--assignment-strategy", _RANGE]
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    command = [*prepare.java_command(), "org.apache.kafka.tools.VerifiableConsumer", *options]
    return [*command, "--command-config", str(file)]


_COMMANDS: Final[dict[str, Callable[[dict[str, Any], Path], list[str]]]] = {
    "confluent": _python("confluent_member"),
    "kafka_python": _python("kafka_python_member"),
    "aiokafka": _python("aiokafka_member"),
    "headrace": _python("headrace_member"),
    "java": _java,
    "verifiable": _verifiable,
    "franz": _franz,
    "kafkajs": _kafkajs,
}

_CONFLUENT_COOPERATIVE: Final = {"partition.assignment.strategy": "cooperative-sticky"}
# Apache Kafka does not convert a group whose assignment has user data, as a cooperative one has if librdkafka
# leads it.
_RANGE_BY_NAME: Final = {"partition.assignment.strategy": "range"}
_CONSUMER: Final = {"group.protocol": "consumer"}

SEATS: Final = (
    Seat(EAGER, "headrace", _RANGE_BY_NAME, "auto"),
    Seat(EAGER, "confluent", _RANGE_BY_NAME),
    Seat(COOPERATIVE, "headrace", _CONFLUENT_COOPERATIVE | {"face": "async"}, "async"),
    Seat(COOPERATIVE, "confluent", _CONFLUENT_COOPERATIVE),
    Seat(ASSIGNED, "headrace", _CONSUMER, "async"),
    Seat(ASSIGNED, "confluent", _CONSUMER),
    Seat(CONVERTED, "headrace-classic", _RANGE_BY_NAME),
    Seat(CONVERTED, "headrace-consumer", _CONSUMER | {"face": "async"}),
    Seat(EAGER, "java", {"partition.assignment.strategy": _RANGE}, needs="java"),
    Seat(EAGER, "franz", {"assignor": "range"}, needs="golang"),
    Seat(EAGER, "kafkajs", {}, needs="nodejs"),
    Seat(EAGER, "aiokafka", {}),
    Seat(ASSIGNED, "java", _CONSUMER, needs="java"),
    Seat(COOPERATIVE, "franz", {"assignor": "cooperative-sticky"}, needs="golang"),
    Seat(EAGER, "kafka_python", {"assignor": "range"}),
    Seat(CONVERTED, "confluent-classic", _RANGE_BY_NAME),
    Seat(EAGER, "verifiable", {"group.protocol": "classic"}, needs="java"),
    Seat(ASSIGNED, "verifiable", _CONSUMER, needs="java"),
    Seat(COOPERATIVE, "java", {"partition.assignment.strategy": _COOPERATIVE}, needs="java"),
    Seat(ASSIGNED, "franz", {"assignor": ""}, needs="golang"),
    Seat(ASSIGNED, "headrace-async", _CONSUMER | {"face": "async"}, "auto"),
    Seat(COOPERATIVE, "headrace-sync", _CONFLUENT_COOPERATIVE),
    Seat(CONVERTED, "confluent-consumer", _CONSUMER),
    Seat(EAGER, "headrace-async", _RANGE_BY_NAME | {"face": "async"}),
)


def company(members: int, *, without: frozenset[str] = frozenset()) -> list[Seat]:
    """The first so many seats that need nothing which is not there."""
    able = [seat for seat in SEATS if seat.needs not in without]
    return [Seat(**{**vars(able[at % len(able)]), "number": at // len(able)}) for at in range(members)]
