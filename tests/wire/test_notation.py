"""A declared class is a dataclass with slots, though most of it is made only when asked for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import field
from typing import Annotated

import pytest

from headrace.wire.codec import decode, encode
from headrace.wire.notation import Nullable, Since, Tag, Until, int8, int16, message, schema_of, struct
from headrace.wire.plan import fields_of
from headrace.wire.schemas.heartbeat import HeartbeatRequest


@struct
class Part:
    size: int16 = 1


@message(versions=range(3), flexible_from=2)
class Whole:
    """Something to read and write."""

    name: str = "none"
    parts: Annotated[list[Part], Since(1)] = field(default_factory=list)


def test_it_is_a_dataclass() -> None:
    assert [each.name for each in dataclasses.fields(Whole)] == ["name", "parts"]
    whole = Whole("a", [Part(2)])
    assert repr(whole) == "Whole(name='a', parts=[Part(size=2)])"
    assert whole == Whole(parts=[Part(size=2)], name="a")
    assert whole != Whole("a")
    assert dataclasses.replace(whole, name="b") == Whole("b", [Part(2)])
    assert Whole.__doc__ == "Something to read and write."


def test_comparing_and_showing_work_on_what_a_reader_made() -> None:
    """A reader never calls `__init__`, so these may be the first use of the class."""
    script = (
        "from headrace.wire.codec import decode\n"
        "from headrace.wire.schemas.heartbeat import HeartbeatRequest\n"
        "data = bytes(8)\n"
        "first, second = decode(HeartbeatRequest, 0, data), decode(HeartbeatRequest, 0, data)\n"
        "assert {}\n"
    )
    for check in ("first == second", "repr(first).startswith('HeartbeatRequest(group_id=')", "first != None"):
        subprocess.run([sys.executable, "-c", script.format(check)], check=True, timeout=60)


def test_it_has_slots_and_no_shared_defaults() -> None:
    whole = Whole()
    with pytest.raises(AttributeError):
        whole.other = 1  # type: ignore[attr-defined]
    assert not hasattr(whole, "__dict__")
    assert whole.parts is not Whole().parts


def test_it_is_copied_and_pickled() -> None:
    request = HeartbeatRequest("g", 3)
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_it_is_matched_by_position() -> None:
    match Whole("a"):
        case Whole(name, parts):
            assert (name, parts) == ("a", [])


def test_dataclasses_takes_it_for_one() -> None:
    assert dataclasses.is_dataclass(Part)


def test_its_versions_are_read() -> None:
    assert schema_of(Whole).versions == range(3)
    assert encode(Whole("a"), 0) == b"\0\1a"
    assert encode(Whole("a", [Part(5)]), 1) == b"\0\1a\0\0\0\1\0\5"
    assert encode(Whole("a", [Part(5)]), 2) == b"\2a\2\0\5\0\0"
    assert decode(Whole, 2, b"\2a\2\0\5\0\0") == Whole("a", [Part(5)])
    with pytest.raises(TypeError, match="Part is not a message"):
        schema_of(Part)


def test_a_type_without_a_form_is_named() -> None:
    @message(versions=range(1))
    class Wrong:
        count: int = 0

    with pytest.raises(TypeError, match=r"Wrong\.count.*int8 to int64"):
        fields_of(Wrong)


def test_no_default_no_class() -> None:
    with pytest.raises(KeyError):

        @struct
        class Bare:
            count: int8


def test_marks_of_two_kinds_are_never_equal() -> None:
    """Python 3.11.2 gave `Annotated[int16, Since(3)]` to who asked for `Annotated[int16, Until(3)]` later."""
    marks = [kind(3) for kind in (Since, Until, Tag, Nullable)]
    assert len({*marks}) == len(marks)
