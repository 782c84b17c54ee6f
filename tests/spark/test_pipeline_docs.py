"""The blocks of docs/pipelines.md, written to files and run in their order; the samples of the examples."""

import json
import re
import shlex
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.clients import Producer
from headrace.spark import session
from headrace.spark.payloads import avro
from headrace.testing import Cluster
from tests.house.source import ROOT
from tests.schemas.schema_registry import SchemaRegistry
from tests.spark.feeds import Feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
LOGS = [
    {"service": "shop", "level": "ERROR", "at": "2026-01-30T12:00:00Z", "message": "lost"},
    {"service": "shop", "level": "WARN", "at": "2026-01-30T12:00:01Z", "message": "hm"},
    {"service": "till", "level": "ERROR", "at": "2026-01-31T13:00:00Z", "message": "jam"},
]
PAYMENT = '{"type": "record", "name": "P", "fields": [{"name": "amount", "type": "int"}]}'
TOPICS = (
    *("service-logs", "service-logs-dead", "errors-per-minute", "errors", "warnings", "long-messages"),
    *("long-counts", "errors-shadow", "info", "orders", "payments", "payments-seen"),
)


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> "SparkSession":
    """Commands get the tests' session, and leave it open."""
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    return spark


def headrace(words: list[str], *more: str) -> str:
    done = CliRunner().invoke(cli, [*words, *more])
    assert done.exit_code == 0, (words, done.output)
    return done.output


def fill(cluster: Cluster, payment: bytes) -> None:
    for topic in TOPICS:
        cluster.create_topic(topic, configs={"retention.ms": "-1"})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, each in enumerate(LOGS):
            day_ms = 1769774400000 + number * 43_200_000  # 2026-01-30T12:00Z, and half a day for each
            producer.send("service-logs", json.dumps(each).encode(), timestamp_ms=day_ms)
        for number, value in enumerate((b'{"id": 1, "state": "new"}', b'{"id": 2, "state": "paid"}', None)):
            producer.send("orders", value, key=str(number or 1).encode())
        producer.send("payments", payment)


FILES = (".sql", ".py", ".svg", ".properties")


@pytest.mark.timeout(600)  # as a whole some fifteen queries on Spark
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_blocks_run(shared: "SparkSession", tmp_path: Path, is_whole: bool) -> None:
    """The short form checks what the whole one runs, and leaves replays and loads out."""
    with Cluster() as cluster, SchemaRegistry() as registry:
        number = registry.add("payments-value", PAYMENT)
        payment = avro.registered_encoder(registry.registry.by_id(number))({"amount": 7})
        fill(cluster, payment)
        bare = BytesIO()
        fastavro.schemaless_writer(bare, fastavro.parse_schema(json.loads(PAYMENT)), {"amount": 5})
        names: dict[str, Any] = {"schema": PAYMENT}
        kinds = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
        written: list[str] = []
        said = ""
        (tmp_path / "client.properties").write_text("client.id=docs\n")
        for kind, file, text in BLOCK.findall((ROOT / "docs/pipelines.md").read_text()):
            text = text.replace("http://127.0.0.1:8081", registry.url).replace("/data/", f"{tmp_path}/")
            if file:
                path = tmp_path / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.replace("trigger: every 10 seconds", "trigger: available now"))
                written += [file] if file.endswith((".sql", ".py")) else []
            elif kind == "python":
                value = payment if "Registry" in text else bare.getvalue()
                rows = [(b"k", each, "payments", 0, 0, None, 0) for each in (value, b"\xff")]
                names["records"] = shared.createDataFrame(rows, f"{kinds}, timestampType INT")
                exec(compile(text, "docs/pipelines.md", "exec"), names)
            else:
                assert kind == "sh"
                for line in text.splitlines():
                    # Spark's JVM is in another folder than a person's would be.
                    words = [
                        str(tmp_path / word) if word.endswith(FILES) else word
                        for word in shlex.split(line, comments=True)[1:]
                    ]
                    if not is_whole:
                        if words[0] == "load" or words[1] == "replay":
                            continue
                        words[1] = "check" if words[1] == "run" else words[1]
                    is_local = words[:2] in (["pipeline", "graph"], ["pipeline", "test"])
                    said += headrace(words, *([] if is_local else ["-b", cluster.bootstrap_servers]))
        assert written == [
            "errors.sql",
            "levels.sql",
            "chatty.py",
            "hourly.sql",
            "orders.sql",
            "payments.sql",
        ]
        orders = tmp_path / "orders.sql"
        orders.write_text("-- trigger: available now\n" + orders.read_text())
        brokers = ["-b", cluster.bootstrap_servers]
        command = "run" if is_whole else "check"
        headrace(["pipeline", command, str(orders), str(tmp_path / "payments.sql"), *brokers])
        headrace(["pipeline", "check", str(tmp_path / "hourly.sql"), *brokers])
        assert "--   json: service STRING, level STRING, at TIMESTAMP, message STRING" in said
        assert "errors.sql two-in-a-minute: ok, 1 rows" in said
        assert (tmp_path / "pipelines.svg").read_text().startswith("<svg")
        if is_whole:
            check_results(shared, Feeds(cluster), registry, tmp_path)
        assert [row.amount for row in names["amounts"].collect()] == [7]
        assert (names["good"].count(), names["bad"].count()) == (1, 1)


def check_results(spark: "SparkSession", feeds: Feeds, registry: SchemaRegistry, folder: Path) -> None:
    assert [each["message"] for each in feeds.rows("errors")] == ["lost", "jam"]
    assert spark.read.parquet(str(folder / "tables/errors")).count() == 2
    assert feeds.rows("warnings") == [{"service": "shop", "message": "hm"}]
    assert feeds.rows("long-messages") == [{"service": "shop", "message": "lost"}]
    assert feeds.rows("long-counts") == [{"service": "shop", "count": 1}]
    [seen] = feeds.read("payments-seen")
    ours = registry.registry
    decode = avro.registered_decoder(ours, ours.latest("payments-seen-value"))
    assert decode(seen.value) == {"amount": 7}
    from deltalake import DeltaTable

    assert DeltaTable(folder / "tables/orders").to_pyarrow_table().to_pylist() == [{"id": 1, "state": "new"}]
    assert DeltaTable(folder / "orders").to_pyarrow_table().num_rows == 3


def test_the_examples_have_samples(shared: "SparkSession") -> None:
    folder = ROOT / "examples/pipelines/files"
    said = headrace(["pipeline", "test", str(folder)])
    cases = [path for path in folder.glob("*.test/*") if path.is_dir()]
    assert said.count(": ok, ") == len(cases) > 0
