"""Proposes a pipeline's head from the records of a topic: which payload they have, and which fields.

Values with a schema's id in front are a registry's. JSON objects are looked at field by field: what is only
sometimes there is there, numbers are LONG unless one has a fraction, texts that are all times in ISO's form
are TIMESTAMP, or DATE. What differs from record to record is STRING, which takes any JSON as text.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.schemas.wire_format import HEAD_BYTES, read_head

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_LONG_MAX: Final = (1 << 63) - 1
# Beyond these an object is rather a map from ids to values than one with fields.
_FIELDS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Proposal:
    """What records seem to be: `ids` of schemas, `fields` in SQL's words, and how many are `bad`."""

    records: int
    ids: tuple[int, ...] = ()
    fields: str = ""
    bad: int = 0
    tombstones: int = 0


def propose(values: Iterable[bytes | None]) -> Proposal:
    """Of the values of a topic's records."""
    known = list(values)
    there = [each for each in known if each is not None]
    tombstones = len(known) - len(there)
    heads = [read_head(each).schema_id for each in there if len(each) > HEAD_BYTES and each[0] == 0]
    if there and len(heads) == len(there):
        return Proposal(len(known), tuple(sorted(set(heads))), tombstones=tombstones)
    objects = [each for each in map(_object, there) if each is not None]
    bad = len(there) - len(objects)
    if not objects:
        return Proposal(len(known), bad=bad, tombstones=tombstones)
    kind = _merged([_kind(each) for each in objects])
    if kind[0] != "STRUCT":  # more fields than anybody would name
        return Proposal(len(known), bad=bad, tombstones=tombstones)
    fields = ", ".join(f"{_quoted(name)} {_ddl(each)}" for name, each in kind[1].items())
    return Proposal(len(known), fields=fields, bad=bad, tombstones=tombstones)


def view_name(topic: str) -> str:
    """A name for a view of the topic."""
    name = re.sub(r"\W+", "_", topic, flags=re.ASCII).strip("_").lower()
    return name if name and not name[0].isdecimal() else f"t_{name}"


def proposed_file(topic: str, found: Proposal, payload: str, registry: str | None) -> str:
    """A file that can be run as it is: what comes in, to be looked at. `payload` is that of a registry's
    values, as `avro: registry`."""
    name = view_name(topic)
    lines = [f"registry: {registry}"] if payload and registry else []
    lines += [f"in {name}: feed {topic}"]
    if payload:
        lines.append(f"  {payload}")
    elif found.fields:
        lines.append(f"  json: {found.fields}")
    if found.bad and found.fields:
        lines.append(f"  dead letters: {topic}-dead")
    lines += ["out: console", "trigger: available now"]
    columns = "*" if payload or found.fields else "CAST(key AS STRING), CAST(value AS STRING), timestamp"
    return "\n".join([*(f"-- {line}" for line in lines), "", f"SELECT {columns} FROM {name}", ""])


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# Kinds: ("null",), ("LONG",), ("ARRAY", kind), ("STRUCT", {name: kind}), ("MAP", kind)


def _kind(value: Any) -> Any:
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("BOOLEAN",)
    if isinstance(value, int):
        return ("LONG",) if abs(value) <= _LONG_MAX else ("DECIMAL(38, 0)",)
    if isinstance(value, float):
        return ("DOUBLE",)
    if isinstance(value, str):
        is_time = _TIME.fullmatch(value) is not None
        return ("TIMESTAMP",) if is_time else ("DATE",) if _DATE.fullmatch(value) else ("STRING",)
    if isinstance(value, list):
        return ("ARRAY", _merged([_kind(each) for each in value]))
    return ("STRUCT", {name: _kind(each) for name, each in value.items()})


def _merged(kinds: Sequence[Any]) -> Any:
    own = [each for each in kinds if each[0] != "null"]
    names = {each[0] for each in own}
    if not own:
        return ("null",)
    if names == {"STRUCT"}:
        return _merged_structs([each[1] for each in own])
    if names == {"ARRAY"}:
        return ("ARRAY", _merged([each[1] for each in own]))
    if len(names) == 1:
        return own[0]
    if names <= {"LONG", "DOUBLE", "DECIMAL(38, 0)"}:
        return ("DOUBLE",) if "DOUBLE" in names else ("DECIMAL(38, 0)",)
    if names == {"DATE", "TIMESTAMP"}:
        return ("TIMESTAMP",)
    return ("STRING",)


def _merged_structs(structs: Sequence[dict[str, Any]]) -> Any:
    fields: dict[str, list[Any]] = {}
    for each in structs:
        for name, kind in each.items():
            fields.setdefault(name, []).append(kind)
    if len(fields) > _FIELDS_MAX:
        return ("MAP", _merged([kind for kinds in fields.values() for kind in kinds]))
    return ("STRUCT", {name: _merged(kinds) for name, kinds in fields.items()})


def _ddl(kind: Any) -> str:
    if kind[0] == "ARRAY":
        return f"ARRAY<{_ddl(kind[1])}>"
    if kind[0] == "MAP":
        return f"MAP<STRING, {_ddl(kind[1])}>"
    if kind[0] == "STRUCT":
        if not kind[1]:
            return "MAP<STRING, STRING>"
        return "STRUCT<" + ", ".join(f"{_quoted(name)}: {_ddl(each)}" for name, each in kind[1].items()) + ">"
    return "STRING" if kind[0] == "null" else str(kind[0])


# Words that SQL would not take as names without quotes.
_RESERVED: Final = frozenset(
    (
        *("all", "and", "as", "by", "case", "from", "group", "in", "is", "join", "like", "not", "null"),
        *("on", "or", "order", "select", "where"),
    )
)


def _quoted(name: str) -> str:
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII) and name.lower() not in _RESERVED
    return name if is_plain else "`" + name.replace("`", "``") + "`"
