"""Schemas made of a query's columns, for a registry to number: `avro: registry made` in a pipeline's file.

All fields may be null, since any column may be, so that a column can come or go without breaking readers. A
Protobuf field keeps the number that the version before has for its name; numbers of fields that are gone are
not used again.
"""

import json
import re
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.errors import PayloadError
from headrace.schemas.proto_schemas import descriptor_set, main_file
from headrace.schemas.registry import KINDS, RegisteredSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_AVRO: Final[dict[str, Any]] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_JSON: Final[dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    **{key: {"type": "integer"} for key in ("tinyint", "smallint", "int", "bigint")},
    **{key: {"type": "number"} for key in ("float", "double")},
    "string": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
}
_PROTOBUF: Final = {
    "boolean": "bool",
    **dict.fromkeys(("tinyint", "smallint", "int"), "int32"),
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "timestamp": "google.protobuf.Timestamp",
}


def made_schema(kind: str, columns: "StructType", topic: str, before: RegisteredSchema | None) -> str:
    """The text of a schema of this kind, in the registry's words; PayloadError where a column has no type
    there."""
    name = re.sub(r"\W+", "_", topic).strip("_") or "row"
    name = f"_{name}" if name[0].isdecimal() else name
    if kind == KINDS["avro"]:
        return json.dumps(_avro_record(columns, name))
    if kind == KINDS["json"]:
        return json.dumps({"title": topic, **_json_object(columns)})
    return _proto_file(columns, name, before)


def _refused(path: str, kind: "DataType", what: str) -> PayloadError:
    return PayloadError(f"the column {path} is {kind.simpleString()}, which {what} has not: cast it")


# Avro


def _avro_record(columns: "StructType", name: str) -> dict[str, Any]:
    fields = [
        {
            "name": each.name,
            "type": ["null", _avro_type(each.dataType, f"{name}_{each.name}")],
            "default": None,
        }
        for each in columns.fields
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: "DataType", path: str) -> Any:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return _avro_record(kind, path)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": ["null", _avro_type(kind.elementType, path)]}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": ["null", _avro_type(kind.valueType, path)]}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.simpleString() not in _AVRO:
        raise _refused(path, kind, "Avro")
    return _AVRO[kind.simpleString()]


# JSON Schema


def _json_object(columns: "StructType") -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: _json_type(each.dataType, each.name) for each in columns.fields},
    }


def _json_type(kind: "DataType", path: str) -> Any:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return _json_object(kind)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _json_type(kind.elementType, path)}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "object", "additionalProperties": _json_type(kind.valueType, path)}
    if isinstance(kind, DecimalType):
        return {"type": "number"}
    if kind.simpleString() not in _JSON:
        raise _refused(path, kind, "JSON Schema")
    return _JSON[kind.simpleString()]


# Protobuf


def _proto_file(columns: "StructType", name: str, before: RegisteredSchema | None) -> str:
    former = None
    if before is not None:
        messages = main_file(descriptor_set(before)).message_type
        former = next((each for each in messages if each.name == name), None)
    body = _proto_message(columns, name, former, "")
    imports = 'import "google/protobuf/timestamp.proto";\n' if _PROTOBUF["timestamp"] in body else ""
    return f'syntax = "proto3";\n{imports}{body}'


def _proto_message(columns: "StructType", name: str, former: Any, indent: str) -> str:
    known = {} if former is None else {each.name: each.number for each in former.field}
    gone = [] if former is None else [range(each.start, each.end) for each in former.reserved_range]
    reserved = sorted(
        {number for each, number in known.items() if each not in columns.names}
        | {number for each in gone for number in each}
    )
    last = max([0, *known.values(), *reserved])
    lines, inner = [], []
    for each in columns.fields:
        number = known.get(each.name)
        if number is None:
            last += 1
            number = last
        kind, message = _proto_type(each.dataType, each.name, former, f"{indent}  ")
        inner += [message] if message else []
        lines.append(f"{indent}  {kind} {each.name} = {number};\n")
    said = [f"{indent}  reserved {', '.join(map(str, reserved))};\n"] if reserved else []
    return "".join([f"{indent}message {name} {{\n", *inner, *lines, *said, f"{indent}}}\n"])


def _proto_type(kind: "DataType", path: str, former: Any, indent: str) -> tuple[str, str]:
    """A field's type with its label, and the message that has to be declared for it."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, ArrayType):
        if isinstance(kind.elementType, ArrayType | MapType):
            raise _refused(path, kind, "Protobuf")
        inner, message = _proto_type(kind.elementType, path, former, indent)
        return "repeated " + inner.removeprefix("optional "), message
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        if isinstance(kind.valueType, ArrayType | MapType):
            raise _refused(path, kind, "Protobuf")
        inner, message = _proto_type(kind.valueType, path, former, indent)
        return f"map<string, {inner.removeprefix('optional ')}>", message
    if isinstance(kind, StructType):
        name = f"Of_{path}"
        nested = [] if former is None else former.nested_type
        own = next((each for each in nested if each.name == name), None)
        return f"optional {name}", _proto_message(kind, name, own, indent)
    if kind.simpleString() not in _PROTOBUF:
        raise _refused(path, kind, "Protobuf")
    return f"optional {_PROTOBUF[kind.simpleString()]}", ""
