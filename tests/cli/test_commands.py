"""The commands against a scripted cluster: what they ask, what they print, and how they fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from headrace.cli import output
from headrace.cli.main import COMMANDS, cli
from headrace.clients import Admin
from headrace.wire.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.schemas.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from headrace.wire.schemas.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from headrace.wire.schemas.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.wire.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from headrace.wire.schemas.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.schemas.list_groups import ListedGroup, ListGroupsResponse
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.clients.scripted import Log, ScriptedCluster, Written

Run = Callable[..., Result]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    with ScriptedCluster() as cluster:
        monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", cluster.address)
        yield cluster


@pytest.fixture
def run(scripted: ScriptedCluster) -> Run:
    runner = CliRunner()
    return lambda *words, **options: runner.invoke(cli, words, **options)


def offsets(scripted: ScriptedCluster, beginning: int, end: int) -> None:
    def handle(request: Any, node: int) -> ListOffsetsResponse:
        results = [
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                offset={-2: beginning, -1: end}.get(each.timestamp, end - 1),
            )
            for each in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=results)])

    scripted.handlers["ListOffsets"] = handle


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(run: Run, command: str) -> None:
    shown = run(command, "--help").output
    assert f"headrace {command}" in shown.partition("Examples:")[2]
    assert "Usage:" in shown


def _leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _leaves(child, (*words, name))
    else:
        yield words


@pytest.mark.parametrize("words", list(_leaves(cli)), ids=" ".join)
def test_every_command_has_examples_and_json(run: Run, words: tuple[str, ...]) -> None:
    shown = run(*words, "--help").output
    assert f"headrace {' '.join(words)}" in shown.partition("Examples:")[2]
    assert "--json" in shown


def test_a_long_name_takes_the_room_of_what_matters_less(
    run: Run, scripted: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group of 51 letters made blocks of lines of all groups, at 80 columns."""
    name = "a-group-with-a-rather-long-name-of-the-billing-team"
    listed = ListedGroup(name, "consumer", "Stable", "classic")
    scripted.handlers["ListGroups"] = lambda request, node: ListGroupsResponse(groups=[listed])
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    result = run("group", "list")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["GROUP", "TYPE", "STATE"],
        [name, "classic", "Stable"],
    ]
    assert "left out for want of room: PROTOCOL, COORDINATOR;" in result.stderr


def test_a_command_that_is_not_there(run: Run) -> None:
    result = run("topics")
    assert result.exit_code == 2
    assert "No such command 'topics'. Did you mean 'topic'?" in result.output
    assert "Did you mean 'list'?" in run("topic", "ls").output
    assert "There are alter, create" in run("topic", "xyzzy").output


class TestTopic:
    def test_create(self, run: Run, scripted: ScriptedCluster) -> None:
        made = CreatableTopicResult(name="t", num_partitions=2, replication_factor=1)
        scripted.handlers["CreateTopics"] = lambda request, node: CreateTopicsResponse(topics=[made])
        result = run("topic", "create", "t", "--partitions", "2", "--set", "retention.ms=5")
        assert result.output == "created topic t: 2 partitions, 1 replica each\n"
        (asked,) = scripted.asked("CreateTopics")[0].topics
        assert (asked.num_partitions, asked.replication_factor) == (2, -1)
        assert [(each.name, each.value) for each in asked.configs] == [("retention.ms", "5")]
        assert json.loads(run("topic", "create", "t", "--json").output)["created"] is True

    def test_create_what_is_there(self, run: Run, scripted: ScriptedCluster) -> None:
        there = CreatableTopicResult(name="t", error_code=36, error_message="Topic 't' already exists.")
        scripted.handlers["CreateTopics"] = lambda request, node: CreateTopicsResponse(topics=[there])
        result = run("topic", "create", "t")
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: cannot create topic 't': Topic 't' already exists; ")
        assert run("topic", "create", "t", "--if-not-exists").exit_code == 0

    def test_create_with_a_pair_that_is_none(self, run: Run) -> None:
        result = run("topic", "create", "t", "--set", "retention.ms")
        assert result.exit_code == 2
        assert "'--set': 'retention.ms' is not NAME=VALUE" in result.stderr

    def test_list(self, run: Run, scripted: ScriptedCluster) -> None:
        scripted.leaders = {("a", 0): 1, ("a", 1): 1, ("longer-name", 0): 1}
        lines = run("topic", "list").output.splitlines()
        assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "ID"]
        assert lines[1].startswith("a                     2         1  ")
        assert [each["name"] for each in json.loads(run("topic", "list", "--json").output)] == [
            "a",
            "longer-name",
        ]

    def test_an_empty_list_says_what_to_do(self, run: Run, scripted: ScriptedCluster) -> None:
        scripted.leaders = {}
        result = run("topic", "list")
        assert result.stdout == ""
        assert "headrace topic create" in result.stderr
        assert json.loads(run("topic", "list", "--json").stdout) == []

    def test_describe(self, run: Run, scripted: ScriptedCluster) -> None:
        own = DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1)
        other = DescribeConfigsResourceResult(name="segment.ms", value="7", config_source=5)
        found = DescribeConfigsResult(configs=[own, other], resource_type=2, resource_name="t")
        scripted.handlers["DescribeConfigs"] = lambda request, node: DescribeConfigsResponse(results=[found])
        offsets(scripted, 3, 10)
        sizes = DescribeLogDirsTopic("t", [DescribeLogDirsPartition(0, 2048)])
        folder = DescribeLogDirsResult(log_dir="/data", topics=[sizes])
        scripted.handlers["DescribeLogDirs"] = lambda request, node: DescribeLogDirsResponse(results=[folder])
        scripted.handlers["ListGroups"] = lambda request, node: ListGroupsResponse(
            groups=[ListedGroup(f"g-{number}") for number in range(101)]
        )
        result = run("topic", "describe", "t")
        assert "the lag of 101 groups is not shown: --groups asks them all" in result.stderr
        shown = result.stdout
        assert "settings  retention.ms=5\n" in shown
        assert shown.splitlines()[-1].split() == ["0", "1", "0", "1", "1", "3", "10", "2.0", "KiB"]
        (described,) = json.loads(run("topic", "describe", "t", "--json").stdout)
        assert described["partitions"][0]["leader"] == 1
        assert (described["partitions"][0]["start"], described["partitions"][0]["end"]) == (3, 10)
        assert described["settings"] == {"retention.ms": "5"}

    def test_describe_what_is_not_there(self, run: Run) -> None:
        result = run("topic", "describe", "nope")
        assert result.exit_code == 1
        assert "topic 'nope': there is no such topic" in result.stderr

    def test_alter(self, run: Run, scripted: ScriptedCluster) -> None:
        done = AlterConfigsResourceResponse(resource_type=2, resource_name="t")
        scripted.handlers["IncrementalAlterConfigs"] = lambda request, node: IncrementalAlterConfigsResponse(
            responses=[done]
        )
        known = DescribeConfigsResult(configs=[DescribeConfigsResourceResult(name="b", value="1")])
        scripted.handlers["DescribeConfigs"] = lambda request, node: DescribeConfigsResponse(results=[known])
        assert run("topic", "alter", "t", "--set", "a=1", "--delete", "b").output == "altered topic t\n"
        (resource,) = scripted.asked("IncrementalAlterConfigs")[0].resources
        assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
            ("a", 0, "1"),
            ("b", 1, None),
        ]
        assert run("topic", "alter", "t").exit_code == 2

    def test_delete(self, run: Run, scripted: ScriptedCluster) -> None:
        def handle(request: Any, node: int) -> DeleteTopicsResponse:
            names = [each.name for each in request.topics]
            return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name) for name in names])

        scripted.handlers["DeleteTopics"] = handle
        assert run("topic", "delete", "a", "b", "--yes").output == "deleted a, b\n"
        assert json.loads(run("topic", "delete", "a", "--yes", "--json").output) == {"deleted": ["a"]}


class TestBeforeSpark:
    """A topic that is missing was found out after half a minute, by a query that failed."""

    @pytest.fixture(autouse=True)
    def no_spark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("load", "pipeline"):
            monkeypatch.setattr(f"headrace.cli.{module}.opened_session", None)

    def test_load(self, run: Run, tmp_path: Path) -> None:
        result = run("load", "nope", str(tmp_path), "--to", "parquet")
        assert result.exit_code == 1
        assert "topic 'nope': there is no such topic" in result.stderr

    def test_pipeline(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "p.sql"
        file.write_text("-- in logs: feed nope\n-- out: console\nSELECT * FROM logs\n")
        result = run("pipeline", "run", str(file))
        assert result.exit_code == 1
        assert f"{file}:1: topic 'nope': there is no such topic" in result.stderr


class TestConfig:
    def describe(self, scripted: ScriptedCluster, *configs: DescribeConfigsResourceResult) -> None:
        found = DescribeConfigsResult(configs=list(configs))
        scripted.handlers["DescribeConfigs"] = lambda request, node: DescribeConfigsResponse(results=[found])

    def test_only_what_differs_unless_asked(self, run: Run, scripted: ScriptedCluster) -> None:
        self.describe(
            scripted,
            DescribeConfigsResourceResult(name="b", value="2", config_source=5),
            DescribeConfigsResourceResult(name="a", value=None, config_source=4, is_sensitive=True),
        )
        shown = run("config", "describe", "broker", "1").output
        assert shown.splitlines() == ["SETTING  VALUE     FROM", "a        (hidden)  file"]
        assert [
            each["name"]
            for each in json.loads(run("config", "describe", "broker", "1", "--all", "--json").output)
        ] == [
            "a",
            "b",
        ]

    def test_a_broker_that_is_not_there(self, run: Run) -> None:
        assert (
            "there is no broker 7 in the cluster now; there are: 1"
            in run("config", "describe", "broker", "7").stderr
        )
        assert "a broker is named by its number" in run("config", "describe", "broker", "x").stderr

    def test_a_topic_needs_its_name(self, run: Run) -> None:
        assert run("config", "describe", "topic").exit_code == 2

    def test_what_the_cluster_refuses(self, run: Run, scripted: ScriptedCluster) -> None:
        wrong = AlterConfigsResourceResponse(
            error_code=40, error_message="retention.ms: 'x' is not a whole number"
        )
        scripted.handlers["IncrementalAlterConfigs"] = lambda request, node: IncrementalAlterConfigsResponse(
            responses=[wrong]
        )
        result = run("config", "alter", "topic", "t", "--set", "retention.ms=x")
        assert result.exit_code == 1
        assert (
            "Error: cannot change the settings of topic t: retention.ms: 'x' is not a whole number"
            in result.stderr
        )


class TestProduce:
    def test_lines_become_records(self, run: Run, scripted: ScriptedCluster) -> None:
        written = Written(scripted)
        result = run("produce", "t", "--key-separator", r"\t", "--header", "a=b", input=b"k\t1\r\nk\t2")
        assert result.exit_code == 0
        assert result.stdout == ""
        assert result.stderr == "wrote 2 records to t\n"
        assert written.values(0) == [b"1", b"2"]

    def test_from_a_file_with_a_summary(self, run: Run, scripted: ScriptedCluster, tmp_path: Path) -> None:
        written = Written(scripted)
        source = tmp_path / "lines"
        source.write_bytes(b"one\n\ntwo\n")
        summary = json.loads(run("produce", "t", "--file", str(source), "--json").output)
        assert summary == {
            "topic": "t",
            "records": 3,
            "partitions": [{"partition": 0, "records": 3, "last_offset": 102}],
        }
        assert written.values(0) == [b"one", b"", b"two"]

    def test_a_bad_line_is_named_and_what_came_before_is_written(
        self, run: Run, scripted: ScriptedCluster
    ) -> None:
        written = Written(scripted)
        result = run("produce", "t", "--format", "json", input=b'{"value": "x"}\n{"v": 1}\n{"value": "y"}\n')
        assert result.exit_code == 1
        assert "line 2 is not a record in JSON" in result.stderr
        assert written.values(0) == [b"x"]

    def test_a_topic_that_is_not_there(self, run: Run) -> None:
        result = run("produce", "nope", input=b"x\n")
        assert result.exit_code == 1
        assert "there is no such topic" in result.stderr


class TestConsume:
    def test_all_there_is(self, run: Run, scripted: ScriptedCluster) -> None:
        log = Log(scripted)
        log.add(0, b"a", b"b")
        log.add(2, b"c")
        offsets(scripted, 0, 3)
        assert run("consume", "t", "--from-beginning").stdout_bytes == b"a\nb\nc\n"
        assert run("consume", "t", "--offset", "1", "--format", "key", "-k", "|").stdout_bytes == b"|b\n|c\n"
        assert run("consume", "t", "--offset", "-1").stdout_bytes == b"c\n"
        assert run("consume", "t", "--timestamp", "2026-01-31").stdout_bytes == b"c\n"

    def test_what_comes_later_is_not_all_there_is(self, run: Run, scripted: ScriptedCluster) -> None:
        Log(scripted).add(0, b"a", b"b", b"c")
        offsets(scripted, 0, 2)
        assert run("consume", "t", "--from-beginning").stdout_bytes == b"a\nb\n"

    def test_stops_after_so_many_or_so_long(self, run: Run, scripted: ScriptedCluster) -> None:
        Log(scripted).add(0, b"a", b"b", b"c")
        offsets(scripted, 0, 3)
        assert run("consume", "t", "--from-beginning", "-n", "2").stdout_bytes == b"a\nb\n"
        assert run("consume", "t", "--timeout-ms", "200").stdout_bytes == b""

    def test_json_lines(self, run: Run, scripted: ScriptedCluster) -> None:
        Log(scripted).add(0, b"a", b"\xff")
        offsets(scripted, 0, 2)
        lines = [
            json.loads(line) for line in run("consume", "t", "--from-beginning", "--json").output.splitlines()
        ]
        assert lines[0] == {
            "topic": "t",
            "partition": 0,
            "offset": 0,
            "timestamp": 5,
            "key": None,
            "value": "a",
            "headers": [],
        }
        assert lines[1]["value"] == {"base64": "/w=="}

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (("--from-beginning", "--offset", "3"), 2),
            (("--timestamp", "yesterday"), 2),
            (("--partition", "9"), 1),
        ],
    )
    def test_wrong_use(self, run: Run, words: tuple[str, ...], code: int) -> None:
        assert run("consume", "t", *words).exit_code == code


def test_an_id_that_is_none_is_a_wrong_use(run: Run) -> None:
    refused = run("quorum", "remove", "3", "--directory-id", "abc")
    assert refused.exit_code == 2
    assert "'--directory-id': 'abc' is not a UUID" in refused.output


def test_an_index_that_is_not_there_is_explained(run: Run, tmp_path: Path) -> None:
    index = tmp_path / f"{0:020}.index"
    assert "No such file" in run("log", "dump", str(index)).output
    index.with_suffix(".log").touch()
    missing = run("log", "dump", str(index))
    assert (missing.exit_code, "has no index file" in missing.output) == (1, True)


def test_cluster_describe(run: Run, scripted: ScriptedCluster) -> None:
    broker = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=9092)
    scripted.handlers["DescribeCluster"] = lambda request, node: DescribeClusterResponse(
        cluster_id="abc", controller_id=1, brokers=[broker]
    )
    voter = ReplicaState(replica_id=1, log_end_offset=9)
    partition = ResponsePartitionData(leader_id=1, leader_epoch=3, high_watermark=10, current_voters=[voter])
    topic = ResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    scripted.handlers["DescribeQuorum"] = lambda request, node: DescribeQuorumResponse(topics=[topic])
    shown = run("cluster", "describe").output
    assert "quorum      leader 1, epoch 3, offset 10\n" in shown
    assert "     1  127.0.0.1:9092        up\n" in shown
    assert "   1  voter                 9    1\n" in shown
    assert json.loads(run("cluster", "describe", "--json").output)["quorum"]["leader_epoch"] == 3


def test_no_broker_there(run: Run, scripted: ScriptedCluster) -> None:
    scripted.kill(1)
    result = run("topic", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: cannot connect to {scripted.address} (Connection refused)")
    assert "Traceback" not in result.output


def test_a_bug_is_told_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(admin: Admin) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(Admin, "list_topics", broken)
    result = run("topic", "list")
    assert result.exit_code == 1
    assert "this should not have happened: RuntimeError: boom" in result.stderr
