"""The Java client of Kafka 4.4, whose broker is not to be had: what it does with what is new there."""

import subprocess
from pathlib import Path

import pytest

from tests.compat import prepare
from tests.compat.brokers import Broker
from tests.wire.test_against_kafka import NEWEST_CLIENT

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "newest" / "NewestClient.java"
WAIT_S = 240


def test_dead_letters_offsets_by_id_and_errors_in_words(broker: Broker) -> None:
    try:
        jars = prepare.jars(f"clients-{NEWEST_CLIENT}", f"org.apache.kafka:kafka-clients:{NEWEST_CLIENT}")
        classes = prepare.java_class(PROGRAM, jars)
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    flags = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    command = ["java", *flags, "-cp", f"{classes}:{jars}/*", "NewestClient", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "taken 10",
        "letter v3|jobs|1|1|workers|1|Offset rejected by client.",
        "committed 10",
        "refused The group id does not exist.",
    ]
