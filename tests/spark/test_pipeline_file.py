"""The head of a pipeline's file: what it means, and that every mistake is told with its line."""

from pathlib import Path

import pytest

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.spec import (
    AlertSpec,
    ExpectSpec,
    InputSpec,
    OutputSpec,
    PayloadSpec,
    PipelineSpec,
    RegistrySpec,
    SubjectSpec,
)
from headrace.spark.pipeline.spec_reader import read_spec

WHOLE = """\
-- Errors of every service, minute by minute.
-- name: errors
-- brokers: h1:9092,h2:9092
-- in logs: feed service-logs, more-logs
--   json: service STRING, at TIMESTAMP
--   watermark: at, 30 seconds
--   start: latest
--   dead letters: ${TEAM}-dead
--   option maxOffsetsPerTrigger: 1000
-- in users: parquet tables/users
-- in others: feeds matching other-.*
--
-- out: feed errors-per-minute
--   key: service
--   mode: update
--   option kafka.compression.type: zstd
-- trigger: every 10 seconds
-- checkpoint: state/errors
-- set spark.sql.shuffle.partitions: 8

SELECT service FROM logs -- in the query: a comment is a comment
"""


def spec(text: str, path: str = "folder/errors.sql", **variables: str) -> PipelineSpec:
    return read_spec(path, text, variables)


def head(*lines: str, mark: str = "--") -> str:
    return "\n".join([*(f"{mark} {line}" for line in lines), "SELECT 1"])


def test_a_whole_head() -> None:
    found = spec(WHOLE, TEAM="logs")
    assert (found.name, found.brokers) == ("errors", "h1:9092,h2:9092")
    assert found.inputs == (
        InputSpec(
            4,
            "logs",
            topics="service-logs,more-logs",
            payload=PayloadSpec(5, "json", "service STRING, at TIMESTAMP"),
            watermark=("at", "30 seconds"),
            start="latest",
            dead_letters="logs-dead",
            options={"maxOffsetsPerTrigger": "1000"},
        ),
        InputSpec(10, "users", files_kind="parquet", path="folder/tables/users"),
        InputSpec(11, "others", pattern="other-.*"),
    )
    assert found.output == OutputSpec(
        13,
        "feed",
        "errors-per-minute",
        key="service",
        mode="update",
        options={"kafka.compression.type": "zstd"},
    )
    assert found.trigger == {"processingTime": "10 seconds"}
    assert found.checkpoint == "folder/state/errors"
    assert found.session == {"spark.sql.shuffle.partitions": "8"}
    assert (found.header.body_line, found.is_python) == (21, False)


def test_what_need_not_be_said() -> None:
    found = spec(head("in a: feed t", "out: delta table", "  partition by: day, hour", "  files: 2"))
    assert found.output.schema == "evolve"
    changes = spec(head("in a: feed t", "out: delta t", "  mode: upsert", "  key: id, part"))
    assert (changes.output.mode, changes.output.key_columns) == ("upsert", ("id", "part"))
    for said, least in (("8", 8), ("0", 0)):
        assert spec(head("in a: feed t", "out: delta t", f"  compact: {said}")).output.compact == least
    place = "catalog://lake/sales.orders"
    assert spec(head("in a: feed t", f"out: iceberg {place}")).output.place == place
    strict = spec(head("in a: feed t", "out: iceberg table", "  schema: strict"))
    assert strict.output.schema == "strict"
    assert (found.name, found.checkpoint) == ("errors", "folder/checkpoints/errors")
    assert (found.trigger, found.brokers, found.inputs[0].start) == ({}, None, "earliest")
    assert found.output == OutputSpec(2, "delta", "folder/table", partition_by=("day", "hour"), files=2)


@pytest.mark.parametrize(
    ("said", "trigger"),
    [
        ("available now", {"availableNow": True}),
        ("immediately", {}),
        ("every 1 minute", {"processingTime": "1 minute"}),
    ],
)
def test_triggers(said: str, trigger: dict[str, str]) -> None:
    assert spec(head("in a: feed t", "out: console", f"trigger: {said}")).trigger == trigger


def test_python_has_the_same_head() -> None:
    text = "# in a: feed t\n# out: feeds\ndef query(a):\n    return a\n"
    found = spec(text, "p.py")
    assert (found.is_python, found.output.kind, found.header.body_line) == (True, "feeds", 3)


def test_schemas_are_files(tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text("{}")
    (tmp_path / "d.bin").write_bytes(b"")
    lines = ["in a: feed t", "  avro: s.avsc", "in b: feed u", "  protobuf: d.bin shop.Order", "out: console"]
    found = spec(head(*lines), str(tmp_path / "p.sql"))
    assert found.inputs[0].payload == PayloadSpec(2, "avro", str(tmp_path / "s.avsc"))
    assert found.inputs[1].payload == PayloadSpec(4, "protobuf", str(tmp_path / "d.bin"), "shop.Order")


def test_schemas_of_a_registry() -> None:
    lines = ["registry: https://registry:8081", "  user: reader", "  password: ${WORD}", "in a: feed t"]
    lines += [
        "  avro: registry",
        "in b: feed u, v",
        "  protobuf: registry subject s version 3 message shop.Order",
    ]
    lines += ["in c: feed w", "  json: registry STRING, id LONG", "out: feed x", "  json: registry made"]
    found = spec(head(*lines), WORD="secret")
    assert found.registry == RegistrySpec(1, "https://registry:8081", "reader", "secret")
    assert "secret" not in repr(found.registry)
    payloads = [each.payload for each in found.inputs]
    assert payloads == [
        PayloadSpec(5, "avro", "", None, SubjectSpec()),
        PayloadSpec(7, "protobuf", "", "shop.Order", SubjectSpec("s", 3)),
        PayloadSpec(9, "json", "registry STRING, id LONG"),
    ]
    assert found.output.payload == PayloadSpec(11, "json", "", None, SubjectSpec(is_made=True))
    folder = spec(head("registry: schemas", "in a: feed t", "  avro: registry", "out: console")).registry
    assert folder == RegistrySpec(1, "folder/schemas")


def test_several_outputs() -> None:
    lines = ["in a: feed t", "out errors: feed u", "out copy: delta d", "  from: errors", "out: console"]
    found = spec(head(*lines))
    assert [(each.name, each.source, each.kind) for each in found.outputs] == [
        ("errors", "errors", "feed"),
        ("copy", "errors", "delta"),
        ("", "", "console"),
    ]


def test_an_end_a_schedule_and_alerts() -> None:
    lines = ["in a: feed t", "  start: 2026-01-30", "  end: 2026-01-31T12:00+01:00", "out: console"]
    found = spec(head(*lines, "alert: lag above 1000", "alert: bad rows above 0"))
    assert (found.inputs[0].start, found.inputs[0].end) == ("1769731200000", "1769857200000")
    assert found.trigger == {"availableNow": True}
    assert found.alerts == (AlertSpec(5, "lag", 1000), AlertSpec(6, "bad rows", 0))
    scheduled = spec(head("in a: feed t", "out: console", "schedule: every 15 minutes"))
    assert scheduled.trigger == {"availableNow": True}
    assert scheduled.schedule is not None


GOOD = ["in a: feed t", "out: feed u"]


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (["out: feed u"], 1, "nothing comes in"),
        (["in a: feed t"], 1, "nothing goes out"),
        ([*GOOD, "triger: available now"], 3, "did you mean 'trigger'"),
        ([*GOOD, "trigger: sometimes"], 3, "`every 10 seconds`, `available now` or `immediately`"),
        ([*GOOD, "trigger: immediately", "trigger: immediately"], 4, "said twice"),
        ([*GOOD, "trigger:"], 3, "no value"),
        ([*GOOD, "out: feed v"], 3, "there is one `out`"),
        ([*GOOD, "checkpoint: x", "  files: 2"], 4, "has nothing below it"),
        (["in: feed t", "out: feed u"], 1, "write it as `in NAME: …`"),
        (["in a: topic t", "out: feed u"], 1, "an input is `feed TOPIC`"),
        (["in a: feed", "out: feed u"], 1, "an input is `feed TOPIC`"),
        (["in a-b: feed t", "out: feed u"], 1, "no name for a view"),
        (["in a: feed t", "in a: feed t", "out: feed u"], 1, "two inputs with the name 'a'"),
        (["in a: feed t", "  jsn: x INT", "out: feed u"], 2, "did you mean 'json'"),
        (["in a: feed t", "  json: x INT", "  json: y INT", "out: feed u"], 3, "said twice"),
        (["in a: feed t", "  json: x INT", "  avro: s", "out: feed u"], 3, "json or avro, not both"),
        (["in a: feed t", "  avro: nothing.avsc", "out: feed u"], 2, "there is no file"),
        (["in a: feed t", "  protobuf: nothing.bin", "out: feed u"], 2, "DESCRIPTOR_FILE MESSAGE"),
        (["in a: feed t", "  watermark: at", "out: feed u"], 2, "`watermark: COLUMN, 30 seconds`"),
        (["in a: feed t", "  dead letters: d", "out: feed u"], 2, "what cannot be parsed"),
        (["in a: feed t", "out: somewhere"], 2, "an output is"),
        (["in a: feed t", "out: feed u", "  mode: complete"], 3, "mode is append or update"),
        (["in a: feed t", "out: delta d", "  mode: update"], 3, "mode is append"),
        (["in a: feed t", "out: delta d", "  key: x"], 3, "a table's key is for `mode: upsert`"),
        (["in a: feed t", "out: delta d", "  mode: upsert"], 3, "needs a `key: COLUMN, …`"),
        (["in a: feed t", "out: parquet d", "  mode: upsert"], 3, "upserts need delta or iceberg"),
        (["in a: feed t", "out: delta d", "  schema: loose"], 3, "schema is evolve or strict"),
        (["in a: feed t", "out: delta d", "  files: none"], 3, "a number above 0"),
        (["in a: feed t", "out: delta d", "  compact: often"], 3, "a number above 0"),
        (["in a: feed t", "out: parquet d", "  compact: 8"], 3, "joined in a Delta or Iceberg table"),
        (["in a: feed t", "  avro: registry", "out: feed u"], 2, "say where the registry is"),
        (["registry: r", "in a: feed t", "  avro: registry version x", "out: feed u"], 3, "a number"),
        (["registry: r", "in a: feed t", "  avro: registry subject", "out: feed u"], 3, "write it as"),
        (["registry: r", "in a: feed t", "  avro: registry message m", "out: feed u"], 3, "only protobuf"),
        (["registry: r", "in a: feed t", "  avro: registry made", "out: feed u"], 3, "leave `made` out"),
        (["registry: r", "in a: feed t, u", "  avro: registry", "out: feed u"], 3, "registry subject NAME"),
        (["registry: r", "in a: feed t", "out: feeds", "  avro: registry"], 4, "registry subject NAME"),
        (["registry: r", *GOOD, "  avro: registry made version 2"], 4, "has no version yet"),
        (["registry: r", "  token: x", *GOOD], 2, "a registry has no 'token'"),
        (["in a: feed t", "out b: feed u", "out b: feed v"], 3, "let one say `from: b`"),
        (["in a: feed t", "out b-c: feed u"], 2, "no name for a view"),
        (["in a: feed t", "  end: tomorrow", "out: feed u"], 2, "milliseconds or a time"),
        (["in a: feed t", "  start: soon", "out: feed u"], 2, "`earliest`, `latest` milliseconds or a time"),
        (["in a: feed t", "  start: latest", "  end: 5", "out: feed u"], 3, "has no end before it"),
        (
            ["in a: feed t", "  end: 5", "out: feed u", "trigger: immediately"],
            4,
            "is `trigger: available now`",
        ),
        ([*GOOD, "schedule: hourly"], 3, "cron's minute hour day month weekday"),
        ([*GOOD, "schedule: every 1 hour", "trigger: immediately"], 3, "for `trigger: available now`"),
        ([*GOOD, "alert: lag over 5"], 3, "`alert: lag above NUMBER`"),
        (["  json: x INT", *GOOD], 1, "no line that it belongs to"),
        (["in a: feed ${X}", "out: feed u"], 1, "--set X="),
    ],
)
def test_mistakes_are_told_with_their_line(lines: list[str], line: int, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        spec(head(*lines))
    assert caught.value.line == line
    assert said in caught.value.what
    assert str(caught.value).startswith(f"folder/errors.sql:{line}: ")


def test_a_file_without_a_query() -> None:
    with pytest.raises(PipelineError, match=r"errors.sql:3: there is no query behind the head"):
        spec("-- in a: feed t\n-- out: feed u\n")


def test_a_file_of_another_kind() -> None:
    with pytest.raises(PipelineError, match=r"must end with \.sql or \.py"):
        spec("", "pipeline.txt")


def test_what_is_expected() -> None:
    lines = ("in a: feed t", "  json: n INT", "  dead letters: d", "  expect: n > 0 or n < -5 or drop")
    [given] = spec(head(*lines, "  expect: n IS NOT NULL or dead letters", "out: feed u")).inputs
    assert given.expects == (
        ExpectSpec(4, "n > 0 or n < -5", "drop"),
        ExpectSpec(5, "n IS NOT NULL", "dead letters"),
    )


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (("  json: n INT", "  expect: n > 0"), 3, "expect: CONDITION or drop|fail|dead letters"),
        (("  json: n INT", "  expect: n > 0 or shrug"), 3, "expect: CONDITION or drop|fail|dead letters"),
        (("  json: n INT", "  expect: n > 0 or dead letters"), 3, "dead letters: TOPIC"),
        (("  expect: n > 0 or drop",), 2, "say `json`"),
    ],
)
def test_what_cannot_be_expected(lines: tuple[str, ...], line: int, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        spec(head("in a: feed t", *lines, "out: feed u"))
    assert caught.value.line == line
    assert said in caught.value.what
