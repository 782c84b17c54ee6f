"""The commands as processes, against headrace's own node and against Apache Kafka where it is at hand."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker

HEADRACE = str(Path(sys.executable).with_name("headrace"))
Run = Callable[..., Result]


@pytest.fixture(scope="module", params=["headrace", pytest.param("kafka", marks=pytest.mark.java)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker") / "data"
    kind = {"headrace": HeadraceBroker, "kafka": ApacheKafkaBroker}[request.param]
    started = kind(folder)
    try:
        started.start()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    yield started
    started.stop()


@pytest.fixture
def run(broker: Broker) -> Run:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": broker.bootstrap})

    def call(*words: str, code: int = 0, **options: object) -> Result:
        result = runner.invoke(cli, words, **options)  # type: ignore[arg-type]
        assert result.exit_code == code, result.output
        return result

    return call


def test_a_topics_life(run: Run) -> None:
    run("topic", "create", "life", "--partitions", "2", "--set", "retention.ms=100000")
    assert "already exists" in run("topic", "create", "life", code=1).stderr
    assert "life" in [each["name"] for each in json.loads(run("topic", "list", "--json").output)]
    run(
        "topic", "alter", "life", "--partitions", "4", "--set", "segment.ms=50000", "--delete", "retention.ms"
    )
    (described,) = json.loads(run("topic", "describe", "life", "--json").output)
    assert [each["leader"] for each in described["partitions"]] == [1, 1, 1, 1]
    assert described["settings"] == {"segment.ms": "50000"}
    run("topic", "delete", "life")
    assert "there is no such topic" in run("topic", "describe", "life", code=1).stderr


def test_records_there_and_back(run: Run) -> None:
    run("topic", "create", "records", "--partitions", "3")
    lines = "".join(f"key-{number}:value-{number}\n" for number in range(1000))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        wrote = run(
            "produce",
            "records",
            "-k",
            ":",
            "--compression",
            codec,
            "-H",
            f"codec={codec}",
            "--json",
            input=lines,
        )
        assert json.loads(wrote.output)["records"] == 1000
    read = run("consume", "records", "--from-beginning", "--json").output.splitlines()
    records = [json.loads(line) for line in read]
    assert len(records) == 5000
    homes: dict[str, set[int]] = {}
    for record in records:
        homes.setdefault(record["key"], set()).add(record["partition"])
    assert all(len(partitions) == 1 for partitions in homes.values())
    for partition in range(3):
        own = [each for each in records if each["partition"] == partition]
        assert [each["offset"] for each in own] == list(range(len(own)))
    assert run("consume", "records", "-p", "0", "--offset", "-2", "--format", "key").output.count("key-") == 2
    assert run("consume", "records", "--from-beginning", "-n", "7").output.count("\n") == 7
    assert run("consume", "records", "--timeout-ms", "100").output == ""


def test_a_time_to_begin_at(run: Run) -> None:
    run("topic", "create", "times")
    stamped = "".join(
        json.dumps({"value": f"{time}", "timestamp": time}) + "\n" for time in (1000, 2000, 3000)
    )
    run("produce", "times", "--format", "json", input=stamped)
    assert run("consume", "times", "--timestamp", "1500").output == "2000\n3000\n"
    assert run("consume", "times", "--timestamp", "3001").output == ""


def test_settings_and_the_cluster(run: Run) -> None:
    shown = json.loads(run("config", "describe", "broker", "1", "--all", "--docs", "--json").output)
    settings = {each["name"]: each for each in shown}
    assert settings["node.id"]["value"] == "1"
    assert settings["num.io.threads"]["doc"]
    run("config", "alter", "broker", "1", "--set", "log.retention.ms=123456789")
    altered = {
        each["name"]: each for each in json.loads(run("config", "describe", "broker", "1", "--json").output)
    }
    assert altered["log.retention.ms"]["source"] == "broker"
    run("config", "alter", "broker", "1", "--delete", "log.retention.ms")
    assert "node.id" in run("config", "alter", "broker", "1", "--set", "node.id=5", code=1).stderr
    described = json.loads(run("cluster", "describe", "--log-dirs", "--json").output)
    assert [each["node_id"] for each in described["brokers"]] == [1]
    assert described["quorum"]["leader_id"] == 1
    assert described["log_dirs"]


def test_files_of_a_log(broker: Broker, run: Run) -> None:
    run("topic", "create", "files")
    run("produce", "files", "-k", ":", input="a:1\nb:2\n")
    log = broker.partition_folder("files", 0) / f"{0:020}.log"
    assert "offsets 0–1  records 2" in run("log", "dump", "--records", str(log)).output
    (batch,) = (json.loads(line) for line in run("log", "dump", "-r", "--json", str(log)).output.splitlines())
    assert [each["record"]["key"] for each in batch["records"]] == ["a", "b"]
    assert broker.data is not None
    metadata = broker.data / "__cluster_metadata-0" / f"{0:020}.log"
    assert "TopicRecord(name=files, " in run("log", "dump", "--decode", "metadata", str(metadata)).output
    damaged = broker.data.parent / f"{0:020}.log"
    damaged.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert "PROBLEM" in run("log", "dump", str(damaged), code=1).output


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    command = [HEADRACE, "start", "--port", "0", "--data", str(folder), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_says_when_it_is_ready_and_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    node = start(tmp_path)
    assert node.stdout is not None
    assert re.fullmatch(r"headrace ready: 127\.0\.0\.1:\d+\n", node.stdout.readline())
    node.send_signal(number)
    _, said = node.communicate(timeout=30)
    assert (node.returncode, said) == (0, "")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    node = start(tmp_path / "a")
    assert node.stdout is not None
    port = node.stdout.readline().rpartition(":")[2].strip()
    try:
        command = [HEADRACE, "start", "--port", port, "--data", str(tmp_path / "b")]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        node.terminate()
        node.communicate(timeout=30)
    assert second.returncode == 1
    assert "choose another port with --port" in second.stderr
    assert "Traceback" not in second.stderr


def test_ctrl_c_ends_a_consumer_without_a_word(tmp_path: Path) -> None:
    node = start(tmp_path)
    assert node.stdout is not None
    address = node.stdout.readline().partition(": ")[2].strip()
    try:
        subprocess.run([HEADRACE, "topic", "create", "t", "-b", address], check=True, capture_output=True)
        subprocess.run(
            [HEADRACE, "produce", "t", "-b", address], check=True, capture_output=True, input=b"x\n"
        )
        follow = [HEADRACE, "consume", "t", "-b", address, "--from-beginning", "--follow"]
        consumer = subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "x\n"
        consumer.send_signal(signal.SIGINT)
        rest, said = consumer.communicate(timeout=30)
        assert (consumer.returncode, rest, said) == (130, "", "")
    finally:
        node.terminate()
        node.communicate(timeout=30)


def test_a_reassignment_of_one_broker(run: Run, tmp_path: Path) -> None:
    """There is nowhere to go with one broker, but every step can be taken."""
    run("topic", "create", "moved", "--partitions", "2")
    plan = tmp_path / "plan.json"
    generated = run("reassign", "generate", "--topic", "moved", "--brokers", "1")
    plan.write_text(generated.stdout)
    assert json.loads(generated.stdout)["partitions"][0]["replicas"] == [1]
    assert (
        "there are no brokers [7]"
        in run("reassign", "generate", "--topic", "moved", "--brokers", "7", code=1).stderr
    )
    assert "started 2 of 2" in run("reassign", "execute", str(plan), "--throttle", "1000000").stdout
    (topic,) = json.loads(run("topic", "describe", "moved", "--json").output)
    assert topic["settings"]["leader.replication.throttled.replicas"] == "0:1,1:1"
    states = json.loads(run("reassign", "verify", str(plan), "--json").output)
    assert states == {"moved-0": "done", "moved-1": "done"}
    (topic,) = json.loads(run("topic", "describe", "moved", "--json").output)
    assert topic["settings"] == {}
    assert json.loads(run("reassign", "list", "--json").output) == {}
    assert "cancelled 0" in run("reassign", "cancel", str(plan)).stdout
    assert json.loads(run("topic", "describe", "--under-replicated", "--json").output) == []
    assert json.loads(run("topic", "describe", "--unavailable", "--json").output) == []
    run("topic", "delete", "moved")
