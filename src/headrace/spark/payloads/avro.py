"""Avro, by the `fastavro` library: records as Kafka carries them, without the container file's head.

`Avro(schema)` takes the schema as JSON. With `confluent=True` values begin with a zero byte and a schema's
number, which are passed over: all of them must have been written with this one schema.

`RegisteredAvro` takes schemas from a registry: each value is read with the schema that it was written with,
as its head says, and resolved to one schema for all (Avro's own rules: names, defaults, wider numbers).
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO, StringIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.avro_schemas import parsed_schema
from headrace.schemas.errors import PayloadError
from headrace.schemas.registry import RegisteredSchema, Registry
from headrace.schemas.wire_format import head_bytes, read_head
from headrace.spark.payloads.columns import Decoder, Encoder, decoded, encoded

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_PLAIN: Final = {
    "null": "void",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


@dataclass(frozen=True, slots=True)
class Avro:
    """See above."""

    schema: str
    confluent: bool = False

    def spark_schema(self) -> "StructType":
        """The payload's fields; PayloadError where the schema is none or not of a record."""
        return _fields(self.schema)

    def parse(self, value: "Column") -> "Column":
        return decoded(value, self.spark_schema(), partial(_decoder, self.schema, self.confluent))

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        if self.confluent:
            raise PayloadError(
                "Avro with confluent=True is for reading: there is no registry to number schemas"
            )
        return encoded(fields, partial(_encoder, self.schema))


@dataclass(frozen=True, slots=True)
class RegisteredAvro:
    """See above. `schema` is the one that all are read as, and the one to write."""

    registry: Registry
    schema: RegisteredSchema

    def spark_schema(self) -> "StructType":
        return _fields(self.schema.text, self.schema.references)

    def parse(self, value: "Column") -> "Column":
        return decoded(value, self.spark_schema(), partial(registered_decoder, self.registry, self.schema))

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        return encoded(fields, partial(registered_encoder, self.schema))

    def check_columns(self, columns: "StructType") -> None:
        """PayloadError where the query's columns cannot be written with the schema."""
        form = parsed_schema(self.schema.text, self.schema.references)
        known = [each["name"] for each in form["fields"]]
        more = [each for each in columns.names if each not in known]
        if more:
            raise PayloadError(f"the schema has no field {more[0]!r}; it has {', '.join(known)}")
        for each in form["fields"]:
            if each["name"] not in columns.names and "default" not in each:
                raise PayloadError(
                    f"the schema wants a field {each['name']!r}, and the query has no such column"
                )


def _fields(schema: str, references: tuple[tuple[str, str], ...] = ()) -> "StructType":
    from pyspark.sql.types import StructType

    form = parsed_schema(schema, references)
    found = spark_type(form, names=form.get("__named_schemas", {}) if isinstance(form, dict) else {})
    if not isinstance(found, StructType):
        raise PayloadError("the Avro schema must be of a record: only that has fields to make columns of")
    return found


@lru_cache(maxsize=64)
def _with_values(schema: str, references: tuple[tuple[str, str], ...]) -> Any:
    """A schema to read as: its defaults, which fastavro hands out as they stand in the JSON, are values."""
    form = deepcopy(parsed_schema(schema, references))
    names = form.get("__named_schemas", {}) if isinstance(form, dict) else {}
    # All are found before any is changed: a default of a record is read by the schema of its fields.
    for own, value in [pair for each in (form, *names.values()) for pair in _defaults(each, names)]:
        own["default"] = value
    return form


def _defaults(form: Any, names: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Fields with a default, and what it means."""
    import fastavro

    if isinstance(form, list):
        for each in form:
            yield from _defaults(each, names)
    elif isinstance(form, dict):
        for own in form.get("fields", ()):
            yield from _defaults(own["type"], names)
            if own.get("default") is not None:
                # A default of a union is of its first branch.
                kind = own["type"][0] if isinstance(own["type"], list) else own["type"]
                alone = fastavro.parse_schema(kind, named_schemas=dict(names), _force=True)
                [value] = fastavro.json_reader(StringIO(json.dumps(own["default"])), alone)
                yield own, value
        for name in ("items", "values"):
            yield from _defaults(form.get(name), names)


def _decoder(schema: str, confluent: bool) -> Decoder:
    form = parsed_schema(schema)

    def decode(value: bytes) -> dict[str, Any]:
        return _read(value, read_head(value).start if confluent else 0, form)

    return decode


def registered_decoder(registry: Registry, schema: RegisteredSchema) -> Decoder:
    """Of values with ids; what it knows of an id it keeps for as long as it lives."""
    wanted = _with_values(schema.text, schema.references)
    written = {schema.id: wanted}

    def decode(value: bytes) -> dict[str, Any]:
        head = read_head(value)
        form = written.get(head.schema_id)
        if form is None:
            found = registry.by_id(head.schema_id)
            if found.kind != "AVRO":
                raise ValueError(f"schema {found.id} is {found.kind}, not AVRO")
            form = written[head.schema_id] = parsed_schema(found.text, found.references)
        return _read(value, head.start, form, None if form is wanted else wanted)

    return decode


def _read(value: bytes, start: int, form: Any, wanted: Any = None) -> dict[str, Any]:
    from fastavro import schemaless_reader

    source = BytesIO(value)
    source.seek(start)
    found: Any = schemaless_reader(source, form, wanted)
    left = len(value) - source.tell()
    if left:
        raise ValueError(f"{left} bytes are left behind the record")
    return dict(found)


def registered_encoder(schema: RegisteredSchema) -> Encoder:
    """Values with the schema's id."""
    return _encoder(schema.text, schema.references, head_bytes(schema.id))


def _encoder(schema: str, references: tuple[tuple[str, str], ...] = (), head: bytes = b"") -> Encoder:
    form = _with_values(schema, references)

    def encode(row: dict[str, Any]) -> bytes:
        return head + written(form, row)

    return encode


def written(form: Any, row: Any) -> bytes:
    """A row by a schema that fastavro has parsed."""
    from fastavro import schemaless_writer

    target = BytesIO()
    # Else a column that the schema does not have would be left out without a word.
    schemaless_writer(target, form, row, strict_allow_default=True)
    return target.getvalue()


def spark_type(
    schema: Any, seen: tuple[str, ...] = (), *, names: Mapping[str, Any] = MappingProxyType({})
) -> "DataType":
    """The type of a schema that fastavro has parsed, as Spark's own Avro reader has it.

    A union is a type that may be null, or of numbers of two sizes, which takes the larger; other unions have
    no column type and are refused. `seen` are the records around it, `names` the types with names.
    """
    from pyspark.sql import types

    if isinstance(schema, list):
        return _union(schema, seen, names)
    if isinstance(schema, str):
        return _named(schema, seen, names)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return types.DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _simple(_LOGICAL[logical])
    if kind == "record":
        if schema["name"] in seen:
            raise PayloadError(f"the Avro record {schema['name']} contains itself, which no column type can")
        inner = (*seen, schema["name"])
        return types.StructType(
            [
                types.StructField(field["name"], spark_type(field["type"], inner, names=names))
                for field in schema["fields"]
            ]
        )
    if kind == "array":
        return types.ArrayType(spark_type(schema["items"], seen, names=names))
    if kind == "map":
        return types.MapType(types.StringType(), spark_type(schema["values"], seen, names=names))
    if kind == "enum":
        return types.StringType()
    if kind == "fixed":
        return types.BinaryType()
    return spark_type(kind, seen, names=names)


def _named(name: str, seen: tuple[str, ...], names: Mapping[str, Any]) -> "DataType":
    if name in seen:
        raise PayloadError(f"the Avro record {name} contains itself, which no column type can")
    if name in names:
        return spark_type(names[name], seen, names=names)
    if name not in _PLAIN:
        raise PayloadError(f"the Avro type {name} is not known: write it out where it is used")
    return _simple(_PLAIN[name])


def _simple(name: str) -> "DataType":
    from pyspark.sql import types

    found: dict[str, types.DataType] = {
        "void": types.NullType(),
        "boolean": types.BooleanType(),
        "integer": types.IntegerType(),
        "long": types.LongType(),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "date": types.DateType(),
        "timestamp": types.TimestampType(),
        "timestamp_ntz": types.TimestampNTZType(),
    }
    return found[name]


def _union(branches: list[Any], seen: tuple[str, ...], names: Mapping[str, Any]) -> "DataType":
    own = [each for each in branches if each != "null"]
    if len(own) == 1:
        return spark_type(own[0], seen, names=names)
    wider = _WIDER.get(frozenset(each for each in own if isinstance(each, str)))
    if wider is not None and len(own) == 2:
        return _simple(_PLAIN[wider])
    kinds = ", ".join(each if isinstance(each, str) else str(each.get("type")) for each in branches)
    raise PayloadError(f"an Avro union of {kinds} has no column type: only null and one other type has")
