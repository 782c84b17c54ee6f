"""Loads of a feed, by the command: partitioned, resumed, each record once, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from headrace.spark import session
from headrace.testing import Cluster
from tests.spark.feeds import Feeds
from tests.spark.test_loads_batches import read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]


@pytest.fixture
def command(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command in this process, on the tests' session, which it does not stop."""
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)

    return run


def events(done: Result) -> list[Any]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_load_goes_on_where_the_last_one_ended(
    command: Callable[..., Result], cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    feeds, topic = Feeds(cluster), make_topic(2)
    path = tmp_path / "table"
    arguments = [
        *("load", topic, str(path), "--to", "delta", "-b", feeds.brokers),
        *("--select", "offset * 2 + partition AS id", "--select", "cast(value AS string) AS line"),
        *("--partition-by", "day=concat('p', partition)", "--rows-per-batch", "20"),
    ]
    feeds.write(topic, [b"%d" % number for number in range(60)])
    first = events(command(*arguments))
    batches = [each for each in first if each["event"] == "batch"]
    [loaded] = [each for each in first if each["event"] == "loaded"]
    assert len(batches) >= 3
    assert (sum(each["rows_in"] for each in batches), loaded["rows"]) == (60, 60)
    assert loaded["files"] <= 2 * len(batches)
    feeds.write(topic, [b"%d" % number for number in range(60, 70)])
    again = events(command(*arguments))
    assert [each["rows"] for each in again if each["event"] == "loaded"] == [10]
    assert again[-1]["failure"] is None
    assert sum(again[-1]["ends"][topic].values()) == 70
    nothing = events(command(*arguments))
    assert [each["rows"] for each in nothing if each["event"] == "loaded"] == [0]

    found = read_back("delta", path)
    assert sorted(int(row["line"]) for row in found) == list(range(70))
    assert {row["day"] for row in found} <= {"p0", "p1"}


def test_what_workers_of_a_cluster_may_not_see_is_told(
    command: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    make_topic: MakeTopic,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(session, "is_on_this_machine", lambda _: False)
    (tmp_path / "client.properties").write_text("ssl.truststore.location=ca.pem\n")
    there = ("-b", cluster.bootstrap_servers, "--command-config", str(tmp_path / "client.properties"))
    for path, checkpoint, unshared in (
        (f"{tmp_path}/table", [], [f"{tmp_path}/table is a folder"]),
        ("hdfs://n/table", ["--checkpoint", "/var/c"], ["/var/c is a folder"]),
        ("hdfs://n/table", [], []),
    ):
        done = command(
            "load", make_topic(), path, "--to", "parquet", "--where", "offset >", *checkpoint, *there
        )
        *told, error = done.stderr.splitlines()
        assert "Syntax error" in error
        wanted = [*unshared, "ssl.truststore.location: ca.pem is a file"]
        assert len(told) == len(wanted)
        assert all(start in line for start, line in zip(wanted, told, strict=True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--select", "nothing"], "nothing"),
        (["--where", "offset >"], "Syntax error"),
        (["--partition-by", "day"], "no column 'day' to partition by"),
        (["--option", "read.mod=segments"], "did you mean read.mode"),
    ],
)
def test_what_cannot_be_loaded(
    options: list[str],
    said: str,
    command: Callable[..., Result],
    make_topic: MakeTopic,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    there = ("-b", cluster.bootstrap_servers)
    done = command("load", make_topic(), str(tmp_path), "--to", "delta", *there, *options)
    assert done.exit_code == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
