"""Fields proposed from records."""

import json
from typing import Any

import pytest

from headrace.spark.pipeline.infer import Proposal, propose, proposed_file, view_name
from headrace.spark.pipeline.spec_reader import read_spec


def values(*rows: Any) -> list[bytes | None]:
    return [row if row is None or isinstance(row, bytes) else json.dumps(row).encode() for row in rows]


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        ([{"id": 1, "n": 2}, {"id": 2, "n": 0.5}], "id LONG, n DOUBLE"),
        ([{"a": None}, {"a": True}, {"b": None}], "a BOOLEAN, b STRING"),
        ([{"at": "2026-01-31T12:00:00Z"}, {"at": "2026-01-31"}], "at TIMESTAMP"),
        ([{"on": "2026-01-31"}], "`on` DATE"),
        ([{"a": "2026-01-31"}, {"a": "yesterday"}], "a STRING"),
        ([{"a": [1, 2.5]}, {"a": []}], "a ARRAY<DOUBLE>"),
        ([{"a": {"x": 1}}, {"a": {"y": "z"}}], "a STRUCT<x: LONG, y: STRING>"),
        ([{"a": {}}], "a MAP<STRING, STRING>"),
        ([{"a": 1}, {"a": {"x": 1}}], "a STRING"),
        ([{"a": 1 << 80}, {"a": 1}], "a DECIMAL(38, 0)"),
        ([{"a-b": 1, "c`d": 2, "select": 3}], "`a-b` LONG, `c``d` LONG, `select` LONG"),
        ([{"by": {f"k{number}": 1 for number in range(600)}}], "`by` MAP<STRING, LONG>"),
    ],
)
def test_fields(rows: list[Any], fields: str) -> None:
    assert propose(values(*rows)).fields == fields


def test_what_is_no_json_is_counted() -> None:
    found = propose(values({"id": 1}, b"{", b"5", b"\xff", None))
    assert found == Proposal(5, fields="id LONG", bad=3, tombstones=1)
    assert propose(values(b"text")) == Proposal(1, bad=1)


def test_ids_of_schemas() -> None:
    found = propose([b"\0\0\0\0\7x", b"\0\0\0\0\3y", None])
    assert (found.ids, found.fields, found.tombstones) == ((3, 7), "", 1)


def test_a_file_that_runs() -> None:
    found = propose(values({"id": 1}, b"{"))
    text = proposed_file("2-my.orders", found, "", None)
    spec = read_spec("p.sql", text, {})
    assert spec.inputs[0].name == view_name("2-my.orders") == "t_2_my_orders"
    assert spec.inputs[0].dead_letters == "2-my.orders-dead"
    registered = proposed_file("orders", Proposal(1, (1,)), "avro: registry", "http://r:1")
    payload = read_spec("p.sql", registered, {}).inputs[0].payload
    assert payload is not None
    assert payload.registered is not None
    plain = read_spec("p.sql", proposed_file("orders", Proposal(1, bad=1), "", None), {})
    assert plain.inputs[0].payload is None
