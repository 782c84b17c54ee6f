"""Which columns a written DataFrame has, checked on the driver before any task runs.

They are those of Spark's Kafka connector: `value` must be there; `key`, `headers`, `partition` and `topic`
may be. Other columns are not written. Names are compared as they are, as the connector does it.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from headrace.spark.sink import SinkError

_BYTES: Final = (StringType, BinaryType)
_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """The columns that records are made of."""

    names: tuple[str, ...]  # those that are sent, without `topic`
    has_topic: bool  # whether the column `topic` says where rows go


def check_columns(schema: StructType, topic: str | None) -> WriteColumns:
    """The columns of a schema; SinkError where records cannot be made of it."""
    fields = {field.name: field.dataType for field in schema.fields}
    if "value" not in fields:
        raise SinkError(f"there is no column `value` to write{_instead('value', fields)}: {_ADVICE}")
    for name in ("key", "value"):
        if name in fields and not isinstance(fields[name], _BYTES):
            _refuse(name, fields[name], "string or binary", f"cast({name} AS string)")
    if "partition" in fields and not isinstance(fields["partition"], IntegerType):
        _refuse("partition", fields["partition"], "int", "cast(partition AS int)")
    if "headers" in fields and not _are_headers(fields["headers"]):
        _refuse("headers", fields["headers"], "array<struct<key: string, value: binary>>", "")
    if topic is None:
        _check_topic(fields)
    names = tuple(name for name in ("key", "value", "headers", "partition") if name in fields)
    return WriteColumns(names, has_topic=topic is None)


_ADVICE: Final = (
    "name one with select, as in df.selectExpr('cast(id AS string) AS key', 'to_json(struct(*)) AS value')"
)


def _check_topic(fields: dict[str, DataType]) -> None:
    if "topic" not in fields:
        raise SinkError(
            "nothing says which topic the rows go to: give the option `topic`, or a column `topic`"
            + _instead("topic", fields)
        )
    if not isinstance(fields["topic"], StringType):
        _refuse("topic", fields["topic"], "string", "cast(topic AS string)")


def _refuse(name: str, found: DataType, wanted: str, cast: str) -> None:
    advice = f"; write {cast} AS {name}" if cast else ""
    raise SinkError(f"column `{name}` has type {found.simpleString()}, it must be {wanted}{advice}")


def _are_headers(kind: DataType) -> bool:
    """By types and names, whatever may be null."""
    return kind.simpleString() == _HEADERS.simpleString()


def _instead(name: str, fields: dict[str, DataType]) -> str:
    folded = {each.lower(): each for each in fields}
    near = get_close_matches(name, folded, n=1, cutoff=0.6)
    return f" (there is `{folded[near[0]]}`)" if near else ""
