"""Payloads: good records as columns, poisoned ones as errors and dead letters."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from headrace.schemas.proto_schemas import message_class
from headrace.spark.payloads import (
    Avro,
    Json,
    Payload,
    PayloadError,
    Protobuf,
    Registry,
    dead_letters,
    parsed,
    registered,
)
from headrace.spark.payloads.dead_letters import KEY_BYTES_MAX, VALUE_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "amount", "type": ["int", "long"]},
        {
            "name": "where",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]},
        },
    ],
}
ORDER = {
    "id": 7,
    "note": None,
    "at": datetime(2026, 1, 31, 12, 0, 0, 5000, UTC),
    "day": date(2026, 1, 31),
    "price": Decimal("12.34"),
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "kind": "B",
    "amount": 1 << 40,
    "where": {"x": 0.5},
}


def avro_bytes(row: dict[str, Any]) -> bytes:
    target = BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(SCHEMA), row)
    return target.getvalue()


def records(spark: "SparkSession", values: Iterable[bytes | None]) -> "DataFrame":
    rows = [(b"k%d" % at, value, "orders", 0, at) for at, value in enumerate(values)]
    kinds = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG"
    return spark.createDataFrame(rows, kinds).coalesce(1)


def parse(spark: "SparkSession", payload: Payload, values: Iterable[bytes | None]) -> list[Any]:
    """(data, error) of each value, in order: put there here, as Spark would parse everything twice for it."""
    rows = sorted(parsed(records(spark, values), payload).collect(), key=lambda row: int(row.record.offset))
    return [(None if row.data is None else row.data.asDict(True), row.error) for row in rows]


def test_json(spark: "SparkSession") -> None:
    payload = Json("id LONG, at TIMESTAMP, tags ARRAY<STRING>")
    good, missing, null, bad, wrong, other, text = parse(
        spark,
        payload,
        [
            b'{"id": 1, "at": "2026-01-31T12:00:00Z", "tags": ["a"], "more": 2}',
            b'{"id": 2}',
            None,
            b'{"id": 3',
            b'{"id": "x"}',
            b"\xff\xfe",
            b"5",
        ],
    )
    assert good[0]["id"] == 1
    assert good[0]["tags"] == ["a"]
    assert missing == ({"id": 2, "at": None, "tags": None}, None)
    assert null == (None, None)
    for data, error in (bad, wrong, text):
        assert data is None
        assert "not JSON" in error
    assert other == (None, "not UTF-8")


def test_avro(spark: "SparkSession") -> None:
    value = avro_bytes(ORDER)
    good, null, short, long, empty = parse(
        spark, Avro(json.dumps(SCHEMA)), [value, None, value[:-3], value + b"x", b""]
    )
    at = good[0].pop("at")  # Spark hands over local times
    assert at.timestamp() == ORDER["at"].timestamp()  # type: ignore[attr-defined]
    assert good == ({name: each for name, each in ORDER.items() if name != "at"}, None)
    assert null == (None, None)
    assert short[0] is None
    assert short[1]
    assert long == (None, "ValueError: 1 bytes are left behind the record")
    assert empty[0] is None
    assert "EOFError" in empty[1]


def test_avro_behind_a_schemas_number(spark: "SparkSession") -> None:
    payload = Avro(json.dumps(SCHEMA), confluent=True)
    good, bare = parse(spark, payload, [b"\0\0\0\0\7" + avro_bytes(ORDER), avro_bytes(ORDER)])
    assert good[0]["id"] == 7
    assert bare[1] == "ValueError: the value does not begin with a zero byte and a schema's id"


def test_avro_there_and_back(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812

    payload = Avro(json.dumps(SCHEMA))
    value = avro_bytes(ORDER)
    rows = parsed(records(spark, [value]), payload).select(payload.format(F.col("data")).alias("value"))
    assert [bytes(row.value) for row in rows.collect()] == [value]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not an Avro schema"),
        ('"string"', "must be of a record"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["string", "int"]}]}',
            "union of string, int has no column type",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}',
            "contains itself",
        ),
    ],
)
def test_avro_schemas_without_columns(schema: str, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        Avro(schema).spark_schema()


def descriptor() -> bytes:
    """What protoc would write for a message with a field of every kind."""
    F = descriptor_pb2.FieldDescriptorProto  # noqa: N806
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    file.enum_type.add(name="Kind").value.add(name="A", number=0)
    file.enum_type[0].value.add(name="B", number=1)
    inner = file.message_type.add(name="Place")
    inner.field.add(name="x", number=1, type=F.TYPE_DOUBLE, label=F.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    kinds: list[tuple[str, int, str | None, bool]] = [
        ("id", F.TYPE_INT64, None, False),
        ("note", F.TYPE_STRING, None, False),
        ("at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp", False),
        ("blob", F.TYPE_BYTES, None, False),
        ("big", F.TYPE_UINT64, None, False),
        ("small", F.TYPE_UINT32, None, False),
        ("tags", F.TYPE_STRING, None, True),
        ("kind", F.TYPE_ENUM, ".shop.Kind", False),
        ("places", F.TYPE_MESSAGE, ".shop.Place", True),
        ("home", F.TYPE_MESSAGE, ".shop.Place", False),
        ("counts", F.TYPE_MESSAGE, ".shop.Order.CountsEntry", True),
    ]
    for number, (name, kind, type_name, is_repeated) in enumerate(kinds, 1):
        label = F.LABEL_REPEATED if is_repeated else F.LABEL_OPTIONAL
        order.field.add(name=name, number=number, type=kind, type_name=type_name, label=label)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


def test_protobuf_there_and_back(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812

    order = message_class(descriptor(), "shop.Order")()
    order.id, order.note, order.blob, order.big, order.small = 7, "n", b"\0\1", (1 << 64) - 1, (1 << 32) - 1
    order.at.FromDatetime(ORDER["at"])
    order.tags.extend(["a", "b"])
    order.kind = 1
    order.places.add(x=0.5)
    order.counts["x"] = 3
    value = order.SerializeToString(deterministic=True)
    payload = Protobuf(descriptor(), "shop.Order")
    full, unset, bad = parse(spark, payload, [value, b"", b"\xff\xff\xff"])
    data = full[0]
    assert data.pop("at").timestamp() == ORDER["at"].timestamp()  # type: ignore[attr-defined]
    assert data == {
        "id": 7,
        "note": "n",
        "blob": b"\0\1",
        "big": Decimal((1 << 64) - 1),
        "small": (1 << 32) - 1,
        "tags": ["a", "b"],
        "kind": "B",
        "places": [{"x": 0.5}],
        "home": None,
        "counts": {"x": 3},
    }
    assert (unset[0]["id"], unset[0]["at"], unset[0]["kind"], unset[1]) == (0, None, "A", None)
    assert bad[0] is None
    assert "DecodeError" in bad[1]
    rows = parsed(records(spark, [value]), payload).select(payload.format(F.col("data")).alias("value"))
    [row] = rows.collect()
    assert message_class(descriptor(), "shop.Order").FromString(bytes(row.value)) == order


def test_protobuf_descriptors_that_will_not_do() -> None:
    with pytest.raises(PayloadError, match=r"no message shop\.Nothing; it has shop\.Order, shop\.Place"):
        Protobuf(descriptor(), "shop.Nothing").spark_schema()
    with pytest.raises(PayloadError, match="include_imports"):
        Protobuf(b"\xff", "shop.Order").spark_schema()


def test_values_with_ids_of_schemas(spark: "SparkSession", tmp_path: Path) -> None:
    """Of all three kinds, in two versions each, from a folder; there and back."""
    from pyspark.sql import functions as F  # noqa: N812

    proto = 'syntax = "proto3"; message A { int64 id = 1; %s }'
    texts = {
        "avro/1.avsc": '{"type": "record", "name": "A", "fields": [{"name": "id", "type": "int"}]}',
        "avro/2.avsc": '{"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]}',
        "protobuf/3.proto": proto % "",
        "protobuf/4.proto": proto % "optional string note = 2;",
        "json/5.json": '{"properties": {"id": {"type": "integer"}}}',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    registry = Registry(str(tmp_path))
    older = {"avro": b"\0\0\0\0\1\x0e", "protobuf": b"\0\0\0\0\3\0\x08\x07", "json": b'\0\0\0\0\5{"id": 7}'}
    for subject, value in older.items():
        payload = registered(registry, subject)
        old, unknown, headless, null = parse(spark, payload, [value, b"\0\0\0\0\x63" + value[5:], b"{", None])
        assert (old[0]["id"], old[1], null) == (7, None, (None, None))
        assert "does not begin with a zero byte" in headless[1]
        if subject == "json":  # whose ids are passed over
            assert unknown == old
        else:
            assert "has no schema 99" in unknown[1]
        back = F.col("record").withField("value", payload.format(F.col("data")))
        again = parsed(
            parsed(records(spark, [value]), payload).select(back.alias("r")).select("r.*"), payload
        )
        [row] = again.collect()
        assert (row.data.asDict(True), row.error) == old


def test_dead_letters_say_where_they_are_from(spark: "SparkSession") -> None:
    rows = parsed(records(spark, [b'{"id": 1}', b"{", b"x" * 5_000]), Json("id LONG"))
    bad = rows.where("error IS NOT NULL")
    columns = ["key", "value", "topic", "partition", "offset"]
    letters = dead_letters(bad, columns=columns, value_bytes_max=1_000).orderBy("key").collect()
    assert [bytes(row.key) for row in letters] == [b"k1", b"k2"]
    assert bytes(letters[0].value) == b"{"
    said = {header.key: bytes(header.value) for header in letters[0].headers}
    assert said.pop("headrace.dead-letter.error").startswith(b"not JSON")
    assert said == {
        "headrace.dead-letter.topic": b"orders",
        "headrace.dead-letter.partition": b"0",
        "headrace.dead-letter.offset": b"1",
    }
    assert len(letters[1].value) == 1_000
    assert letters[1].headers[-1].asDict() == {"key": "headrace.dead-letter.bytes", "value": b"5000"}


def test_dead_letters_are_small_enough_for_a_feed(spark: "SparkSession") -> None:
    """Whatever of a record is huge: its value, its key, its headers."""
    kinds = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    few, many = [("a", b"1"), ("b", None)], [("a", b"x" * 40_000), ("b", None)]
    given = [(b"k", b"{", few), (b"k" * 100_000, b"x" * 950_000, many), (None, None, None)]
    rows = spark.createDataFrame([(each, "bad") for each in given], f"record STRUCT<{kinds}>, error STRING")
    small, huge, empty = dead_letters(rows, columns=["key", "value", "headers"]).collect()
    assert [each.key for each in small.headers] == ["a", "b", "headrace.dead-letter.error"]
    assert (len(huge.key), len(huge.value)) == (KEY_BYTES_MAX, VALUE_BYTES_MAX)
    assert {each.key.rpartition(".")[2]: bytes(each.value) for each in huge.headers} == {
        "error": b"bad",
        "bytes": b"950000",
        "key-bytes": b"100000",
        "headers-bytes": b"40002",
    }
    assert (empty.key, empty.value) == (None, None)
    assert [each.key for each in empty.headers] == ["headrace.dead-letter.error"]
