"""Values with schema ids, as confluent's own serializers write and read them, against a registry double."""

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import types

from headrace.schemas import registry as registry_module
from headrace.schemas.proto_schemas import descriptor_set, message_class, message_indexes, message_name
from headrace.schemas.registry import RegisteredSchema
from headrace.schemas.wire_format import indexes_bytes, read_head, read_indexes
from headrace.spark.payloads import (
    PayloadError,
    RegisteredPayload,
    Registry,
    RegistryError,
    UnknownSchemaError,
    avro,
    protobuf,
)
from headrace.spark.payloads.columns import _attempt
from headrace.spark.payloads.json_schema import RegisteredJson, json_columns
from headrace.spark.payloads.made_schemas import made_schema
from tests.schemas.schema_registry import SchemaRegistry

HERE = SerializationContext("orders", MessageField.VALUE)
SUBJECT = "orders-value"


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


DAY = {
    "type": "record",
    "name": "Day",
    "fields": [{"name": "of", "type": {"type": "int", "logicalType": "date"}}],
}
DEFAULTS = {"blob": b"\xff", "day": {"of": date(1970, 1, 2)}}
FIRST = record({"name": "id", "type": "int"}, {"name": "gone", "type": "string", "default": ""})
SECOND = record(
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
    {"name": "blob", "type": "bytes", "default": "\u00ff"},
    {"name": "day", "type": [DAY, "null"], "default": {"of": 1}},
)
AT = datetime(2026, 1, 31, 12, 0, 0, 5000, UTC)


@pytest.fixture
def double() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_PAUSE_S", 0.0)


def client(double: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": double.url})


def test_avro_that_changes_in_the_middle_of_a_topic(double: SchemaRegistry) -> None:
    theirs = client(double)
    whole = {"id": 1 << 40, "note": "n", "at": AT, "blob": b"", "day": None}
    values = [
        AvroSerializer(theirs, FIRST)({"id": 1, "gone": "x"}, HERE),
        AvroSerializer(theirs, SECOND)(
            {"id": 1 << 40, "note": "n", "at": AT, "blob": b"", "day": None}, HERE
        ),
    ]
    registry = double.registry
    decode = avro.registered_decoder(registry, registry.latest(SUBJECT))
    assert [decode(value) for value in values] == [
        {
            "id": 1,
            "note": None,
            "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "blob": b"\xff",
            "day": {"of": date(1970, 1, 2)},
        },
        whole,
    ]
    asked = len(double.asked)
    again = avro.registered_decoder(registry, registry.latest(SUBJECT))
    assert again(values[0])["id"] == 1
    assert len(double.asked) == asked + 1, "only the latest version is asked for again"


def test_avro_that_theirs_reads(double: SchemaRegistry) -> None:
    double.add(SUBJECT, SECOND)
    encode = avro.registered_encoder(double.registry.latest(SUBJECT))
    value = encode({"id": 7, "at": AT})
    found: Any = AvroDeserializer(client(double))(value, HERE)
    assert found == {"id": 7, "note": None, "at": AT, **DEFAULTS}
    with pytest.raises(ValueError, match="wrong"):
        encode({"id": 7, "at": AT, "wrong": 1})


def test_avro_ids_are_text(double: SchemaRegistry) -> None:
    """A column of uuid objects is none."""
    number = double.add(SUBJECT, record({"name": "id", "type": {"type": "string", "logicalType": "uuid"}}))
    registry = double.registry
    row = {"id": "5b0f0f4c-6a4f-4f3a-9d3b-0a8d5d0d9c11"}
    value = avro.registered_encoder(registry.by_id(number))(row)
    assert avro.registered_decoder(registry, registry.by_id(number))(value) == row


def test_avro_with_references(double: SchemaRegistry) -> None:
    place = (
        '{"type": "record", "name": "Place", "namespace": "shop", "fields": [{"name": "x", "type": "int"}]}'
    )
    order = record({"name": "home", "type": "shop.Place"}, {"name": "shop", "type": "shop.Place"})
    theirs = client(double)
    theirs.register_schema("place", Schema(place, "AVRO"))
    whole = Schema(order, "AVRO", [SchemaReference("shop.Place", "place", 1)])
    row = {"home": {"x": 1}, "shop": {"x": 2}}
    value = AvroSerializer(theirs, whole)(row, HERE)
    registry = double.registry
    schema = registry.latest(SUBJECT)
    assert avro.registered_decoder(registry, schema)(value) == row
    assert avro.registered_encoder(schema)(row) == value
    columns = avro.RegisteredAvro(registry, schema).spark_schema()
    assert columns.simpleString() == "struct<home:struct<x:int>,shop:struct<x:int>>"


PROTO = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Refund { int64 id = 1; }
message Order {
  int64 id = 1;
  string note = 2;
  google.protobuf.Timestamp at = 3;
  message Line { int32 count = 1; }
  repeated Line lines = 4;
}
"""
CHANGED = PROTO.replace("string note = 2;", "string remark = 2; optional bool paid = 5;")
BROKEN = PROTO.replace("string note = 2;", "int32 note = 2;")


def proto(text: str, number: int = 1) -> RegisteredSchema:
    return RegisteredSchema(number, "PROTOBUF", text)


def message(text: str, name: str, **fields: Any) -> Any:
    return message_class(descriptor_set(proto(text)), name)(**fields)


def test_protobuf_that_changes_in_the_middle_of_a_topic(double: SchemaRegistry) -> None:
    """Theirs registers a file's descriptor in base64, we had text before."""
    old = message(PROTO, "shop.Order", id=1, note="n")
    old.lines.add(count=3)
    conf = {"use.deprecated.format": False}
    value = ProtobufSerializer(type(old), client(double), conf)(old, HERE)
    registry = double.registry
    double.add(SUBJECT, CHANGED, "PROTOBUF")
    decode = protobuf.registered_decoder(registry, registry.latest(SUBJECT), "Order")
    assert decode(value) == {"id": 1, "remark": "n", "at": None, "lines": [{"count": 3}], "paid": None}
    refund = message(PROTO, "shop.Refund", id=2)
    value = ProtobufSerializer(type(refund), client(double), conf)(refund, HERE)
    assert _attempt(decode, value) == (None, "ValueError: this is a shop.Refund, not a shop.Order")


def test_protobuf_whose_numbers_changed_their_type(double: SchemaRegistry) -> None:
    registry = double.registry
    first = double.add(SUBJECT, BROKEN, "PROTOBUF")
    double.add(SUBJECT, PROTO, "PROTOBUF")
    decode = protobuf.registered_decoder(registry, registry.latest(SUBJECT), "Order")
    value = protobuf.registered_encoder(registry.by_id(first), "shop.Order")({"id": 1, "note": 5})
    assert "field 2 of shop.Order has another type in schema 1: note" in str(_attempt(decode, value)[1])


def test_protobuf_that_theirs_reads(double: SchemaRegistry) -> None:
    double.add(SUBJECT, PROTO, "PROTOBUF")
    schema = double.registry.latest(SUBJECT)
    value = protobuf.registered_encoder(schema, "Order")({"id": 7, "note": "n", "lines": [{"count": 2}]})
    assert value[:8] == b"\0\0\0\0\1\2\2\x08", "the path to the second message, then the payload"
    order = type(message(PROTO, "shop.Order"))
    found: Any = ProtobufDeserializer(order, {"use.deprecated.format": False})(value, HERE)
    assert (found.id, found.note, [each.count for each in found.lines]) == (7, "n", [2])


def test_protobuf_with_imports(double: SchemaRegistry) -> None:
    double.add("place", 'syntax = "proto3"; package shop; message Place { int32 x = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "shop/place.proto"; message Order { shop.Place home = 1; }'
    reference = {"name": "shop/place.proto", "subject": "place", "version": 1}
    double.add(SUBJECT, text, "PROTOBUF", [reference])
    registry = double.registry
    schema = registry.latest(SUBJECT)
    value = protobuf.registered_encoder(schema, None)({"home": {"x": 4}})
    assert protobuf.registered_decoder(registry, schema, None)(value) == {"home": {"x": 4}}


def test_protobuf_schemas_that_will_not_do(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PayloadError, match=r"no message Nothing; it has shop\.Refund, shop\.Order"):
        protobuf.registered_message(proto(PROTO), "Nothing")
    with pytest.raises(PayloadError, match="not a Protobuf schema"):
        descriptor_set(proto("message {"))
    assert "registered.proto" in capfd.readouterr().err
    escaping = RegisteredSchema(1, "PROTOBUF", PROTO, (("../../x.proto", "message X {}"),))
    with pytest.raises(PayloadError, match="no name of a file"):
        descriptor_set(escaping)


@pytest.mark.parametrize("path", [(0,), (1,), (1, 0), (200, 3), ()])
def test_paths_to_messages(path: tuple[int, ...]) -> None:
    text = indexes_bytes(path) if path else b"\0"
    assert read_indexes(b"x" + text + b"payload", 1) == (path or (0,), 1 + len(text))


def test_paths_by_name() -> None:
    files = descriptor_set(proto(PROTO))
    assert message_indexes(files, "shop.Order.Line") == (1, 0)
    assert message_name(files, (1, 0)) == "shop.Order.Line"
    with pytest.raises(ValueError, match=r"no message at \[1, 5\]"):
        message_name(files, (1, 5))


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"id": 1}'])
def test_values_without_a_head(value: bytes) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        read_head(value)


@pytest.mark.parametrize("value", [b"", b"\x80", b"\xff" * 12, b"\x01", b"\x04\x00"])
def test_paths_that_are_cut_off(value: bytes) -> None:
    with pytest.raises(ValueError, match="path to the message"):
        read_indexes(value, 0)


JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/definitions/place"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "mixed": {"type": ["string", "integer"]},
    },
    "definitions": {"place": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
}


def test_json_schemas_have_columns() -> None:
    assert json_columns(json.dumps(JSON_SCHEMA)).simpleString() == (
        "struct<id:bigint,price:double,at:timestamp,day:date,tags:array<string>,home:struct<x:boolean>,"
        "counts:map<string,bigint>,mixed:string>"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a JSON Schema"),
        ('{"type": "string"}', "must be of an object"),
        ('{"properties": {"a": {"$ref": "#/nothing"}}}', "not in it"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', "contains itself"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "not in it"),
    ],
)
def test_json_schemas_without_columns(text: str, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        json_columns(text)


def json_values(double: SchemaRegistry) -> list[bytes | None]:
    """As theirs writes them, in two versions."""
    more = {**JSON_SCHEMA["properties"], "more": {"type": "integer"}}  # type: ignore[dict-item]
    second = {**JSON_SCHEMA, "properties": more}
    rows = [({"id": 1, "price": 2.5}, JSON_SCHEMA), ({"id": 2, "price": None, "more": 3}, second)]
    found = [JSONSerializer(json.dumps(schema), client(double))(row, HERE) for row, schema in rows]
    return [bytes(each) for each in found if each is not None]


def theirs_reads_json(double: SchemaRegistry, value: bytes) -> Any:
    return JSONDeserializer(None, schema_registry_client=client(double))(value, HERE)


def test_a_registry_with_a_password() -> None:
    with SchemaRegistry("reader:s:cret") as double:
        double.add(SUBJECT, FIRST)
        with pytest.raises(RegistryError, match="HTTP 401: Unauthorized"):
            Registry(double.url).latest(SUBJECT)
        assert Registry(double.url, user="reader", password="s:cret").latest(SUBJECT).id == 1
        inside = Registry(double.url.replace("//", "//reader:s%3Acret@"))
        assert pickle.loads(pickle.dumps(inside)).latest(SUBJECT).id == 1
        assert "cret" not in repr(inside) + inside.place


def test_an_outage_is_not_a_records_fault(double: SchemaRegistry) -> None:
    value = AvroSerializer(client(double), FIRST)({"id": 1, "gone": ""}, HERE)
    double.add(SUBJECT, SECOND)
    registry = double.registry
    schema = registry.latest(SUBJECT)
    decode = avro.registered_decoder(registry, schema)
    unknown = b"\0\0\0\0\x63" + value[5:]
    asked = len(double.asked)
    for _ in range(3):
        assert "has no schema 99" in str(_attempt(decode, unknown)[1])
    assert len(double.asked) == asked + 1, "a topic may be full of such values"
    double.busy = 3
    assert decode(value)["id"] == 1
    double.busy = 100
    other = Registry(double.url + "/")
    with pytest.raises(RegistryError, match="HTTP 503: busy"):
        _attempt(avro.registered_decoder(other, schema), value)
    gone = Registry("http://127.0.0.1:1")
    with pytest.raises(RegistryError, match="cannot be asked"):
        _attempt(avro.registered_decoder(gone, schema), value)


def test_a_registry_that_refuses_a_schema(double: SchemaRegistry) -> None:
    registry = double.registry
    assert registry.register(SUBJECT, "AVRO", FIRST) == 1
    assert registry.register(SUBJECT, "AVRO", FIRST) == 1
    double.incompatible.add(SUBJECT)
    with pytest.raises(RegistryError, match="incompatible with an earlier schema"):
        registry.register(SUBJECT, "AVRO", SECOND)
    with pytest.raises(UnknownSchemaError, match="no subject nothing"):
        registry.latest("nothing")
    with pytest.raises(UnknownSchemaError, match=f"no subject {SUBJECT} with a version 7"):
        registry.latest(SUBJECT, 7)


def test_a_folder_is_a_registry(double: SchemaRegistry, tmp_path: Path) -> None:
    """Its files have the ids under which others have registered them."""
    (tmp_path / SUBJECT).mkdir()
    theirs = client(double)
    for number, text in ((1, FIRST), (2, SECOND)):
        (tmp_path / SUBJECT / f"{number}.avsc").write_text(text)
    value = AvroSerializer(theirs, FIRST)({"id": 1, "gone": "x"}, HERE)
    registry = pickle.loads(pickle.dumps(Registry(str(tmp_path))))
    assert [registry.latest(SUBJECT).id, registry.latest(SUBJECT, 1).id] == [2, 1]
    assert avro.registered_decoder(registry, registry.latest(SUBJECT))(value)["id"] == 1
    (tmp_path / SUBJECT / "1.avsc").unlink()
    assert registry.by_id(1).text == FIRST, "workers have what the driver has read"
    with pytest.raises(UnknownSchemaError, match="no schema 9"):
        registry.by_id(9)
    with pytest.raises(RegistryError, match="takes no new schemas"):
        registry.register(SUBJECT, "AVRO", FIRST)


def test_folders_that_are_no_registry(tmp_path: Path) -> None:
    with pytest.raises(PayloadError, match="nor a folder"):
        Registry(str(tmp_path / "nothing"))
    with pytest.raises(PayloadError, match=r"SUBJECT/ID\.avsc"):
        Registry(str(tmp_path))
    for subject in ("a", "b"):
        (tmp_path / subject).mkdir()
        (tmp_path / subject / "1.avsc").write_text(FIRST)
    with pytest.raises(PayloadError, match="the subject a has a schema 1 too"):
        Registry(str(tmp_path))


def test_their_json_is_in_the_wire_format(double: SchemaRegistry) -> None:
    values = json_values(double)
    assert [read_head(value or b"").schema_id for value in values] == [1, 2]
    assert theirs_reads_json(double, values[0] or b"") == {"id": 1, "price": 2.5}


def struct(**kinds: types.DataType) -> types.StructType:
    return types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])


LONG, INT, TEXT = types.LongType(), types.IntegerType(), types.StringType()
COLUMNS = struct(
    id=LONG,
    n=types.ShortType(),
    at=types.TimestampType(),
    tags=types.ArrayType(TEXT),
    home=struct(x=INT, y=types.DoubleType()),
    counts=types.MapType(TEXT, INT),
)
ROW = {"id": 7, "n": None, "at": AT, "tags": ["a"], "home": {"x": 1, "y": None}, "counts": {"a": 1}}


def test_made_avro_is_read_by_theirs(double: SchemaRegistry) -> None:
    text = made_schema("AVRO", COLUMNS, "2-my.orders", None)
    number = double.registry.register(SUBJECT, "AVRO", text)
    value = avro.registered_encoder(double.registry.by_id(number))(ROW)
    assert AvroDeserializer(client(double))(value, HERE) == ROW


def test_made_json_schemas() -> None:
    text = made_schema("JSON", COLUMNS, "orders", None)
    assert json_columns(text).simpleString() == (
        "struct<id:bigint,n:bigint,at:timestamp,tags:array<string>,home:struct<x:bigint,y:double>,"
        "counts:map<string,bigint>>"
    )


def test_made_protobuf_keeps_its_numbers(double: SchemaRegistry) -> None:
    """A field that comes back gets a new one: what was written under the old one is of another meaning."""
    registry = double.registry
    first = RegisteredSchema(1, "PROTOBUF", made_schema("PROTOBUF", COLUMNS, "orders", None))
    value = protobuf.registered_encoder(first, None)({**ROW, "counts": {"a": 1}})
    double.add(SUBJECT, first.text, "PROTOBUF")
    fewer = struct(more=TEXT, home=struct(y=types.DoubleType(), z=INT), id=LONG)
    second = RegisteredSchema(2, "PROTOBUF", made_schema("PROTOBUF", fewer, "orders", first))
    assert "reserved 2, 3, 4, 6;" in second.text
    assert "optional string more = 7;" in second.text
    decode = protobuf.registered_decoder(registry, second, None)
    assert decode(value) == {"more": None, "home": {"y": None, "z": None}, "id": 7}
    again = made_schema("PROTOBUF", struct(id=LONG, n=INT), "orders", second)
    assert "optional int32 n = 8;" in again


@pytest.mark.parametrize(
    ("kind", "column", "said"),
    [
        ("AVRO", types.DayTimeIntervalType(), "Avro has not"),
        ("JSON", types.MapType(INT, INT), "JSON Schema has not"),
        ("PROTOBUF", types.DecimalType(5, 2), "the column c is decimal"),
        ("PROTOBUF", types.ArrayType(types.ArrayType(INT)), "Protobuf has not: cast it"),
    ],
)
def test_columns_that_a_schema_has_not(kind: str, column: types.DataType, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        made_schema(kind, struct(c=column), "t", None)


def test_columns_that_a_schema_wants(double: SchemaRegistry) -> None:
    """As a query's are checked before anything is written."""
    closed = {**JSON_SCHEMA, "additionalProperties": False, "required": ["id"]}
    json_schema = RegisteredSchema(1, "JSON", json.dumps(closed))
    order = protobuf.RegisteredProtobuf(double.registry, proto(PROTO), "Order")
    wanting: list[tuple[RegisteredPayload, types.StructType, str]] = [
        (RegisteredJson(json_schema), struct(id=LONG, wrong=INT), "no field 'wrong'"),
        (RegisteredJson(json_schema), struct(price=types.DoubleType()), "wants a field 'id'"),
        (order, struct(wrong=INT), "no field 'wrong'"),
    ]
    for payload, names, said in wanting:
        with pytest.raises(PayloadError, match=said):
            payload.check_columns(names)
    RegisteredJson(json_schema).check_columns(struct(id=LONG, price=types.DoubleType()))
