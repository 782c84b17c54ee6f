"""Documents that people type, as bytes of a schema: the way back from `documents.py`.

What does not fit the schema is a ValueError that says where. A union takes the first of its kinds that fits.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from io import BytesIO
from typing import Any, Final

from headrace.schemas.avro_schemas import parsed_schema
from headrace.schemas.documents import schema_names
from headrace.schemas.errors import PayloadError
from headrace.schemas.proto_schemas import descriptor_set, message_class, message_name
from headrace.schemas.registry import KINDS, RegisteredSchema
from headrace.schemas.wire_format import head_bytes, indexes_bytes

_TIMES: Final = {
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
}
_BITS: Final = {"int": 31, "long": 63}
_DEPTH_MAX: Final = 64


def written(schema: RegisteredSchema, text: str, indexes: tuple[int, ...] = (0,)) -> bytes:
    """With the schema's id before it, as serializers write it. `indexes` lead to a Protobuf message."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from None
    if schema.kind == KINDS["avro"]:
        return head_bytes(schema.id) + _avro(schema, document)
    if schema.kind == KINDS["protobuf"]:
        return head_bytes(schema.id) + indexes_bytes(indexes) + _protobuf(schema, document, indexes)
    if schema.kind == KINDS["json"]:
        return head_bytes(schema.id) + text.encode()
    raise PayloadError(f"schema {schema.id} is {schema.kind}, which nobody here can write")


def _protobuf(schema: RegisteredSchema, document: Any, indexes: tuple[int, ...]) -> bytes:
    from google.protobuf import json_format

    files = descriptor_set(schema)
    message = message_class(files, message_name(files, indexes))()
    try:
        json_format.ParseDict(_bare(document), message)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None
    return bytes(message.SerializeToString(deterministic=True))


def _bare(value: Any) -> Any:
    """Bytes as Protobuf's own JSON has them."""
    if isinstance(value, dict):
        if set(value) == {"base64"} and isinstance(value["base64"], str):
            return value["base64"]
        return {name: _bare(each) for name, each in value.items()}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _avro(schema: RegisteredSchema, document: Any) -> bytes:
    form = parsed_schema(schema.text, schema.references)
    import fastavro

    found = _typed(form, document, schema_names(form), ())
    stream = BytesIO()
    try:
        fastavro.schemaless_writer(stream, form, found)
    except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError) as error:
        raise ValueError(f"this does not fit the schema: {error}") from None
    return stream.getvalue()


def _typed(form: Any, value: Any, names: Mapping[str, Any], at: tuple[str, ...]) -> Any:
    """The value as the library wants it for this part of a schema."""
    if len(at) > _DEPTH_MAX:
        raise ValueError(f"the value is nested more than {_DEPTH_MAX} deep")
    if isinstance(form, list):
        return _one_of(form, value, names, at)
    if isinstance(form, str):
        return _typed(names[form], value, names, at) if form in names else _scalar(form, "", value, at)
    kind = form["type"]
    if kind in ("record", "error"):
        return _record(form, value, names, at)
    if kind == "array":
        _check(isinstance(value, list), "a list", value, at)
        return [_typed(form["items"], each, names, (*at, str(n))) for n, each in enumerate(value)]
    if kind == "map":
        _check(isinstance(value, dict), "an object", value, at)
        return {name: _typed(form["values"], each, names, (*at, name)) for name, each in value.items()}
    if kind == "enum":
        _check(value in form["symbols"], f"one of {', '.join(form['symbols'])}", value, at)
        return value
    if not isinstance(kind, str) or kind in names:
        return _typed(kind, value, names, at)
    found = _scalar(kind, form.get("logicalType", ""), value, at)
    if kind == "fixed" and isinstance(found, bytes):
        _check(len(found) == form["size"], f"{form['size']} bytes", value, at)
    return found


def _record(form: Any, value: Any, names: Mapping[str, Any], at: tuple[str, ...]) -> dict[str, Any]:
    _check(isinstance(value, dict), "an object", value, at)
    own = {each["name"]: each for each in form["fields"]}
    for name in value:
        _check(name in own, f"without {name!r}: its fields are {', '.join(own)}", value, at)
    for name, each in own.items():
        _check(name in value or "default" in each, f"with a field {name!r}", value, at)
    return {name: _typed(own[name]["type"], each, names, (*at, name)) for name, each in value.items()}


def _one_of(form: list[Any], value: Any, names: Mapping[str, Any], at: tuple[str, ...]) -> Any:
    problems = []
    for each in form:
        try:
            found = _typed(each, value, names, at)
        except ValueError as error:
            problems.append(str(error))
            continue
        own = each if isinstance(each, dict) else names.get(each) if isinstance(each, str) else None
        is_named = isinstance(own, dict) and own["type"] in ("record", "error", "enum", "fixed")
        # The library guesses which of several records it is, unless it is told.
        return (own["name"], found) if is_named and own is not None else found
    raise ValueError("; ".join(problems))


def _scalar(kind: str, logical: str, value: Any, at: tuple[str, ...]) -> Any:
    if kind == "null":
        _check(value is None, "null", value, at)
    elif kind == "boolean":
        _check(isinstance(value, bool), "true or false", value, at)
    elif kind == "string":
        _check(isinstance(value, str), "a text", value, at)
    elif logical in _TIMES:
        return _moment(logical, value, at)
    elif logical == "decimal":
        try:
            _check(isinstance(value, str | int | float), "a decimal number", value, at)
            return Decimal(str(value))
        except InvalidOperation:
            _check(False, "a decimal number", value, at)
    elif kind in _BITS:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        most = 1 << _BITS[kind]
        _check(is_whole and -most <= value < most, f"a whole number, as {kind} has them", value, at)
    elif kind in ("float", "double"):
        _check(isinstance(value, int | float) and not isinstance(value, bool), "a number", value, at)
    else:
        return _bytes(value, at)
    return value


def _moment(logical: str, value: Any, at: tuple[str, ...]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    _check(isinstance(value, str), f"a {logical} as text", value, at)
    try:
        found = _TIMES[logical](value)
    except ValueError:
        _check(False, f"a {logical} as text", value, at)
    if logical.startswith("timestamp") and isinstance(found, datetime) and found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    return found


def _bytes(value: Any, at: tuple[str, ...]) -> bytes:
    given = value.get("base64") if isinstance(value, dict) else None
    _check(isinstance(given, str), 'bytes, as {"base64": "…"}', value, at)
    try:
        return base64.b64decode(str(given), validate=True)
    except binascii.Error:
        raise ValueError(f"{'.'.join(at) or 'the value'} is no base64") from None


def _check(fits: bool, wanted: str, value: Any, at: tuple[str, ...]) -> None:
    if not fits:
        shown = json.dumps(value, ensure_ascii=False)
        raise ValueError(f"{'.'.join(at) or 'the value'} should be {wanted}, and is {shown[:80]}")
