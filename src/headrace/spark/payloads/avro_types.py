"""Which Spark type an Avro schema has: as Spark's own Avro reader has it.

A union is a type that may be null, or of numbers of two sizes, which takes the larger; other unions have no
column type and are refused.
"""

from typing import TYPE_CHECKING, Any, Final

from headrace.spark.payloads.errors import PayloadError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

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
    "uuid": "string",
}
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


def spark_type(schema: Any, seen: tuple[str, ...] = ()) -> "DataType":
    """The type of a schema that fastavro has parsed; `seen` are the records around it."""
    from pyspark.sql import types

    if isinstance(schema, list):
        return _union(schema, seen)
    if isinstance(schema, str):
        return _named(schema)
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
            [types.StructField(field["name"], spark_type(field["type"], inner)) for field in schema["fields"]]
        )
    if kind == "array":
        return types.ArrayType(spark_type(schema["items"], seen))
    if kind == "map":
        return types.MapType(types.StringType(), spark_type(schema["values"], seen))
    if kind == "enum":
        return types.StringType()
    if kind == "fixed":
        return types.BinaryType()
    return spark_type(kind, seen)


def _named(name: str) -> "DataType":
    if name not in _PLAIN:
        raise PayloadError(
            f"the Avro type {name} is used twice or contains itself: write it out where it is used"
        )
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


def _union(branches: list[Any], seen: tuple[str, ...]) -> "DataType":
    own = [each for each in branches if each != "null"]
    if len(own) == 1:
        return spark_type(own[0], seen)
    wider = _WIDER.get(frozenset(each for each in own if isinstance(each, str)))
    if wider is not None and len(own) == 2:
        return _simple(_PLAIN[wider])
    names = ", ".join(each if isinstance(each, str) else str(each.get("type")) for each in branches)
    raise PayloadError(f"an Avro union of {names} has no column type: only null and one other type has")
