"""What is inside a record's value: JSON, Avro or Protobuf, parsed without a jar and without dying of one.

    from headrace.spark.payloads import Avro, dead_letters, parsed

    records = spark.readStream.format("headrace")…load()
    rows = parsed(records, Avro(schema))
    good = rows.where("error IS NULL").select("data.*", "record.timestamp")
    bad = dead_letters(rows.where("error IS NOT NULL"))     # ready to be written to a feed of its own

A value that cannot be parsed is a row with null in `data` and the reason in `error`. A null value (a
tombstone) is no error: both are null.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.spark.payloads.avro import Avro
from headrace.spark.payloads.dead_letters import dead_letters
from headrace.spark.payloads.errors import PayloadError
from headrace.spark.payloads.json import Json
from headrace.spark.payloads.protobuf import Protobuf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Avro", "Json", "Payload", "PayloadError", "Protobuf", "dead_letters", "parsed"]


class Payload(Protocol):
    """A format with a schema."""

    def parse(self, value: "Column") -> "Column":
        """Bytes as a struct of `data` (a struct of the payload's fields) and `error`."""
        ...

    def format(self, fields: "Column") -> "Column":
        """A struct as bytes."""
        ...


def parsed(records: "DataFrame", payload: Payload, column: str = "value") -> "DataFrame":
    """The columns `data`, `error` and `record`, a struct of the columns that there were."""
    from pyspark.sql import functions as F  # noqa: N812

    # Nothing here asks Spark what the columns are: Declarative Pipelines do not allow that.
    both = records.select(payload.parse(F.col(column)).alias("payload"), F.struct("*").alias("record"))
    return both.select("payload.data", "payload.error", "record")
