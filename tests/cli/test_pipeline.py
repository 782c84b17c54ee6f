"""`headrace pipeline` as a person and a script meet it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.clients import Producer
from headrace.testing import Cluster
from tests.schemas.schema_registry import SchemaRegistry

BATCHES = 400  # more than it can do until it hears of the interrupt, however late
FILE = """\
-- in numbers: feed numbers
--   json: n INT
--   option maxOffsetsPerTrigger: 5
-- out: feed copies
SELECT n FROM numbers
"""


def test_a_mistake_in_the_head_needs_no_spark(tmp_path: Path) -> None:
    path = tmp_path / "p.sql"
    path.write_text(FILE.replace("json", "jsn"))
    for command in ("check", "run"):
        done = CliRunner().invoke(cli, ["pipeline", command, str(path)])
        assert done.exit_code == 1
        assert done.stderr == f"Error: {path}:2: an input feed has no 'jsn'; did you mean 'json'?\n"


def test_variables_are_given_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "p.sql"
    path.write_text(FILE.replace("numbers\n", "${FEED}\n", 1))
    done = CliRunner().invoke(cli, ["pipeline", "check", str(path)])
    assert f"{path}:1: ${{FEED}} is not given: set it with --set FEED=…" in done.stderr


def test_a_profiles_settings_are_for_its_own_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at any of these ports: the error says whom a pipeline would have talked to, and how."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_BOOTSTRAP_SERVER", raising=False)
    file, path = tmp_path / "client.properties", tmp_path / "p.sql"
    file.write_text("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=nowhere.pem\n")
    runner = CliRunner()
    runner.invoke(cli, ["profile", "add", "locked", "-b", "127.0.0.1:2", "--command-config", str(file)])

    def refusal(text: str, *words: str) -> str:
        path.write_text(text)
        done = runner.invoke(cli, ["pipeline", "run", str(path), *words])
        assert done.exit_code == 1
        return done.stderr

    named = f"-- brokers: 127.0.0.1:6\n{FILE}"
    elsewhere = FILE.replace("5\n", "5\n--   option kafka.bootstrap.servers: 127.0.0.1:7\n", 1)
    assert "nowhere.pem" in refusal(FILE)
    assert "cannot connect to 127.0.0.1:6" in refusal(named)
    assert "nowhere.pem" in refusal(named, "--command-config", str(file))
    assert "cannot connect to 127.0.0.1:7" in refusal(elsewhere, "--command-config", str(file))


UNTIL_SPARK = """\
import json, sys
from headrace.cli.main import cli
for command in json.loads(sys.argv[1]):
    try:
        cli(command)
    except SystemExit as end:
        print(end.code, "pyspark" in sys.modules)
"""


def test_a_topic_that_is_not_there_is_said_before_spark_starts(tmp_path: Path) -> None:
    """In a process of its own, where nobody else has imported what starts the JVM."""
    path = tmp_path / "p.sql"
    path.write_text(FILE)
    with Cluster() as cluster:
        at = ["-b", cluster.bootstrap_servers]
        run = ["pipeline", "run", str(path), *at]
        load = ["load", "numbers", str(tmp_path / "table"), "--to", "parquet", *at]
        command = [sys.executable, "-c", UNTIL_SPARK, json.dumps([run, load])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1 False\n1 False\n", done.stderr
    ran, loaded = done.stderr.splitlines()
    assert ran.startswith(f"Error: {path}:1: topic 'numbers': there is no such topic"), ran
    assert loaded.startswith("Error: topic 'numbers': there is no such topic"), loaded
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("command", [["pipeline", "run"], ["load", "t", "p", "--to", "orc"]])
def test_wrong_uses(command: list[str]) -> None:
    assert CliRunner().invoke(cli, command).exit_code == 2


@pytest.mark.slow  # a Spark session of its own; test_pipeline_run stops a query as well
@pytest.mark.timeout(300)
def test_an_interrupt_ends_it_after_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "copy.sql"
    path.write_text(FILE)
    with Cluster() as cluster:
        cluster.create_topic("numbers")
        cluster.create_topic("copies")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(5 * BATCHES):
                producer.send("numbers", json.dumps({"n": number}).encode())
        command = [sys.executable, "-m", "headrace.cli.main", "pipeline", "run", str(path), "--json"]
        # A process group of its own, as a terminal makes one: Ctrl-C goes to everything in it.
        with subprocess.Popen(
            [*command, "-b", cluster.bootstrap_servers],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stdout is not None
            events = []
            for line in running.stdout:
                events.append(json.loads(line))
                if len(events) == 2:
                    os.killpg(running.pid, signal.SIGINT)
            complaint = running.stderr.read() if running.stderr else ""
        assert running.returncode == 0, complaint
    assert events[0] == {"event": "start", "queries": ["copy"]}
    batches = [each for each in events if each["event"] == "batch"]
    stop = events[-1]
    assert (stop["event"], stop["failure"], stop["last_batch"]) == ("stop", None, batches[-1]["batch"])
    assert stop["ends"] == {"numbers": {"0": 5 * len(batches)}}
    assert len(batches) < BATCHES
    assert "stopping when the batch is done" in complaint


def test_files_that_would_share_a_checkpoint(tmp_path: Path) -> None:
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("-- checkpoint: same\n" + FILE)
    done = CliRunner().invoke(cli, ["pipeline", "run", str(tmp_path)])
    assert done.exit_code == 1
    said = f"{tmp_path}/b.sql: {tmp_path}/a.sql has the checkpoint {tmp_path}/same too; give it another"
    assert said in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    done = CliRunner().invoke(cli, ["pipeline", "run", str(empty)])
    assert "there is no file in it that ends with .sql or .py" in done.stderr


def test_a_folder_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(FILE)
    (tmp_path / "b.sql").write_text("-- in copies: feed copies\n-- out: console\nSELECT * FROM copies\n")
    done = CliRunner().invoke(cli, ["pipeline", "graph", str(tmp_path)])
    assert done.stdout.splitlines() == [
        "feed numbers ─► [ a ] ─► feed copies",
        "feed copies ─► [ b ] ─► table console",
    ]
    svg = tmp_path / "all.svg"
    done = CliRunner().invoke(cli, ["pipeline", "graph", str(tmp_path), "--svg", str(svg), "--json"])
    assert json.loads(done.stdout)["edges"][0] == {"from": "feed numbers", "to": "a"}
    assert svg.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "now", "--to", "2026-01-31"], 2, "--from now: a time is"),
        (["--from", "5", "--to", "9999-01-01"], 2, "is to come"),
        (["--from", "5", "--to", "5"], 1, "--from must be before --to"),
        (["--from", "5", "--to", "6", "--into", "other=x"], 1, "has not output 'other'"),
        (["--from", "5", "--to", "6", "--into", "copies"], 1, "where it goes anyway"),
    ],
)
def test_replays_that_are_none(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    path = tmp_path / "p.sql"
    path.write_text(FILE)
    done = CliRunner().invoke(cli, ["pipeline", "replay", str(path), *words])
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_fields_are_proposed() -> None:
    with SchemaRegistry() as registry, Cluster() as cluster:
        brokers = cluster.bootstrap_servers
        for topic in ("orders", "payments", "empty"):
            cluster.create_topic(topic, 2)
        with Producer(bootstrap_servers=brokers) as producer:
            for number in range(20):
                producer.send("orders", json.dumps({"id": number}).encode(), partition=number % 2)
                producer.send("payments", b"\0\0\0\0\1x")
            producer.send("orders", b"{", partition=0)
        done = CliRunner().invoke(cli, ["pipeline", "infer", "orders", "-b", brokers])
        assert done.stdout == (
            "-- in orders: feed orders\n--   json: id LONG\n--   dead letters: orders-dead\n-- out: console\n"
            "-- trigger: available now\n\nSELECT * FROM orders\n"
        )
        assert "21 records: 1 are no JSON objects, 0 are tombstones" in done.stderr
        few = CliRunner().invoke(
            cli, ["pipeline", "infer", "orders", "--records", "4", "--json", "-b", brokers]
        )
        assert json.loads(few.stdout)["records"] == 4
        words = ["pipeline", "infer", "payments", "-b", brokers]
        assert "say with --registry where those are" in CliRunner().invoke(cli, words).stderr
        registry.add("payments-value", '{"type": "object", "properties": {"id": {}}}', "JSON")
        done = CliRunner().invoke(cli, [*words, "--registry", registry.url])
        assert (
            f"-- registry: {registry.url}\n-- in payments: feed payments\n--   json: registry\n"
            in done.stdout
        )
        done = CliRunner().invoke(cli, ["pipeline", "infer", "empty", "-b", brokers])
        assert "empty has no records to look at" in done.stderr
