"""`headrace group` with real groups of both protocols, on a node in this process and on Apache Kafka."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.base.ids import TopicPartition
from headrace.cli import output
from headrace.cli.main import cli
from headrace.clients import Admin, Consumer, OffsetAndMetadata, Producer
from tests.compat import prepare
from tests.compat.brokers import SETTINGS
from tests.compat.stock_kafka import EITHER, running_either

Run = Callable[..., Result]
PROTOCOLS = ["classic", "consumer"]
# The records of a topic of these tests: ten in each partition, one every second of 1970's first ones.
RECORDS = 10


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_either(request.param, tmp_path_factory, SETTINGS) as bootstrap:
        yield bootstrap


@pytest.fixture
def run(bootstrap: str) -> Run:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str, code: int = 0, **options: Any) -> Result:
        result = runner.invoke(cli, ["group", *words], **options)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with records of the times 0 s, 1 s, …"""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=2, configs={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for partition in range(2):
            for second in range(RECORDS):
                sent = producer.send(name, b"x", partition=partition, timestamp_ms=second * 1000)
        producer.flush()
        sent.result(30)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """A group that has read so far and is empty."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        places = {TopicPartition(topic, each): OffsetAndMetadata(to) for each, to in offsets.items()}
        admin.alter_group_offsets(group, places)


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A member that has all partitions and has committed all records."""
    settings: dict[str, Any] = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, client_id="reader", enable_auto_commit=False, **settings
    ) as consumer:
        consumer.subscribe([topic])
        seen = 0
        for _ in range(600):
            seen += len(consumer.poll(0.1))
            if seen == 2 * RECORDS:
                break
        assert seen == 2 * RECORDS
        consumer.commit()
        yield consumer


def committed(run: Run, group: str) -> dict[int, int]:
    (described,) = json.loads(run("describe", group, "--json").stdout)
    return {each["partition"]: each["current"] for each in described["partitions"]}


def changes(run: Run, *words: str) -> list[tuple[int, int | None, int]]:
    shown = json.loads(run("reset-offsets", *words, "--json").stdout)
    return [(each["partition"], each["from"], each["to"]) for each in shown["changes"]]


def test_top_tells_them_of_any_kafka(bootstrap: str, topic: str, group: str) -> None:
    commit(bootstrap, group, topic, {0: 3})
    done = CliRunner().invoke(cli, ["top", "--once", "--interval", "0s", "--json", "-b", bootstrap])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["notes"] == []
    [broker] = told["brokers"]
    assert (broker["state"], broker["busy"]) == ("controller", None)
    assert broker["leaders"] == sum(each["partitions"] for each in told["topics"])
    assert broker["size_bytes"] > 0
    [found] = [each for each in told["topics"] if each["topic"] == topic]
    assert (found["partitions"], found["end_offsets"], found["under_replicated"]) == (2, 2 * RECORDS, 0)
    [own] = [each for each in told["groups"] if each["group"] == group]
    assert (own["type"], own["state"], own["members"], own["lag"]) == ("classic", "Empty", 0, RECORDS - 3)


class TestListAndDescribe:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_a_group_with_a_member(
        self, run: Run, bootstrap: str, topic: str, group: str, protocol: str
    ) -> None:
        with member(bootstrap, group, topic, protocol):
            listed = {each["group"]: each for each in json.loads(run("list", "--json").stdout)}
            assert listed[group] == {
                "group": group,
                "type": protocol,
                "state": "Stable",
                "protocol": "consumer",
                "coordinator": 1,
            }
            (described,) = json.loads(run("describe", group, "--json").stdout)
            assert (described["state"], described["type"]) == ("Stable", protocol)
            first = described["partitions"][0]
            assert (first["current"], first["end"], first["lag"]) == (RECORDS, RECORDS, 0)
            assert (first["host"], first["client_id"]) == ("127.0.0.1", "reader")
            (members,) = json.loads(run("describe", group, "--members", "--json").stdout)
            assert members["members"][0]["member"] == first["member"]
            assert [each["partition"] for each in members["members"][0]["assignment"]] == [0, 1]
            assert f"{topic}:0,1" in run("describe", group, "--members").stdout
            assert "members      1\n" in run("describe", group, "--state").stdout
        assert "has no members" in run("describe", group, "--members").stderr

    def test_filters(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        commit(bootstrap, group, topic, {0: 1})
        assert group in run("list", "--state", "empty", "--type", "Classic").stdout
        assert group not in run("list", "--state", "stable").stdout
        assert group not in run("list", "--type", "consumer").stdout
        assert run("list", "--state", "dead").stderr == "no group is like that\n"
        assert "'nonsense' is not one of" in run("list", "--state", "nonsense", code=2).stderr

    def test_a_group_without_members_shows_its_offsets(
        self, run: Run, bootstrap: str, topic: str, group: str
    ) -> None:
        commit(bootstrap, group, topic, {0: 3})
        lines = run("describe", group).stdout.splitlines()
        assert lines[-2].split()[:5] == ["TOPIC", "PARTITION", "CURRENT", "END", "LAG"]
        assert lines[-1].split() == [topic, "0", "3", "10", "7", "-", "-", "-", "-"]
        every = json.loads(run("describe", "--all-groups", "--json").stdout)
        assert group in [each["group"] for each in every]

    def test_lag_stands_out_on_a_terminal(
        self, run: Run, bootstrap: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit(bootstrap, group, topic, {0: 3, 1: RECORDS})
        monkeypatch.setattr(output, "is_terminal", lambda: True)
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "150")
        monkeypatch.delenv("NO_COLOR", raising=False)
        shown = run("describe", group, color=True).stdout
        assert "\x1b[1;33m" in shown  # the lag of partition 0, bold and yellow
        assert "\x1b[32m" in shown  # and green, where there is none

    def test_wrong_use(self, run: Run, group: str) -> None:
        assert "or give --all-groups" in run("describe", code=2).stderr
        assert "or give --all-groups" in run("describe", group, "--all-groups", code=2).stderr
        assert "one of" in run("describe", group, "--members", "--state", code=2).stderr
        assert "there is no such group; see what there is" in run("describe", group, code=1).stderr


class TestReset:
    @pytest.mark.parametrize(
        ("target", "to"),
        [
            (("--to-earliest",), 0),
            (("--to-latest",), RECORDS),
            (("--to-offset", "0"), 0),
            (("--to-offset", "7"), 7),
            (("--to-datetime", "1970-01-01T00:00:03.500+00:00"), 4),
            (("--to-datetime", "1969-07-20T20:17:40+00:00"), 0),
            (("--by-duration", "P1D"), RECORDS),
            (("--by-duration", "9000w"), 0),
            (("--shift-by", "-2"), 3),
            (("--shift-by", "2"), 7),
            (("--to-current",), 5),
        ],
    )
    def test_where_to(
        self, run: Run, bootstrap: str, topic: str, group: str, target: tuple[str, ...], to: int
    ) -> None:
        commit(bootstrap, group, topic, {0: 5, 1: 5})
        words = ("--group", group, "--topic", f"{topic}:0", *target)
        assert changes(run, *words) == [(0, 5, to)]
        assert committed(run, group) == {0: 5, 1: 5}
        assert changes(run, *words, "--execute") == [(0, 5, to)]
        assert committed(run, group) == {0: to, 1: 5}

    def test_what_is_shown(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        commit(bootstrap, group, topic, {0: 5})
        shown = run("reset-offsets", "-g", group, "-t", topic, "--to-earliest")
        rows = [line.split() for line in shown.stdout.splitlines()]
        assert rows == [["TOPIC", "PARTITION", "FROM", "TO"], [topic, "0", "5", "0"], [topic, "1", "-", "0"]]
        assert shown.stderr == "nothing was changed: --execute does it\n"
        done = run("reset-offsets", "-g", group, "-t", topic, "--to-earliest", "--execute")
        assert done.stderr == f"group {group} has been moved\n"

    def test_out_of_range_is_clipped(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        commit(bootstrap, group, topic, {0: 5})
        ahead = run("reset-offsets", "-g", group, "--all-topics", "--to-offset", "99", "--execute")
        assert f"{topic}-0: 99 is out of range: goes to 10, where it ends\n" in ahead.stderr
        back = run("reset-offsets", "-g", group, "--all-topics", "--shift-by", "-99", "--execute")
        assert f"{topic}-0: -89 is out of range: goes to 0, where it begins\n" in back.stderr
        assert committed(run, group) == {0: 0}

    def test_a_file_there_and_back(
        self, run: Run, bootstrap: str, topic: str, group: str, tmp_path: Path
    ) -> None:
        commit(bootstrap, group, topic, {0: 5, 1: 6})
        exported = run("reset-offsets", "-g", group, "--all-topics", "--to-current", "--export").stdout
        assert exported == f"{topic},0,5\n{topic},1,6\n"
        file = tmp_path / "offsets.csv"
        file.write_text(exported)
        run("reset-offsets", "-g", group, "--all-topics", "--to-latest", "--execute")
        assert committed(run, group) == {0: RECORDS, 1: RECORDS}
        run("reset-offsets", "-g", group, "--from-file", str(file), "--execute")
        assert committed(run, group) == {0: 5, 1: 6}
        run("reset-offsets", "-g", group, "--from-file", "-", "--execute", input=f"{topic},1,2\n")
        assert committed(run, group) == {0: 5, 1: 2}

    def test_only_what_is_committed_can_be_shifted(
        self, run: Run, bootstrap: str, topic: str, group: str
    ) -> None:
        commit(bootstrap, group, topic, {0: 5})
        shown = run("reset-offsets", "-g", group, "-t", topic, "--shift-by", "1")
        assert f"{topic}-1 stays as it is" in shown.stderr
        refused = run("reset-offsets", "-g", group, "-t", f"{topic}:1", "--shift-by", "1", code=1)
        assert "use --to-earliest" in refused.stderr

    def test_a_group_that_is_not_there_is_made(self, run: Run, topic: str, group: str) -> None:
        nothing = run("reset-offsets", "-g", group, "--all-topics", "--to-latest", code=1)
        assert "name the topics to move with --topic" in nothing.stderr
        made = run("reset-offsets", "-g", group, "-t", topic, "--to-offset", "4", "--execute")
        assert f"there is no group {group} yet" in made.stderr
        assert committed(run, group) == {0: 4, 1: 4}

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_members_are_in_the_way(
        self, run: Run, bootstrap: str, topic: str, group: str, protocol: str
    ) -> None:
        with member(bootstrap, group, topic, protocol):
            refused = run("reset-offsets", "-g", group, "-t", topic, "--to-earliest", "--execute", code=1)
            assert "it has members; stop its consumers first" in refused.stderr
            assert "it has members" in run("delete", group, "--yes", code=1).stderr
            told = run("delete-offsets", group, "-t", topic, "--yes", code=1).stderr
            assert f"members of the group read topic {topic} now; stop them first" in told
        run("reset-offsets", "-g", group, "-t", topic, "--to-offset", "8", "--execute")
        assert committed(run, group) == {0: 8, 1: 8}
        with Consumer(bootstrap_servers=bootstrap, group_id=group, group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            offsets = []
            for _ in range(600):
                offsets += [each.offset for each in consumer.poll(0.1)]
                if len(offsets) == 4:
                    break
            assert sorted(offsets) == [8, 8, 9, 9]

    def test_wrong_use(self, run: Run, topic: str, group: str) -> None:
        def told(*words: str, code: int = 2) -> str:
            return run("reset-offsets", "-g", group, *words, code=code).stderr

        assert "exactly one of --to-earliest, --to-latest" in told("-t", topic)
        assert "exactly one of" in told("-t", topic, "--to-earliest", "--to-offset", "0")
        assert "with --topic or with --all-topics" in told("--to-earliest")
        assert "neither TOPIC nor TOPIC:PARTITION" in told("-t", f"{topic}:x", "--to-earliest")
        assert "neither milliseconds nor ISO" in told("-t", topic, "--to-datetime", "noon")
        assert "'--by-duration': 'PT' is no duration" in told("-t", topic, "--by-duration", "PT")
        assert "one of --export and --json" in told("-t", topic, "--to-latest", "--export", "--json")
        assert "has no partition 7: it has 0 to 1" in told("-t", f"{topic}:7", "--to-latest", code=1)
        assert "there is no such topic" in told("-t", "nope", "--to-latest", code=1)


class TestDelete:
    def test_groups(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        commit(bootstrap, group, topic, {0: 5})
        commit(bootstrap, f"{group}-2", topic, {0: 5})
        result = run("delete", group, "nope", f"{group}-2", "--yes", code=1)
        assert result.stdout == f"deleted {group}, {group}-2\n"
        assert result.stderr.startswith("Error: group 'nope': there is no such group")
        assert group not in run("list").stdout

    def test_offsets(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        commit(bootstrap, group, topic, {0: 5, 1: 6})
        run("delete-offsets", group, "--topic", f"{topic}:0", "--yes")
        assert committed(run, group) == {1: 6}
        told = run("delete-offsets", group, "--topic", f"{topic}:0", code=1).stderr
        assert f"has committed nothing of partition 0 of topic '{topic}'" in told
        shown = json.loads(run("delete-offsets", group, "--topic", topic, "--json", "--yes").stdout)
        assert shown == {"group": group, "deleted": [{"topic": topic, "partition": 1}]}
        assert "with --topic" in run("delete-offsets", group, code=2).stderr
        assert "there is no such group" in run("delete-offsets", "nope", "--topic", topic, code=1).stderr


@pytest.mark.java
def test_kafkas_own_command_sees_the_same(run: Run, bootstrap: str, topic: str, group: str) -> None:
    run("reset-offsets", "-g", group, "-t", f"{topic}:0", "--to-offset", "3", "--execute")
    run("reset-offsets", "-g", group, "-t", f"{topic}:1", "--to-latest", "--execute")
    try:
        java = prepare.java_command("-Xmx256M")
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    command = [*java, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    command += ["--bootstrap-server", bootstrap, "--describe", "--group", group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    rows = [line.split()[:6] for line in done.stdout.splitlines() if line.startswith(group)]
    assert sorted(rows) == [[group, topic, "0", "3", "10", "7"], [group, topic, "1", "10", "10", "0"]], done
