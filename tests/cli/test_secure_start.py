"""`headrace start --secure`: one line to a cluster that is locked, and files for those who may come in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import headrace
from headrace.cli.main import cli
from tests.cli.test_nodes import running

pytestmark = pytest.mark.timeout(600)
ROWS = [b"%d" % number for number in range(10)]


def librdkafka(folder: Path, user: str) -> dict[str, str]:
    text = (folder / "security" / f"{user}.librdkafka.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines()) | {"log_level": "0"}


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    whole = [sys.executable, "-m", "headrace", *words]
    return subprocess.run(whole, capture_output=True, text=True, timeout=100)


def invoked(*words: str) -> Result:
    """The same in this process."""
    return CliRunner().invoke(cli, words)


def read(settings: dict[str, str]) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    while len(found) < len(ROWS):
        message = consumer.poll(60)
        assert message is not None, found
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    return found


def test_three_nodes_are_locked_and_open_to_who_logs_in(tmp_path: Path) -> None:
    words = ("--secure", "--nodes", "3", "--port", "0", "--data", str(tmp_path))
    with running(*words) as (_, servers):
        app = librdkafka(tmp_path, "app")
        assert app["bootstrap.servers"] == servers
        client = AdminClient(app)
        for future in client.create_topics([NewTopic("orders", 3, 3)]).values():
            future.result(60)
        producer = Producer(app | {"transactional.id": "orders"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for row in ROWS:
            producer.produce("orders", row)
        producer.commit_transaction(60)
        assert sorted(read(app)) == ROWS

        admin, user = (str(tmp_path / "security" / f"{each}.properties") for each in ("admin", "app"))
        assert invoked("topic", "list", "--command-config", admin).stdout.startswith("TOPIC")
        assert invoked("quorum", "describe", "--command-config", admin).exit_code == 0
        refused = invoked("quorum", "describe", "--command-config", user)
        assert (refused.exit_code, "authorization failed" in refused.stderr) == (1, True), refused.stderr

        guessed = json.loads((tmp_path / "security" / "app.json").read_text()) | {"sasl.password": "guessed"}
        with pytest.raises(headrace.AuthenticationError), headrace.Admin(guessed) as stranger:
            stranger.list_topics()
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": servers, "log_level": "0"}).list_topics(timeout=3)
    with running(*words):
        python = json.loads((tmp_path / "security" / "app.json").read_text())
        with headrace.Consumer(python, group_id="others", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            found: list[bytes | None] = []
            while len(found) < len(ROWS):
                found += [record.value for record in consumer.poll(60)]
        assert sorted(value or b"" for value in found) == ROWS


def test_it_is_not_opened_by_leaving_a_word_out(tmp_path: Path) -> None:
    with running("--secure", "--port", "0", "--data", str(tmp_path)):
        pass
    for words in ((), ("--nodes", "2")):
        done = command("start", *words, "--port", "0", "--data", str(tmp_path))
        assert done.returncode == 1
        assert "was made with --secure: start it with --secure" in done.stderr


def test_a_cluster_without_users_is_not_locked_afterwards(tmp_path: Path) -> None:
    with running("--nodes", "2", "--port", "0", "--data", str(tmp_path)):
        pass
    done = command("start", "--secure", "--nodes", "2", "--port", "0", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "was made without --secure, which has no users" in done.stderr
