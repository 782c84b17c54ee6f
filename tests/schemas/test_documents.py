"""Documents by schema: read for people, written back, and hostile bytes and schemas that do no harm."""

import json
from typing import Any

import pytest

from headrace.schemas.document_writing import written
from headrace.schemas.documents import document_reader
from headrace.schemas.errors import PayloadError
from headrace.schemas.registry import RegisteredSchema
from headrace.schemas.wire_format import HEAD_BYTES

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "b", "type": "bytes"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "u",
            "type": ["null", "string", INNER, {"type": "array", "items": "Inner"}],
            "default": None,
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "rates", "type": {"type": "map", "values": "double"}},
        {"name": "parts", "type": {"type": "array", "items": "Order"}},
    ],
}
LEAF: dict[str, Any] = {
    "id": 1 << 60,
    "u": {"b": {"base64": "AAE="}},
    "at": "2026-01-31T12:00:00.005000+00:00",
    "price": "12.30",
    "kind": "B",
    "two": {"base64": "AAE="},
    "day": "2026-01-02",
    "rates": {"x": 1.5},
    "parts": [],
}
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 n = 1; map<string, int32> rates = 2; repeated string names = 3; google.protobuf.Timestamp at = 4;
  optional double d = 5; Inner inner = 6; bytes raw = 7; Kind kind = 8;
  enum Kind { A = 0; B = 1; }
  message Inner { Order order = 1; }
}
"""


def avro(form: Any) -> RegisteredSchema:
    return RegisteredSchema(7, "AVRO", json.dumps(form))


def there_and_back(schema: RegisteredSchema, document: Any) -> Any:
    data = written(schema, json.dumps(document))
    return document_reader(schema)(data[HEAD_BYTES:], b"")


def test_what_is_written_is_read_again() -> None:
    order = {**LEAF, "parts": [LEAF], "u": [{"b": {"base64": "AAE="}}]}
    assert there_and_back(avro(ORDER), order) == order
    proto = {
        "n": 1 << 60,
        "rates": {"x": 4},
        "names": ["q"],
        "at": "2026-01-31T12:00:00Z",
        "d": 0.5,
        "inner": {},
        "raw": {"base64": "AAE="},
        "kind": "B",
    }
    assert there_and_back(RegisteredSchema(7, "PROTOBUF", PROTO), proto) == proto


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "x"}, 'id should be a whole number, as long has them, and is "x"'),
        ({"more": 1}, "the value should be without 'more'"),
        ({"price": "z"}, "price should be a decimal number"),
        ({"two": {"base64": "AA=="}}, "two should be 2 bytes"),
        ({"u": 5}, "u should be null, and is 5; u should be a text"),
        ({"parts": [{"id": 1}]}, "parts.0 should be with a field 'at'"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        written(avro(ORDER), json.dumps({**LEAF, **change}))


def test_hostile_bytes_end_nothing() -> None:
    """A chain of sixty thousand is too deep for the compiled reader's stack, an endless array for time."""
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}
    read = document_reader(avro(chain))
    assert read(b"\2\2\0", b"") == {"next": {"next": {"next": None}}}
    for data in (b"\2" * 60_000 + b"\0", b"\2", b"\0more"):
        with pytest.raises(ValueError, match="schema"):
            read(data, b"")
    empty = {"type": "record", "name": "Empty", "fields": []}
    for items in ("null", empty, {"type": "fixed", "name": "None", "size": 0}):
        with pytest.raises(PayloadError, match="endless"):
            document_reader(avro({"type": "array", "items": items}))
    wide: Any = "int"
    for number in range(40):
        one = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": wide}]}
        wide = {
            **one,
            "fields": [*one["fields"], {"name": "b", "type": f"R{number - 1}" if number else "int"}],
        }
    assert document_reader(avro(wide)), "each is looked at once, however often it is named"
    nested = document_reader(RegisteredSchema(7, "PROTOBUF", PROTO))
    for data in (b"", b"\1", b"\0\x0a", b"\0" + b"\x32\x7f" * 60):
        with pytest.raises(ValueError):  # noqa: PT011
            nested(data, b"")
