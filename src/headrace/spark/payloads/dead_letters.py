"""Records that could not be parsed, as rows for a feed of their own.

A dead letter has the record's own key and value, so that it can be looked at, mended and sent again, and says
in its headers where it came from and what was wrong. A value larger than `VALUE_BYTES_MAX` is cut, since the
feed's brokers would refuse it and the query would stop at the very record that must not stop it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.spark.columns import PLAIN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Below Kafka's usual max.message.bytes, 1 MiB, with room for key and headers.
VALUE_BYTES_MAX: Final = 900 * 1024
_PREFIX: Final = "headrace.dead-letter."
_PLACES: Final = ("topic", "partition", "offset", "timestamp")


def dead_letters(
    rows: "DataFrame", *, columns: Sequence[str] = PLAIN_COLUMNS, value_bytes_max: int = VALUE_BYTES_MAX
) -> "DataFrame":
    """The columns key, value and headers, from rows with `record` and `error`.

    `columns` are those of the record: to be given where the source was not read with its usual ones.

    Headers: headrace.dead-letter.error, .topic, .partition, .offset, .timestamp and, where the value was cut,
    .bytes with its full size. The record's own headers, where they were read, come first.
    """
    from pyspark.sql import functions as F  # noqa: N812

    record = F.col("record")
    said = [_header("error", F.col("error"))]
    said += [_header(name, record[name]) for name in _PLACES if name in columns]
    size = F.octet_length(record["value"])
    cut = F.when(size > value_bytes_max, F.array(_header("bytes", size))).otherwise(F.array())
    own = F.coalesce(record["headers"], F.array()) if "headers" in columns else F.array()
    key = record["key"] if "key" in columns else F.lit(None).cast("binary")
    return rows.select(
        key.alias("key"),
        F.substring(record["value"], 1, value_bytes_max).alias("value"),
        F.concat(own, F.array(*said), cut).alias("headers"),
    )


def _header(name: str, value: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(F.lit(_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
