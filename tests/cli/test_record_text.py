"""Records as text, there and back."""

import json
import os

import click
import pytest

from headrace.cli.produce import lines_or_idle
from headrace.cli.record_text import (
    InputRecord,
    parse_json_record,
    parse_text_record,
    record_json,
    record_template,
)
from headrace.clients import ConsumerRecord
from headrace.clients.errors import ClientError


@pytest.mark.parametrize(
    "record",
    [
        ConsumerRecord("t", 1, 5, 1000, b"k", b"v", ()),
        ConsumerRecord("t", 1, 5, 1000, None, None, (("h", b"1"), ("n", None))),
        ConsumerRecord("t", 1, 5, 1000, b"\xff\x00", "ünïcode".encode(), (("h", b"\xfe"),)),
    ],
)
def test_what_is_printed_is_read_back(record: ConsumerRecord) -> None:
    line = json.dumps(record_json(record)).encode()
    assert parse_json_record(line, 1) == InputRecord(record.key, record.value, record.headers, 1, 1000)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"key": "x"}', b'{"value": {"base64": "?"}}', b'{"value": 1, "partition": "x"}']
)
def test_what_is_no_record(line: bytes) -> None:
    with pytest.raises(ClientError, match=r"^line 7 is not a record in JSON"):
        parse_json_record(line, 7)


def test_plain_json_is_a_value_as_it_is() -> None:
    assert parse_json_record(b'{"value": {"a": [1, 2]}}', 1).value == b'{"a":[1,2]}'


def test_text() -> None:
    assert parse_text_record(b"a:b:c", None, 1) == InputRecord(None, b"a:b:c")
    assert parse_text_record(b"a:b:c", b":", 1) == InputRecord(b"a", b"b:c")
    with pytest.raises(ClientError, match=r"line 3 has no key"):
        parse_text_record(b"abc", b":", 3)


def test_lines_are_told_when_the_input_pauses() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        os.write(writing, b"one\r\ntwo\nhal")
        lines = lines_or_idle(stream)
        assert [next(lines), next(lines), next(lines)] == [b"one", b"two", None]
        os.write(writing, b"f")
        os.close(writing)
        assert list(lines) == [b"half"]


def test_a_text_of_ones_own() -> None:
    record = ConsumerRecord("t", 3, 41, 1_700_000_000_000, b"k", b"value", (("a", b"1"), ("b", None)))
    text = r"%t[%p]@%o %T %k/%K %s/%S %h %% \x41\t\\" + "\n"
    assert record_template(text)(record) == b"t[3]@41 1700000000000 k/1 value/5 a=1,b= % A\t\\\n"
    empty = ConsumerRecord("t", 0, 0, 0, None, None, ())
    assert record_template("%k%K %s%S %R")(empty) == b"-1 -1 \xff\xff\xff\xff"


@pytest.mark.parametrize("text", ["%x", "100%", r"\q%s", "plain"])
def test_a_text_without_meaning(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"none of|neither"):
        record_template(text)
