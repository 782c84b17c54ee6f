"""The columns of the source: names, order and types to the letter those of Spark's Kafka connector.

Spark checks the Arrow schema of what a Python source yields field by field, so it is built here in code, once
for each choice of columns, and what the kernels decode (`records.columns.decode`) is fitted to it:
`timestamp_type` is called `timestampType`, and a record without headers has null, not an empty list.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.option_values import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

HEADERS: Final = "headers"
PLAIN_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ALL_COLUMNS: Final = (*PLAIN_COLUMNS, HEADERS)

# What a column is called where the records are decoded.
_DECODED_NAMES: Final = {"timestampType": "timestamp_type"}


def default_columns(*, include_headers: bool) -> tuple[str, ...]:
    """What a reader gets who names no columns."""
    return ALL_COLUMNS if include_headers else PLAIN_COLUMNS


@lru_cache
def _arrow_schema(columns: tuple[str, ...]) -> "pa.Schema":
    import pyarrow as pa  # a process that only plans needs none of it

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([(name, kinds[name]) for name in columns])


def arrow_schema(columns: Sequence[str]) -> "pa.Schema":
    """The Arrow schema of these columns, in this order."""
    return _arrow_schema(tuple(columns))


def spark_schema(columns: Sequence[str]) -> "StructType":
    """The same for Spark."""
    from pyspark.sql import types  # workers read without it

    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    kinds: dict[str, types.DataType] = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        HEADERS: types.ArrayType(header),
    }
    return types.StructType([types.StructField(name, kinds[name]) for name in columns])


def check_schema(given: "StructType", columns: Sequence[str]) -> None:
    """OptionError for a schema of the user's own: the source has these columns and types, and no others."""
    ours = spark_schema(columns).simpleString()
    if given.simpleString() != ours:
        raise OptionError(
            f"the source has a schema of its own, {ours}, and cannot have {given.simpleString()}: leave it "
            "out, and name the columns that are wanted with the option columns"
        )


def decoded_names(columns: Sequence[str]) -> list[str]:
    """What to ask `records.columns.decode` for."""
    return [_DECODED_NAMES.get(name, name) for name in columns]


def fit(batch: Any, columns: Sequence[str]) -> "pa.RecordBatch":
    """Decoded columns (timestamps in µs, `topic` plain) as exactly the source's schema.

    Nothing is copied: only types are renamed, and headers get a validity where some record has none.
    """
    import pyarrow as pa

    schema = arrow_schema(columns)
    arrays = []
    for column, field in zip(batch.columns, schema, strict=True):
        if field.name == HEADERS:
            column = _headers(column, field.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(lists: Any, kind: "pa.DataType") -> "pa.Array":
    """The connector has null where a record has no headers."""
    import numpy as np
    import pyarrow as pa

    # A slice shares its buffers with the whole: what is before it counts as null, and is never seen.
    has = np.zeros(lists.offset + len(lists), bool)
    has[lists.offset :] = np.diff(lists.offsets.to_numpy()) > 0
    null_count = len(lists) - int(np.count_nonzero(has))
    valid = pa.py_buffer(np.packbits(has, bitorder="little")) if null_count else None
    buffers = [valid, lists.buffers()[1]]
    return pa.Array.from_buffers(kind, len(lists), buffers, null_count, lists.offset, [lists.values])
