"""The programs that copy, and what each needs on the machine."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from tests.compat import prepare
from tests.compat.copiers.programs.settings import Settings

BROKER_SETTINGS: Final = {
    # So that who was killed is missed soon, and what it had open ends soon.
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True)
class Kind:
    """A kind of copier. `session_ms` is how long its group waits for one that is silent."""

    command: Callable[[Settings], list[str]]
    session_ms: int = 3_000
    needs: str | None = None


def _python(module: str) -> Callable[[Settings], list[str]]:
    name = f"tests.compat.copiers.programs.{module}"
    return lambda given: [sys.executable, "-m", name, json.dumps(asdict(given))]


def _franz(given: Settings) -> list[str]:
    return [str(prepare.go_program()), "copier", json.dumps(asdict(given))]


def _java(given: Settings) -> list[str]:
    """It ends when it has copied what was there when it got its partitions; and aborts now and then."""
    options = {
        "--broker-list": given.bootstrap,
        "--input-topic": given.source,
        "--input-partition": "0",  # asked for, and not used in a group
        "--output-topic": given.target,
        "--consumer-group": given.group,
        "--transactional-id": given.transactional_id,
        "--transaction-size": str(given.size),
        "--transaction-timeout": str(given.transaction_ms),
    }
    words = [word for pair in options.items() for word in pair]
    copier = [*prepare.java_command(), "org.apache.kafka.tools.TransactionalMessageCopier"]
    return [*copier, *words, "--group-mode", "--use-group-metadata", "--enable-random-aborts"]


KINDS: Final = {
    "java": Kind(_java, session_ms=10_000, needs="java"),  # its session's length is its own
    "confluent": Kind(_python("confluent_copier")),
    "franz": Kind(_franz, needs="golang"),
    "kafka-python": Kind(_python("kafka_python_copier")),
    "aiokafka": Kind(_python("aiokafka_copier")),
    "headrace": Kind(_python("headrace_copier")),
}
