"""The commands as processes, against headrace's own node and against Apache Kafka where it is at hand."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker
from tests.compat.clients.face import eventually

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

    def described() -> dict[str, Any]:
        (found,) = json.loads(run("topic", "describe", "life", "--json").output)
        return dict(found)

    # Apache Kafka answers before its broker has heard of the new partitions.
    eventually(lambda: [each["leader"] for each in described()["partitions"]] == [1, 1, 1, 1], "four leaders")
    eventually(lambda: described()["settings"] == {"segment.ms": "50000"}, "the settings")
    run("topic", "delete", "life", "--yes")

    def is_listed() -> bool:
        return "life" in [each["name"] for each in json.loads(run("topic", "list", "--json").output)]

    eventually(lambda: not is_listed(), "the topic to be gone")
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
    run("topic", "create", "times", "--set", "retention.ms=-1")  # or what is so old may leave at any time
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

    def sources() -> dict[str, str]:
        described = json.loads(run("config", "describe", "broker", "1", "--json").output)
        return {each["name"]: each["source"] for each in described}

    # Apache Kafka answers before its broker has heard of the change.
    eventually(lambda: sources().get("log.retention.ms") == "broker", "the setting")
    run("config", "alter", "broker", "1", "--delete", "log.retention.ms")
    assert "node.id" in run("config", "alter", "broker", "1", "--set", "node.id=5", code=1).stderr
    described = json.loads(run("cluster", "describe", "--log-dirs", "--json").output)
    assert [each["node_id"] for each in described["brokers"]] == [1]
    assert described["quorum"]["leader_id"] == 1
    assert described["log_dirs"]


def test_offsets_sizes_and_lag(run: Run) -> None:
    run("topic", "create", "figures", "--partitions", "2")
    run("produce", "figures", "-p", "0", input="a\nb\nc\nd\ne\n")
    assert run("consume", "figures", "-g", "figurers", "--from-beginning", "-n", "2").output == "a\nb\n"
    (described,) = json.loads(run("topic", "describe", "figures", "--json").output)
    first, second = described["partitions"]
    assert (first["start"], first["end"], second["end"]) == (0, 5, 0)
    assert first["size_bytes"] > 0
    (group,) = described["groups"]
    # What was printed is committed, and no more: three are left.
    assert (group["group"], group["lag"]) == ("figurers", 3)
    assert run("consume", "figures", "-g", "figurers", "-n", "1").output == "c\n"
    assert "figurers" in run("topic", "describe", "figures").stdout
    assert json.loads(run("topic", "describe", "figures", "--no-groups", "--json").output)[0]["groups"] == []
    shown = json.loads(run("topic", "offsets", "figures", "--at", "0", "--json").output)
    assert [(each["start"], each["end"], each["at"]) for each in shown] == [(0, 5, 0), (0, 0, None)]
    told = run("topic", "trim", "figures:0", "--to-offset", "3", code=2).stderr
    assert "Delete up to 3 records of figures-0: there is nobody to ask" in told
    run("topic", "trim", "figures:0", "--to-offset", "3", "--yes")
    assert run("consume", "figures", "--from-beginning").output == "d\ne\n"
    gone = run("consume", "figures", "-p", "0", "--offset", "1")
    assert "figures-0: offset 1 is gone: begins at 3, where it begins" in gone.stderr
    trimmed = run("topic", "trim", "figures", "--to-offset", "99", "--yes", "--json")
    assert "figures-0: 99 is beyond its end: is cut at 5, where it ends" in trimmed.stderr
    assert [each["to"] for each in json.loads(trimmed.stdout)] == [5, 0]
    assert "nothing was deleted" in run("topic", "trim", "figures", "--to-latest", "--yes").stderr
    beyond = run("consume", "figures", "--offset", "77")
    assert "figures-1: offset 77 is beyond its end: begins at 0, where it ends" in beyond.stderr
    run("topic", "delete", "figures", "--yes")


def test_several_topics_patterns_and_formats(run: Run) -> None:
    for name in ("several-a", "several-b"):
        run("topic", "create", name)
        run("produce", name, "-k", ":", input=f"k:{name}\n")
    both = ["several-a", "several-b"]
    template = ("-f", r"%t[%p]@%o %k=%s\n", "--from-beginning")
    lines = [f"{name}[0]@0 k={name}" for name in both]
    assert sorted(run("consume", *both, *template).output.splitlines()) == lines
    assert sorted(run("consume", "--pattern", "several-.", *template).output.splitlines()) == lines
    words = ("consume", "--pattern", "several-.", "--group", "several", "-n", "2", *template)
    assert sorted(run(*words).output.splitlines()) == lines
    assert "no topic's name matches" in run("consume", "--pattern", "nosuch", *template, code=1).stderr
    assert "there is no such topic" in run("consume", "nosuch", "-g", "several", code=1).stderr
    assert "leave out --partition" in run("consume", "x", "-g", "g", "-p", "0", code=2).stderr


def test_what_is_not_there_is_not_changed(run: Run) -> None:
    run("topic", "create", "guarded")
    words = ("alter", "guarded", "--delete", "retention.m")
    assert (
        "retention.m is no setting of a topic; did you mean retention.ms?"
        in run("topic", *words, code=1).stderr
    )
    assert "is no setting of a broker" in run("config", "alter", "broker", "--delete", "x", code=1).stderr
    assert "no coordinator knows nosuch" in run("txn", "abort", "nosuch", code=1).stderr
    error = json.loads(run("topic", "describe", "nosuch", "--json", code=1).stderr)["error"]
    assert error["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "every one of these partitions" in run("elect", "guarded").stderr
    assert json.loads(run("elect", "guarded", "--json").output)[0]["leader"] == 1
    run("elect", "--all")


def test_how_fast_it_is(run: Run) -> None:
    run("topic", "create", "speed")
    wrote = json.loads(run("perf", "produce", "speed", "-n", "500", "--size", "10", "--json").output)
    assert (wrote["records"], wrote["bytes"]) == (500, 5000)
    figures = wrote["latency_ms"]
    assert list(figures) == ["mean", "p50", "p95", "p99", "p99.9", "max"]
    assert 0 < figures["p50"] <= figures["p99"] <= figures["max"]
    read = json.loads(run("perf", "consume", "speed", "--json").output)
    assert (read["records"], read["bytes"]) == (500, 5000)
    assert "records/s" in run("perf", "consume", "speed", "-n", "10").output
    run("topic", "create", "silent")
    assert "has no records" in run("perf", "consume", "silent", code=1).stderr
    assert "there is no such topic" in run("perf", "produce", "nosuch", "-n", "1", code=1).stderr


def _size(run: Run, topic: str) -> int:
    return sum(each["end"] for each in json.loads(run("topic", "offsets", topic, "--json").output))


def test_what_was_done_until_ctrl_c_is_told(run: Run, broker: Broker) -> None:
    run("topic", "create", "cut-short")
    command = [HEADRACE, "perf", "produce", "cut-short", "-n", "100000000", "--size", "10", "--json"]
    environment = {**os.environ, "HEADRACE_BOOTSTRAP_SERVER": broker.bootstrap}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as measuring:
        eventually(lambda: _size(run, "cut-short") > 0, "records of the measurement")
        measuring.send_signal(signal.SIGINT)
        told = json.loads(measuring.communicate(timeout=60)[0])
        assert measuring.returncode == 130
    # The record that was being sent may be written and not measured.
    assert 0 <= _size(run, "cut-short") - told["records"] <= 1
    command = [HEADRACE, "produce", "cut-short"]
    before = _size(run, "cut-short")
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as typing:
        assert typing.stdin is not None
        typing.stdin.write("hello\n")
        typing.stdin.flush()
        eventually(lambda: _size(run, "cut-short") > before, "the line that was typed")
        typing.send_signal(signal.SIGINT)
        assert typing.communicate(timeout=60)[1] == "wrote 1 record before that\n"
        assert typing.returncode == 130


def test_a_shell_completes_names(run: Run, broker: Broker) -> None:
    run("topic", "create", "complete-me")
    assert "_HEADRACE_COMPLETE=bash_complete" in run("completion", "bash").output
    assert "#compdef headrace" in run("completion", "zsh").output
    fish = run("completion", "fish").output
    assert "--command headrace" in fish
    assert json.loads(run("completion", "fish", "--json").output) == {"shell": "fish", "script": fish[:-1]}
    for words, expected in {
        "headrace topic describe comp": "plain,complete-me",
        f"headrace consume -b {broker.bootstrap} complete": "plain,complete-me",
        "headrace topic des": "plain,describe",
        "headrace elec": "plain,elect",
    }.items():
        environment = {
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_HEADRACE_COMPLETE": "bash_complete",
            "HEADRACE_BOOTSTRAP_SERVER": broker.bootstrap,
        }
        done = subprocess.run(
            [HEADRACE], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == expected, done.stderr


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
    _, said = node.communicate(timeout=90)
    assert node.returncode == 0
    lines = said.splitlines()
    assert not [line for line in lines if " INFO " not in line]
    assert "starts as node 1" in lines[0]
    assert "the logs are closed" in lines[-1]


def test_a_nodes_address_its_log_and_its_failure_as_json(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    node = start(tmp_path / "data", "--json", "--log-format", "json", "--log-file", str(log))
    assert node.stdout is not None
    (address,) = json.loads(node.stdout.readline())["ready"]
    again = start(tmp_path / "other", "--json", "--port", address.rpartition(":")[2])
    error = json.loads(again.communicate(timeout=90)[1].splitlines()[-1])["error"]
    assert again.returncode == 1
    assert f"{address}: Address already in use" in error["message"]
    node.terminate()
    _, said = node.communicate(timeout=90)
    assert (node.returncode, said) == (0, "")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {each["level"] for each in lines} == {"INFO"}
    assert "starts as node 1" in lines[0]["message"]
    assert "the logs are closed" in lines[-1]["message"]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = [HEADRACE, "start", "--port", str(other.getsockname()[1]), "--data", str(tmp_path)]
        node = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert node.returncode == 1
    assert "choose another port with --port" in node.stderr
    assert "Traceback" not in node.stderr


def test_ctrl_c_ends_a_consumer_without_a_word(broker: Broker, run: Run) -> None:
    run("topic", "create", "followed")
    run("produce", "followed", input="x\n")
    follow = [HEADRACE, "consume", "followed", "-b", broker.bootstrap, "--from-beginning", "--follow"]
    consumer = subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == "x\n"
    consumer.send_signal(signal.SIGINT)
    rest, said = consumer.communicate(timeout=90)
    assert (consumer.returncode, rest, said) == (130, "", "")


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

    def settings() -> dict[str, str]:
        (topic,) = json.loads(run("topic", "describe", "moved", "--json").output)
        return dict(topic["settings"])

    throttled = "leader.replication.throttled.replicas"
    eventually(lambda: settings().get(throttled) == "0:1,1:1", "the throttle")
    states = json.loads(run("reassign", "verify", str(plan), "--json").output)
    assert states == {"moved-0": "done", "moved-1": "done"}
    eventually(lambda: settings() == {}, "the end of the throttle")
    assert json.loads(run("reassign", "list", "--json").output) == {}
    assert "cancelled 0" in run("reassign", "cancel", str(plan)).stdout
    assert json.loads(run("topic", "describe", "--under-replicated", "--json").output) == []
    assert json.loads(run("topic", "describe", "--unavailable", "--json").output) == []
    run("topic", "delete", "moved", "--yes")
