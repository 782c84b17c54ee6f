"""Which records fit a filter: words, headers, and conditions on JSON."""

import json

import pytest

from headrace.clients import ConsumerRecord
from headrace.console.http_server import RefusedCallError
from headrace.console.message_filter import message_filter, parse_condition

DOCUMENT = {"user": {"name": "Ann", "age": 31, "tags": ["a", "b"]}, "ok": True, "none": None, "a.b": 1}


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ("user.name = Ann", True),
        ('user.name == "Ann"', True),
        ("user.name=ann", False),
        ("$.user.name ~ AN", True),
        ("user.name != Bob", True),
        ("user.age > 30", True),
        ("user.age >= 31", True),
        ("user.age < 31", False),
        ("user.age <= 31", True),
        ("user.age = 31", True),
        ("user.name > Alice", True),
        ("user.age > thirty", False),
        ("user.tags[1] = b", True),
        ("user.tags[2] = b", False),
        ("user.tags[2] != b", True),
        ("['a.b'] = 1", True),
        ("ok = true", True),
        ("ok > 0", False),
        ("none = null", True),
        ("user.phone", False),
        ("user", True),
    ],
)
def test_conditions(condition: str, fits: bool) -> None:
    assert parse_condition(condition).fits(DOCUMENT) is fits


@pytest.mark.parametrize("text", ["=", "= 1", "[", "a[", " > 3"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(RefusedCallError, match="is no condition"):
        parse_condition(text)


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ({}, True),
        ({"q": "ANN"}, True),
        ({"q": "trace"}, True),
        ({"q": "f00"}, True),
        ({"q": "zzz"}, False),
        ({"key": "KEY"}, True),
        ({"key": "ann"}, False),
        ({"value": "Ü"}, True),
        ({"header": "trace"}, True),
        ({"header": "trace=F0"}, True),
        ({"header": "trace=1"}, False),
        ({"header": "other"}, False),
        ({"json": "name = Ann"}, True),
        ({"json": "name = Ann", "key": "none"}, False),
    ],
)
def test_filters(query: dict[str, str], fits: bool) -> None:
    value = json.dumps({"name": "Ann", "city": "Ü"}, ensure_ascii=False).encode()
    record = ConsumerRecord("t", 0, 0, 0, b"Key-1", value, (("trace", b"f00"), ("none", None)))
    assert message_filter(query).fits(record) is fits


def test_what_is_no_json_fits_no_condition() -> None:
    wanted = message_filter({"json": "a != 1"})
    for value in (None, b"", b"{", b"\xff", b"[" * 100_000):
        assert not wanted.fits(ConsumerRecord("t", 0, 0, 0, None, value, ()))


def test_a_filter_has_a_limit() -> None:
    with pytest.raises(RefusedCallError, match="at most"):
        message_filter({"q": "x" * 2000})
