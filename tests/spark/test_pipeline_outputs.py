"""Several queries in a file, schemas of a registry in and out, runs with an end, replays, and samples."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.clients import Producer
from headrace.spark.payloads import UnknownSchemaError, protobuf
from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.plan import plan
from headrace.spark.pipeline.replaying import replayed
from headrace.spark.pipeline.runner import run, run_all
from headrace.spark.pipeline.samples import SampleError, cases_of, run_case
from headrace.spark.pipeline.spec import PipelineSpec
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.testing import Cluster
from tests.schemas.schema_registry import SchemaRegistry
from tests.spark.feeds import Feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
FIRST = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'
SECOND = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "state", "type": "string", "default": "new"},
        ],
    }
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry("reader:secret") as running:
        yield running


def written(path: Path, text: str) -> PipelineSpec:
    path.write_text(text)
    return read_spec(str(path), text, {})


def finished(spark: "SparkSession", feeds: Feeds, *specs: PipelineSpec) -> list[Any]:
    """Run to the end; the reports."""
    reports: list[Any] = []
    stops = run_all(spark, specs, feeds.brokers, tell=reports.append, should_stop=lambda: False)
    assert [stop.failure for stop in stops] == [None] * len(stops)
    return reports


def test_schemas_of_a_registry_into_three_outputs(
    spark: "SparkSession",
    cluster: Cluster,
    make_topic: MakeTopic,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    """Theirs writes Avro in two versions, and reads what comes out."""
    feeds = Feeds(cluster)
    orders, dead = make_topic(), make_topic()
    outs = {kind: make_topic() for kind in ("avro", "json", "protobuf")}
    theirs = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "reader:secret"})
    at = SerializationContext(orders, MessageField.VALUE)
    values = [
        AvroSerializer(theirs, FIRST)({"id": 1}, at),
        AvroSerializer(theirs, SECOND)({"id": 1 << 40, "state": "paid"}, at),
        b"\0\0\0\0\x63x",
        b"no head",
    ]
    feeds.write(orders, values)
    text = f"""\
-- registry: {registry.url}
--   user: reader
--   password: secret
-- in orders: feed {orders}
--   avro: registry
--   dead letters: {dead}
-- trigger: available now
-- out a: feed {outs["avro"]}
--   avro: registry made
-- out j: feed {outs["json"]}
--   from: a
--   json: registry made
-- out p: feed {outs["protobuf"]}
--   protobuf: registry made
CREATE TEMPORARY VIEW a AS SELECT id, state FROM orders;
CREATE TEMPORARY VIEW p AS SELECT *, array(named_struct('n', 1)) AS parts FROM a
"""
    reports = finished(spark, feeds, written(tmp_path / "p.sql", text))
    assert {each.query for each in reports} == {"p/a", "p/j", "p/p", "dead letters of orders"}
    assert {each.bad_rows for each in reports if each.pipeline == "p" and "/" in each.query} == {2}
    rows = [{"id": 1, "state": "new"}, {"id": 1 << 40, "state": "paid"}]
    avro = [AvroDeserializer(theirs)(each.value, at) for each in feeds.read(outs["avro"])]
    assert avro == rows
    read_json = JSONDeserializer(None, schema_registry_client=theirs)
    assert [read_json(each.value, at) for each in feeds.read(outs["json"])] == rows
    ours = registry.registry.__class__(registry.url, "reader", "secret")
    decode = protobuf.registered_decoder(ours, ours.latest(f"{outs['protobuf']}-value"), None)
    assert [decode(each.value) for each in feeds.read(outs["protobuf"])] == [
        {**row, "parts": [{"n": 1}]} for row in rows
    ]
    assert sorted(each.value for each in feeds.read(dead)) == sorted(values[2:])


def test_what_a_registry_refuses_is_told_by_line(
    spark: "SparkSession", registry: SchemaRegistry, tmp_path: Path
) -> None:
    registry.user_info = None
    registry.add("t-value", FIRST)
    registry.add("u-value", SECOND.replace("state", "other").replace(', "default": "new"', ""))
    head = f"-- registry: {registry.url}\n-- in a: feed t\n--   avro: registry\n-- out: feed u\n"
    for line, text, said in (
        (3, head.replace("feed t", "feed nothing") + "SELECT id FROM a", "no subject nothing-value"),
        (3, head.replace("avro", "json") + "SELECT id FROM a", "t-value is AVRO, not JSON"),
        (5, head + "--   avro: registry\nSELECT id, 1 AS more FROM a", "no field 'more'; it has id, other"),
        (5, head + "--   avro: registry\nSELECT id FROM a", "wants a field 'other'"),
        (5, head + "--   avro: registry made\nSELECT now() - now() AS i FROM a", "Avro has not"),
        (5, head + "--   protobuf: registry made\nSELECT now() - now() AS i FROM a", "u-value is AVRO"),
    ):
        with pytest.raises(PipelineError) as caught:
            plan(spark, written(tmp_path / "p.sql", text), "h:1")
        assert (caught.value.line, said in caught.value.what) == (line, True), caught.value
    made = written(
        tmp_path / "p.sql", head.replace("feed u", "feed v") + "--   avro: registry made\nSELECT id FROM a"
    )
    plan(spark, made, "h:1", is_trial=True)
    with pytest.raises(UnknownSchemaError):
        registry.registry.latest("v-value")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("-- out: feed u\nCREATE TEMPORARY VIEW b AS SELECT * FROM a", 2, "no query for it"),
        ("-- out b: feed u\nSELECT * FROM a;\nSELECT * FROM a", 4, "a second query"),
        ("-- out b: feed u\n-- out c: feed v\nSELECT * FROM a", 2, "no view 'b'"),
        ("-- out b: feed u\nCREATE TEMP VIEW b AS\nSELECT nothing FROM a", 4, "nothing"),
    ],
)
def test_mistakes_in_several_queries(
    spark: "SparkSession", tmp_path: Path, text: str, line: int, said: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        plan(spark, written(tmp_path / "p.sql", f"-- in a: feed t\n{text}"), "h:1")
    assert (caught.value.line, said in caught.value.what) == (line, True), caught.value


def test_an_end_and_a_replay_of_files_beside_each_other(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    feeds, copies, shadow = Feeds(cluster), make_topic(), make_topic()
    numbers = make_topic(2, {"retention.ms": "-1"})  # they are of 1970
    with Producer(bootstrap_servers=feeds.brokers) as producer:
        for n in range(20):
            producer.send(numbers, json.dumps({"n": n}).encode(), partition=n % 2, timestamp_ms=1000 * n)
    head = f"-- in numbers: feed {numbers}\n--   json: n INT\n"
    ended = head + f"--   end: 8000\n-- out: feed {copies}\nSELECT n FROM numbers\n"
    first = written(tmp_path / "first.sql", ended)
    other = written(
        tmp_path / "other.py",
        f"# in numbers: feed {numbers}\n#   json: n INT\n#   start: 15000\n# trigger: available now\n"
        f"# out tens: feed {copies}\ndef tens(large):\n    return large.selectExpr('n * 10 AS n')\n"
        "def large(numbers):\n    return numbers.where('n > 17')\n",
    )
    reports = finished(spark, feeds, first, other)
    assert {each.pipeline for each in reports} == {"first", "other"}
    found = sorted(each["n"] for each in feeds.rows(copies))
    assert found == [*range(8), 180, 190]
    finished(spark, feeds, first)
    assert len(feeds.rows(copies)) == len(found), "the end is where it was"

    past = replayed(first, 5000, 12000, {"": shadow})
    for _ in range(2):  # once more is nothing more
        finished(spark, feeds, past)
        assert sorted(each["n"] for each in feeds.rows(shadow)) == list(range(5, 12))
    assert len(feeds.rows(copies)) == len(found)
    finished(spark, feeds, replayed(first, 5000, 8000, {}))
    assert sorted(each["n"] for each in feeds.rows(copies)) == sorted([*found, 5, 6, 7])


def test_samples(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "schemas" / "marks").mkdir(parents=True)
    (tmp_path / "schemas" / "marks" / "7.avsc").write_text(SECOND)
    spec = written(
        tmp_path / "errors.sql",
        """\
-- registry: schemas
-- in logs: feed service-logs
--   json: service STRING, level STRING, at TIMESTAMP
--   watermark: at, 30 seconds
--   dead letters: service-logs-dead
--   expect: service <> '' or dead letters
-- in marks: feed marks
--   avro: registry subject marks
-- in users: parquet users
-- out minutes: feed errors-per-minute
--   key: service
-- out marked: feed marked
CREATE TEMPORARY VIEW minutes AS
SELECT service, window.start AS minute, count(*) AS errors
FROM logs WHERE level = 'ERROR' GROUP BY service, window(at, '1 minute');
CREATE TEMPORARY VIEW marked AS
SELECT id, name, decode(record.key, 'UTF-8') AS mark FROM marks JOIN users ON state = user
""",
    )
    folder = tmp_path / "errors.test" / "usual"
    folder.mkdir(parents=True)
    [case] = cases_of(spec.header.path)
    error = {"service": "a", "level": "ERROR", "at": "2026-01-31T12:00:10Z"}
    lines = [
        error,
        {**error, "at": "2026-01-31T12:00:50Z"},
        {**error, "level": "INFO"},
        {**error, "service": ""},
    ]
    (folder / "logs.jsonl").write_text("\n".join([*map(json.dumps, lines), "{"]))
    (folder / "marks.jsonl").write_text(
        '{"id": 5, "state": "x"}\n{"@key": "k", "@value": {"id": 6, "state": ""}}\n'
    )
    (folder / "users.jsonl").write_text('{"user": "x", "name": "Ada"}\n{"user": "", "name": "Bob"}\n')
    (folder / "dead-logs.jsonl").write_text("\n".join([json.dumps(lines[3]), "{"]))
    (folder / "expected-minutes.jsonl").write_text(
        '{"service": "a", "minute": "2026-01-31T12:00:00Z", "errors": 2}\n'
    )
    (folder / "expected-marked.jsonl").write_text(
        '{"id": 6, "name": "Bob", "mark": "k"}\n{"id": 5, "name": "Ada"}\n'
    )
    result = run_case(spark, spec, case)
    assert (result.case, result.rows, result.differences) == ("usual", 3, ())

    (folder / "expected-minutes.jsonl").write_text('{"service": "b", "errors": 2}')
    found = run_case(spark, spec, case).differences
    there = '{"errors": 2, "minute": "2026-01-31T12:00:00.000Z", "service": "a"}'
    assert found == (
        'out minutes: expected, and not there: {"errors": 2, "service": "b"}',
        f"out minutes: there, and not expected: {there}",
    )
    (folder / "expected-minutes.jsonl").write_text('{"servic": "b"}')
    with pytest.raises(SampleError, match=r"minutes\.jsonl:1: the query has no column 'servic'"):
        run_case(spark, spec, case)
    (folder / "log.jsonl").touch()
    with pytest.raises(SampleError, match=r"log\.jsonl: there may be"):
        run_case(spark, spec, case)


def test_a_registry_that_goes_ends_the_query(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Not one record is a dead letter for it."""
    feeds, orders, dead = Feeds(cluster), make_topic(), make_topic()
    with SchemaRegistry() as registry:
        registry.add(f"{orders}-value", FIRST)
        feeds.write(orders, [b"\0\0\0\0\2\2"])
        spec = written(
            tmp_path / "p.sql",
            f"-- registry: {registry.url}\n-- in a: feed {orders}\n--   avro: registry\n"
            f"--   dead letters: {dead}\n-- out: feed {make_topic()}\n-- trigger: available now\n"
            "SELECT id FROM a\n",
        )
        # The latest version is asked for when the query is planned, the record's own when it is read.
        registry.answers_left = 1
        stops = run(spark, spec, feeds.brokers, tell=lambda _: None, should_stop=lambda: False)
    assert "HTTP 503" in str(stops[0].failure)
    assert feeds.read(dead) == []
