"""Values as documents that JSON can say, by the schema that they were written with; for people to read.

Numbers stay numbers, bytes are base64 in an object, times are ISO's. Bytes that are none of their schema are
a ValueError. Hostile bytes are cheap: an array whose items take no bytes could be endless in a few, so a
schema that has one is not read.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from headrace.schemas.avro_schemas import parsed_schema
from headrace.schemas.errors import PayloadError
from headrace.schemas.proto_schemas import descriptor_set, message_class, message_name
from headrace.schemas.registry import KINDS, RegisteredSchema
from headrace.schemas.wire_format import read_indexes

ReadDocument = Callable[[bytes, bytes], Any]
"""Of a payload, and of the path to a Protobuf message where that is not at the payload's beginning."""

_DEPTH_MAX: Final = 64
_TIMESTAMP: Final = "google.protobuf.Timestamp"


def document_reader(schema: RegisteredSchema) -> ReadDocument:
    """PayloadError where the schema cannot be used here."""
    if schema.kind == KINDS["avro"]:
        return _avro(schema)
    if schema.kind == KINDS["protobuf"]:
        return _protobuf(schema)
    if schema.kind == KINDS["json"]:
        return lambda payload, _: json.loads(payload)
    raise PayloadError(f"schema {schema.id} is {schema.kind}, which nobody here can read")


def plain(value: Any) -> Any:
    """As JSON has it; ValueError where it is nested too deep."""
    return _plain(value, 0)


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise ValueError(f"the value is nested more than {_DEPTH_MAX} deep")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        # JSON has no words for the three that are no numbers.
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {str(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, Iterable):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    raise ValueError(f"a {type(value).__name__} has no form in JSON")


# Avro


def _avro(schema: RegisteredSchema) -> ReadDocument:
    form = parsed_schema(schema.text, schema.references)  # says what is missing where fastavro is
    import fastavro

    names = schema_names(form)
    if _has_endless(form, names, set(), {}):
        raise PayloadError(f"schema {schema.id} has an array of items without bytes: it could be endless")
    # The compiled reader goes down the machine's own stack, which has an end and no error: of a schema that
    # contains itself a few thousand bytes would be the end of the process.
    is_deep = _is_recursive(form, names, set(), set())
    read_value = (
        import_module("fastavro._read_py").schemaless_reader if is_deep else fastavro.schemaless_reader
    )

    def read(payload: bytes, _: bytes) -> Any:
        stream = BytesIO(payload)
        try:
            found = read_value(stream, form, None)
        except (EOFError, IndexError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"this is not a value of the schema: {type(error).__name__}") from None
        if stream.read(1):
            raise ValueError("more bytes follow than the schema has")
        return plain(found)

    return read


def schema_names(form: Any) -> Mapping[str, Any]:
    """What the schema's names stand for."""
    for each in form if isinstance(form, list) else [form]:
        if isinstance(each, dict) and "__named_schemas" in each:
            found: Mapping[str, Any] = each["__named_schemas"]
            return found
    return {}


def _inner(form: Any, names: Mapping[str, Any]) -> list[Any]:
    """What a schema is made of; a name is what it stands for."""
    if isinstance(form, str):
        return [names[form]] if form in names else []
    if isinstance(form, list):
        return form
    kind = form["type"]
    if kind in ("record", "error"):
        return [each["type"] for each in form["fields"]]
    if kind == "array":
        return [form["items"]]
    if kind == "map":
        return [form["values"]]
    return [] if isinstance(kind, str) and kind not in names else [kind]


def _name(form: Any) -> str:
    return form if isinstance(form, str) else str(form.get("name", "")) if isinstance(form, dict) else ""


def _is_recursive(form: Any, names: Mapping[str, Any], above: set[str], done: set[str]) -> bool:
    name = _name(form)
    if name in above:
        return True
    if name in done:
        return False
    own = names.get(name, form) if isinstance(form, str) else form
    if isinstance(own, str):
        return False  # a plain type
    above |= {name} if name else set()
    found = any(_is_recursive(each, names, above, done) for each in _inner(own, names))
    above.discard(name)
    done |= {name} if name else set()
    return found


def _has_endless(form: Any, names: Mapping[str, Any], seen: set[str], least: dict[str, int]) -> bool:
    name = _name(form)
    if name in seen:
        return False
    if name and not isinstance(form, str):
        seen.add(name)
    is_array = isinstance(form, dict) and form["type"] == "array"
    if is_array and not _bytes_least(form["items"], names, least):
        return True
    return any(_has_endless(each, names, seen, least) for each in _inner(form, names))


def _bytes_least(form: Any, names: Mapping[str, Any], known: dict[str, int]) -> int:
    """At least so many bytes has a value; that it is more than none is all that is asked for."""
    name = _name(form)
    if isinstance(form, list) or (isinstance(form, str) and form not in names):
        return 0 if form == "null" else 1
    if name in known:
        return known[name]
    own = names[form] if isinstance(form, str) else form
    if name:
        known[name] = 1  # one that contains itself without end has no values
    kind = own["type"]
    if kind == "null" or (kind == "fixed" and not own["size"]):
        found = 0
    elif kind in ("record", "error"):
        found = min(1, sum(_bytes_least(each["type"], names, known) for each in own["fields"]))
    else:
        found = 1 if isinstance(kind, str) and kind not in names else _bytes_least(kind, names, known)
    if name:
        known[name] = found
    return found


# Protobuf


def _protobuf(schema: RegisteredSchema) -> ReadDocument:
    try:
        from google.protobuf.message import DecodeError
    except ImportError:
        raise PayloadError("Protobuf schemas need protobuf: pip install protobuf grpcio-tools") from None
    files = descriptor_set(schema)

    def read(payload: bytes, path: bytes) -> Any:
        indexes, start = read_indexes(path or payload, 0)
        kind = message_class(files, message_name(files, indexes))
        try:
            message = kind.FromString(payload if path else payload[start:])
        except DecodeError as error:
            raise ValueError(f"this is not a {kind.DESCRIPTOR.full_name}: {error}") from None
        return plain(_fields(message))

    return read


def _fields(message: Any) -> Any:
    """By the names that the schema has. What was not set is left out where Protobuf can tell that."""
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        return message.ToJsonString()
    found: dict[str, Any] = {}
    for own in message.DESCRIPTOR.fields:
        value = getattr(message, own.name)
        if own.message_type is not None and own.message_type.GetOptions().map_entry:
            inner = own.message_type.fields_by_name["value"]
            found[own.name] = {str(key): _single(value[key], inner) for key in value}
        elif own.is_repeated:
            found[own.name] = [_single(each, own) for each in value]
        elif not own.has_presence or message.HasField(own.name):
            found[own.name] = _single(value, own)
    return found


def _single(value: Any, own: Any) -> Any:
    if own.message_type is not None:
        return _fields(value)
    if own.enum_type is not None:
        known = own.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
