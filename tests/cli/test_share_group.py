"""`headrace share-group` and `headrace consume --share` with real share groups, on a node in this process."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from headrace.base.ids import TopicPartition
from headrace.cli import output
from headrace.cli.main import cli
from headrace.clients import Admin, OffsetAndMetadata, Producer, ShareConsumer
from headrace.testing import Cluster
from tests.clients.test_share_consumer import SETTINGS, group_with, take

Run = Callable[..., Result]
# The records of a topic of these tests: ten in each partition, one every second of 1970's first ones.
RECORDS = 10


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run(bootstrap: str) -> Run:
    runner = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": bootstrap})

    def call(*words: str, code: int = 0, **options: Any) -> Result:
        result = runner.invoke(cli, words, **options)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with records of the times 0 s, 1 s, …"""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=2, configs={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(2):
            for second in range(RECORDS):
                producer.send(name, b"%d" % second, partition=partition, timestamp_ms=second * 1000)
    return name


@pytest.fixture
def group(bootstrap: str) -> str:
    return group_with(bootstrap, {"share.auto.offset.reset": "earliest"})


def stands(bootstrap: str, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_share_group_offsets(group)
    return {each.partition: place.start_offset for each, place in found.items()}


def lay_out(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """A group without members that stands there."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_share_group_offsets(
            group, {TopicPartition(topic, each): to for each, to in offsets.items()}
        )


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    """A member that has accepted all records."""
    with ShareConsumer(bootstrap_servers=bootstrap, group_id=group, client_id="worker") as consumer:
        consumer.subscribe([topic])
        take(consumer, 2 * RECORDS)
        consumer.commit()
        yield consumer


def changes(run: Run, *words: str) -> list[tuple[int, int | None, int]]:
    shown = json.loads(run("share-group", "reset-offsets", *words, "--json").stdout)
    return [(each["partition"], each["from"], each["to"]) for each in shown["changes"]]


class TestListAndDescribe:
    def test_a_group_with_a_member(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        with member(bootstrap, group, topic):
            listed = {each["group"]: each for each in json.loads(run("share-group", "list", "--json").stdout)}
            assert listed[group] == {"group": group, "state": "Stable", "coordinator": 1}
            (described,) = json.loads(run("share-group", "describe", group, "--json").stdout)
            assert (described["state"], described["assignor"]) == ("Stable", "simple")
            assert described["partitions"] == [
                {"topic": topic, "partition": each, "start": RECORDS, "end": RECORDS, "lag": 0, "members": 1}
                for each in range(2)
            ]
            (members,) = json.loads(run("share-group", "describe", group, "--members", "--json").stdout)
            (only,) = members["members"]
            assert (only["client_id"], only["host"], only["subscription"]) == ("worker", "127.0.0.1", [topic])
            assert [each["partition"] for each in only["assignment"]] == [0, 1]
            assert f"{topic}:0,1" in run("share-group", "describe", group, "--members").stdout
            assert "members      1\n" in run("share-group", "describe", group, "--state").stdout
        assert "has no members" in run("share-group", "describe", group, "--members").stderr

    def test_where_it_stands(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        lay_out(bootstrap, group, topic, {0: 3})
        lines = run("share-group", "describe", group, "--offsets").stdout.splitlines()
        assert lines[-2].split() == ["TOPIC", "PARTITION", "START", "END", "LAG", "MEMBERS"]
        assert lines[-1].split() == [topic, "0", "3", "10", "7", "0"]
        every = json.loads(run("share-group", "describe", "--all-groups", "--json").stdout)
        assert group in [each["group"] for each in every]
        assert group in run("share-group", "list", "--state", "empty").stdout
        assert run("share-group", "list", "--state", "dead").stderr == "no share group is like that\n"

    def test_tables_fit_a_terminal(
        self, run: Run, bootstrap: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with member(bootstrap, group, topic):
            monkeypatch.setattr(output, "is_terminal", lambda: True)
            monkeypatch.setenv("COLUMNS", "80")
            for words in (["list"], ["describe", group], ["describe", group, "--members"]):
                shown = run("share-group", *words).stdout
                assert all(len(line) <= 80 for line in shown.splitlines()), shown
                assert topic in shown or words == ["list"]

    def test_a_group_of_another_kind(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        lay_out(bootstrap, group, topic, {0: 3})
        told = run("group", "describe", group, code=1).stderr
        assert f"is a share group: `headrace share-group describe {group}` describes it" in told
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.alter_group_offsets(f"{group}-2", {TopicPartition(topic, 0): OffsetAndMetadata(1)})
        for words in (["describe", f"{group}-2"], ["delete", f"{group}-2", "--yes"]):
            told = run("share-group", *words, code=1).stderr
            assert "there is no such share group; see what there is with `headrace share-group list`" in told
        told = run("share-group", "reset-offsets", "-g", f"{group}-2", "-t", topic, "--to-latest", code=1)
        assert "there is no such share group" in told.stderr
        assert f"{group}-2" in run("group", "list").stdout

    def test_wrong_use(self, run: Run) -> None:
        assert "or give --all-groups" in run("share-group", "describe", code=2).stderr
        assert "Did you mean 'list'?" in run("share-group", "ls", code=2).stderr
        assert "Did you mean 'share-group'?" in run("share-groups", code=2).stderr


class TestReset:
    @pytest.mark.parametrize(
        ("target", "to"),
        [
            (("--to-earliest",), 0),
            (("--to-latest",), RECORDS),
            (("--to-offset", "7"), 7),
            (("--to-datetime", "1970-01-01T00:00:03.500+00:00"), 4),
            (("--by-duration", "P1D"), RECORDS),
            (("--shift-by", "-2"), 3),
            (("--to-current",), 5),
        ],
    )
    def test_where_to(
        self, run: Run, bootstrap: str, topic: str, group: str, target: tuple[str, ...], to: int
    ) -> None:
        lay_out(bootstrap, group, topic, {0: 5, 1: 5})
        words = ("--group", group, "--topic", f"{topic}:0", *target)
        assert changes(run, *words) == [(0, 5, to)]
        assert stands(bootstrap, group) == {0: 5, 1: 5}
        assert changes(run, *words, "--execute") == [(0, 5, to)]
        assert stands(bootstrap, group) == {0: to, 1: 5}

    def test_what_was_accepted_comes_again(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        with member(bootstrap, group, topic):
            words = ("share-group", "reset-offsets", "-g", group, "-t", topic, "--to-offset", "8")
            told = run(*words, "--execute", code=1).stderr
            assert "it has members; stop its consumers first" in told
            assert f"`headrace share-group describe {group} --members` shows who is there" in told
        shown = run(*words)
        assert shown.stderr == "nothing was changed: --execute does it\n"
        assert run(*words, "--execute").stderr == f"group {group} has been moved\n"
        with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert sorted(each.offset for each in take(consumer, 4)) == [8, 8, 9, 9]

    def test_a_group_that_is_not_there_is_made(self, run: Run, bootstrap: str, topic: str) -> None:
        group = f"g-{uuid.uuid4().hex[:8]}"
        words = ("share-group", "reset-offsets", "-g", group, "-t", topic, "--to-offset", "4", "--execute")
        assert f"there is no share group {group} yet" in run(*words).stderr
        assert stands(bootstrap, group) == {0: 4, 1: 4}

    def test_a_file_there_and_back(
        self, run: Run, bootstrap: str, topic: str, group: str, tmp_path: Path
    ) -> None:
        lay_out(bootstrap, group, topic, {0: 5, 1: 6})
        words = ("share-group", "reset-offsets", "-g", group)
        exported = run(*words, "--all-topics", "--to-current", "--export").stdout
        assert exported == f"{topic},0,5\n{topic},1,6\n"
        run(*words, "--all-topics", "--to-latest", "--execute")
        (tmp_path / "offsets.csv").write_text(exported)
        run(*words, "--from-file", str(tmp_path / "offsets.csv"), "--execute")
        assert stands(bootstrap, group) == {0: 5, 1: 6}


class TestDelete:
    def test_groups(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        with member(bootstrap, group, topic):
            assert "it has members" in run("share-group", "delete", group, "--yes", code=1).stderr
        assert "so give --yes to do it" in run("share-group", "delete", group, code=2).stderr
        result = run("share-group", "delete", group, "nope", "--yes", code=1)
        assert result.stdout == f"deleted {group}\n"
        assert result.stderr.startswith("Error: group 'nope': there is no such share group")
        assert group not in run("share-group", "list").stdout

    def test_offsets(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        lay_out(bootstrap, group, topic, {0: 5, 1: 6})
        told = run("share-group", "delete-offsets", group, "-t", "nope", "--yes", code=1).stderr
        assert f"has read nothing of topic 'nope': `headrace share-group describe {group}`" in told
        assert "with --topic" in run("share-group", "delete-offsets", group, code=2).stderr
        run("share-group", "delete-offsets", group, "--topic", topic, "--yes")
        assert stands(bootstrap, group) == {}
        told = run("share-group", "describe", group).stderr
        assert f"share group {group} has read nothing, and no member has partitions" in told


class TestConsume:
    def test_what_is_printed_is_accepted(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        words = ("consume", topic, "--share", group, "--timeout-ms", "3000")
        first = run(*words, "-n", "3", "--json").stdout.splitlines()
        assert [json.loads(each)["delivery_count"] for each in first] == [1, 1, 1]
        rest = run(*words, "-n", "17", "-f", r"%p/%o %D\n").stdout.splitlines()
        assert {each.split()[1] for each in rest} == {"1"}, "no more is held than is printed"
        places = {f"{each['partition']}/{each['offset']}" for each in map(json.loads, first)}
        assert len(places | {each.split()[0] for each in rest}) == 2 * RECORDS
        assert stands(bootstrap, group) == {0: RECORDS, 1: RECORDS}

    def test_released_records_come_again(self, run: Run, bootstrap: str, topic: str, group: str) -> None:
        words = ("consume", topic, "--share", group, "-f", r"%p/%o %D\n")
        [released] = run(*words, "-n", "1", "--ack", "release").stdout.splitlines()
        rest = run(*words, "-n", str(2 * RECORDS), "--ack", "reject").stdout.splitlines()
        assert [each for each in rest if not each.endswith(" 1")] == [released.replace(" 1", " 2")]
        assert stands(bootstrap, group) == {0: RECORDS, 1: RECORDS}, "rejected ones are done with"

    def test_wrong_use(self, run: Run, topic: str) -> None:
        def told(*words: str, code: int = 2) -> str:
            return run("consume", *words, code=code).stderr

        for words in (["--from-beginning"], ["-p", "0"], ["--offset", "0"], ["--timestamp", "0"]):
            assert "`headrace share-group reset-offsets` moves a group" in told(topic, "--share", "g", *words)
        assert "give one of --group and --share" in told(topic, "--share", "g", "-g", "h")
        assert "give one with --share" in told(topic, "--ack", "reject")
        assert "'%D' is none of" in told(topic, "-f", "%D")
        assert "there is no such topic" in told("nope", "--share", "g", code=1)


def test_names_of_share_groups_are_completed(
    bootstrap: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(bootstrap, group, topic, {0: 0})
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(f"{group}-2", {TopicPartition(topic, 0): OffsetAndMetadata(1)})
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", bootstrap)
    shell = ShellComplete(cli, {}, "headrace", "_HEADRACE_COMPLETE")
    for words in (["share-group", "describe"], ["consume", topic, "--share"]):
        assert [each.value for each in shell.get_completions(words, group)] == [group]
    found = shell.get_completions(["group", "describe"], group)
    assert [each.value for each in found] == [group, f"{group}-2"]
