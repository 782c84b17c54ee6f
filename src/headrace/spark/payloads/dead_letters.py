"""Records that could not be parsed, as rows for a feed of their own.

A dead letter has the record's own key and value, so that it can be looked at, mended and sent again, and says
in its headers where it came from and what was wrong. What is larger than the feed's brokers would take is
cut, or the query would stop at the very record that must not stop it: a value above `VALUE_BYTES_MAX`, a key
above `KEY_BYTES_MAX`; headers of the record's own above `HEADER_BYTES_MAX` are left out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.spark.columns import PLAIN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Together below Kafka's usual max.message.bytes, 1 MiB, with room for what is said in headers.
VALUE_BYTES_MAX: Final = 900 * 1024
KEY_BYTES_MAX: Final = 64 * 1024
HEADER_BYTES_MAX: Final = 32 * 1024
_PREFIX: Final = "headrace.dead-letter."
_PLACES: Final = ("topic", "partition", "offset", "timestamp")


def dead_letters(
    rows: "DataFrame", *, columns: Sequence[str] = PLAIN_COLUMNS, value_bytes_max: int = VALUE_BYTES_MAX
) -> "DataFrame":
    """The columns key, value and headers, from rows with `record` and `error`.

    `columns` are those of the record: to be given where the source was not read with its usual ones.

    Headers: headrace.dead-letter.error, .topic, .partition, .offset, .timestamp and, where something was cut
    or left out, .bytes, .key-bytes, .headers-bytes with its full size. The record's own headers, where they
    were read, come first.
    """
    from pyspark.sql import functions as F  # noqa: N812

    record = F.col("record")
    said = [_header("error", F.col("error"))]
    said += [_header(name, record[name]) for name in _PLACES if name in columns]
    cut = [_cut("bytes", F.octet_length(record["value"]), value_bytes_max)]
    key = F.lit(None).cast("binary")
    if "key" in columns:
        key = F.substring(record["key"], 1, KEY_BYTES_MAX)
        cut.append(_cut("key-bytes", F.octet_length(record["key"]), KEY_BYTES_MAX))
    own = F.array()
    if "headers" in columns:
        size = F.aggregate(record["headers"], F.lit(0), _with_header)
        own = F.when(size <= HEADER_BYTES_MAX, record["headers"]).otherwise(F.array())
        cut.append(_cut("headers-bytes", size, HEADER_BYTES_MAX))
    return rows.select(
        key.alias("key"),
        F.substring(record["value"], 1, value_bytes_max).alias("value"),
        F.concat(own, F.array(*said), *cut).alias("headers"),
    )


def _cut(name: str, size: "Column", most: int) -> "Column":
    """A header with the size of what is larger than that, or none; also where there is nothing."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(size > most, F.array(_header(name, size))).otherwise(F.array())


def _with_header(size: "Column", header: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    return size + F.octet_length(header["key"]) + F.coalesce(F.octet_length(header["value"]), F.lit(0))


def _header(name: str, value: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(F.lit(_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
