"""Source, sink, pipelines and loads on a cluster that asks for a login over TLS, by a user who may do no more
than docs/pipelines.md says; passwords are told to nobody."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from headrace.cli.main import cli
from headrace.clients import AclBinding, Admin, Producer, UserScramCredentialUpsertion
from headrace.clients.errors import AuthenticationError, RefusedError
from headrace.spark import session
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import read_options
from headrace.spark.pipeline.plan import plan
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments.direct import DirectReading, read_segments
from headrace.testing import Cluster
from tests.spark.feeds import Feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)
ROWS = [(str(number), str(number)) for number in range(100)]
WRONG = "not-the-password"
OWN_LOGIN = ("kafka.sasl.username", "kafka.sasl.password")
PASSWORD = "the-pipelines-own-passphrase"
# In one line with the user, as Kafka's tools have it: a name under which Spark by itself hides nothing.
LOGIN = (
    f'org.apache.kafka.common.security.scram.ScramLoginModule required username="pipe" password="{PASSWORD}";'
)


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with Cluster(secure=True) as running:
        running.create_topic("secrets", partitions=2)
        yield running


def options_of(secure: Cluster, user: str = "app") -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in secure.client_settings(user).items()}


def test_batch_and_stream(spark: "SparkSession", secure: Cluster, tmp_path: Path) -> None:
    options = options_of(secure)
    rows = spark.createDataFrame(ROWS, "key string, value string")
    rows.write.format("headrace").options(**options).option("topic", "secrets").mode("append").save()
    found = spark.read.format("headrace").options(**options).option("subscribe", "secrets").load()
    texts = found.selectExpr("cast(key AS string)", "cast(value AS string)")
    assert sorted(tuple(row) for row in texts.collect()) == sorted(ROWS)
    plan = found._jdf.queryExecution().toString()
    assert options["kafka.sasl.password"] not in plan

    secure.create_topic("copies", partitions=2)
    stream = spark.readStream.format("headrace").options(**options).option("subscribe", "secrets")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("headrace")
        .options(**options)
        .option("topic", "copies")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copies = spark.read.format("headrace").options(**options).option("subscribe", "copies").load()
    assert copies.count() == len(ROWS)
    for path in (tmp_path / "checkpoint").rglob("*"):
        assert path.is_dir() or options["kafka.sasl.password"].encode() not in path.read_bytes(), path


def test_a_wrong_password_is_told_without_telling_it(spark: "SparkSession", secure: Cluster) -> None:
    options = options_of(secure) | {"kafka.sasl.jaas.config": LOGIN.replace(PASSWORD, WRONG)}
    options = {name: text for name, text in options.items() if name not in OWN_LOGIN}
    frame = spark.read.format("headrace").options(**options).option("subscribe", "secrets")
    with pytest.raises(PySparkException) as raised:
        frame.load().collect()
    assert "uthentication failed" in str(raised.value)
    assert WRONG not in str(raised.value)


def test_a_wrong_password_is_not_tried_again_and_again(
    secure: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An account may be locked for it."""
    wrong = {"kafka.sasl.password": WRONG, "subscribe": "secrets"}
    given = read_options(options_of(secure) | wrong, streaming=False)
    with closing(partition_offsets(given)) as asked, pytest.raises(AuthenticationError):
        asked.partitions()
    assert "asking again" not in caplog.text


def test_direct_reading_names_the_right_that_it_lacks(secure: Cluster) -> None:
    """Who may read a topic may not ask for the brokers' folders yet."""
    secure.create_topic("direct")
    given = read_options(
        options_of(secure) | {"subscribe": "direct", "read.mode": "segments"}, streaming=False
    )
    with Producer(secure.client_settings()) as producer:
        producer.send("direct", b"record")
    with closing(partition_offsets(given)) as asked:
        reading, wanted = DirectReading(given), [OffsetRange("direct", 0, 0, 1)]
        with pytest.raises(RefusedError, match=r"DESCRIBE on the cluster: .* --operation describe --cluster"):
            reading.plan(asked, wanted)
        with Admin(secure.client_settings("admin")) as admin:
            admin.create_acls([AclBinding("User:app", "describe", "cluster")])
        ((piece, manifest),) = reading.plan(asked, wanted)
    (rows,) = read_segments(piece, given, manifest)
    assert rows.column("value").to_pylist() == [b"record"]


# Pipelines and loads


@pytest.fixture(scope="module")
def client_file(secure: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings of the user `pipe`, who may read and write what his pipelines read and write."""
    user = "User:pipe"
    rules = [
        AclBinding(user, "read", "topic", "orders"),
        *(AclBinding(user, "write", "topic", name) for name in ("paid", "orders-dead")),
        *(
            AclBinding(user, what, "topic", "_headrace_sink_decisions")
            for what in ("create", "read", "write")
        ),
        AclBinding(user, "write", "transactional_id", "headrace-sink/", "prefixed"),
    ]
    with Admin(secure.client_settings("admin")) as admin:
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("pipe", PASSWORD))
        admin.create_acls(rules)
    for name in ("orders", "paid", "orders-dead", "others"):
        secure.create_topic(name)
    path = tmp_path_factory.mktemp("client") / "client.properties"
    own = {*OWN_LOGIN, "kafka.bootstrap.servers"}
    settings = {name: text for name, text in secure.client_settings().items() if f"kafka.{name}" not in own}
    # What a file has for other commands is no obstacle.
    settings |= {"sasl.jaas.config": LOGIN, "acks": "1", "auto.offset.reset": "earliest"}
    path.touch(0o600)
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return path


@pytest.fixture
def command(
    spark: "SparkSession", secure: Cluster, client_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """The command in this process, on the tests' session, which it does not stop."""
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    more = ("--command-config", str(client_file), "-b", secure.bootstrap_servers, "--json")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, *more], catch_exceptions=False)

    return run


def shown_by_spark(spark: Any) -> str:
    """All that its web page and the event log have of queries."""
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    found = []
    for number in range(executions.size()):
        each = executions.apply(number)
        graph = store.planGraph(each.executionId())
        found += [each.description(), each.details(), each.physicalPlanDescription()]
        found += [each.modifiedConfigs().toString(), graph.allNodes().toString()]
    return "\n".join(found)


def files_below(path: Path) -> bytes:
    return b"\n".join(each.read_bytes() for each in path.rglob("*") if each.is_file())


def test_settings_reach_every_source_and_sink_and_no_plan(spark: "SparkSession") -> None:
    clients = {"sasl.jaas.config": LOGIN, "ssl.keystore.key": "the-private-key"}
    text = """\
-- in orders: feed orders
--   json: id INT
--   dead letters: orders-dead
--   option kafka.ssl.key.password: of-the-key
-- out one: feed one
--   from: orders
-- out elsewhere: feed two
--   from: orders
--   option kafka.bootstrap.servers: elsewhere:9092
--   option kafka.sasl.password: of-elsewhere
CREATE TEMPORARY VIEW orders_too AS SELECT id FROM orders
"""
    planned = plan(spark, replace(read_spec("p.sql", text, {}), clients=clients), "h:1")
    ours = {"kafka.bootstrap.servers": "h:1", **{f"kafka.{name}": each for name, each in clients.items()}}
    theirs = {"kafka.bootstrap.servers": "elsewhere:9092", "kafka.sasl.password": "of-elsewhere"}
    assert [dict(each.sink) for each in planned] == [
        {"topic": "one", **ours},
        {"topic": "two", **theirs},
        {"topic": "orders-dead", **ours, "kafka.ssl.key.password": "of-the-key"},
    ]
    for each in planned:
        told = each.rows._jdf.queryExecution().toString() + repr(each)
        assert "kafka.sasl.jaas.config=*********(redacted)" in told
        assert not [
            secret for secret in (PASSWORD, "the-private-key", "of-the-key", "of-else") if secret in told
        ]


def test_a_pipeline_and_a_load(
    spark: "SparkSession", secure: Cluster, command: Callable[..., Result], tmp_path: Path
) -> None:
    feeds = Feeds(secure)
    feeds.write("orders", [{"id": 1, "state": "paid"}, b"no JSON", {"id": 2, "state": "new"}])
    path = tmp_path / "paid.sql"
    path.write_text("""\
-- in orders: feed orders
--   json: id INT, state STRING
--   dead letters: orders-dead
-- out: feed paid
--   key: id
-- trigger: available now
SELECT id FROM orders WHERE state = 'paid'
""")
    ran = command("pipeline", "run", str(path))
    assert ran.exit_code == 0, ran.output
    assert feeds.rows("paid") == [{"id": 1}]
    assert [each.value for each in feeds.read("orders-dead")] == [b"no JSON"]

    loaded = command("load", "orders", str(tmp_path / "table"), "--to", "delta")
    assert loaded.exit_code == 0, loaded.output
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().num_rows == 3
    (tmp_path / "table/_headrace/checkpoint").rename(tmp_path / "gone")  # the table says where to go on
    feeds.write("orders", [{"id": 3, "state": "new"}])
    again = command("load", "orders", str(tmp_path / "table"), "--to", "delta")
    assert [json.loads(line)["rows"] for line in again.stdout.splitlines() if '"loaded"' in line] == [1]

    shown = shown_by_spark(spark)
    assert "redacted" in shown
    for told in (shown, ran.output, loaded.output, again.output):
        assert PASSWORD not in told
    assert PASSWORD.encode() not in files_below(tmp_path)
