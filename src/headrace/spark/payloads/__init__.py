"""What is inside a record's value: JSON, Avro or Protobuf, parsed without a jar and without dying of one.

    from headrace.spark.payloads import Avro, dead_letters, parsed

    records = spark.readStream.format("headrace")…load()
    rows = parsed(records, Avro(schema))
    good = rows.where("error IS NULL").select("data.*", "record.timestamp")
    bad = dead_letters(rows.where("error IS NOT NULL"))     # ready to be written to a feed of its own

Schemas may come from a registry, by the ids that values begin with:

    registry = Registry("http://127.0.0.1:8081")
    rows = parsed(records, registered(registry, "orders-value"))

A value that cannot be parsed is a row with null in `data` and the reason in `error`. A null value (a
tombstone) is no error: both are null.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.schemas.errors import PayloadError, RegistryError, UnknownSchemaError
from headrace.schemas.registry import KINDS, RegisteredSchema, Registry
from headrace.spark.payloads.avro import Avro, RegisteredAvro
from headrace.spark.payloads.dead_letters import dead_letters
from headrace.spark.payloads.json import Json
from headrace.spark.payloads.json_schema import RegisteredJson
from headrace.spark.payloads.protobuf import Protobuf, RegisteredProtobuf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "Avro",
    "Json",
    "Payload",
    "PayloadError",
    "Protobuf",
    "RegisteredPayload",
    "Registry",
    "RegistryError",
    "UnknownSchemaError",
    "dead_letters",
    "parsed",
    "registered",
    "registered_payload",
]


class Payload(Protocol):
    """A format with a schema."""

    def parse(self, value: "Column") -> "Column":
        """Bytes as a struct of `data` (a struct of the payload's fields) and `error`."""
        ...

    def format(self, fields: "Column") -> "Column":
        """A struct as bytes."""
        ...


RegisteredPayload = RegisteredAvro | RegisteredProtobuf | RegisteredJson


def parsed(records: "DataFrame", payload: Payload, column: str = "value") -> "DataFrame":
    """The columns `data`, `error` and `record`, a struct of the columns that there were."""
    from pyspark.sql import functions as F  # noqa: N812

    # Nothing here asks Spark what the columns are: Declarative Pipelines do not allow that.
    both = records.select(payload.parse(F.col(column)).alias("payload"), F.struct("*").alias("record"))
    return both.select("payload.data", "payload.error", "record")


def registered(
    registry: Registry, subject: str, *, version: int | None = None, message: str | None = None
) -> RegisteredPayload:
    """What a subject's values are, read as its latest version or the one named, whichever each was written
    with. `message` is one of a Protobuf schema, its first without it."""
    return registered_payload(registry, registry.latest(subject, version), message)


def registered_payload(
    registry: Registry, schema: RegisteredSchema, message: str | None = None
) -> RegisteredPayload:
    """The same, of a schema that is at hand."""
    if message is not None and schema.kind != KINDS["protobuf"]:
        raise PayloadError(f"schema {schema.id} is {schema.kind}: only Protobuf has messages")
    if schema.kind == KINDS["avro"]:
        return RegisteredAvro(registry, schema)
    if schema.kind == KINDS["protobuf"]:
        return RegisteredProtobuf(registry, schema, message)
    if schema.kind == KINDS["json"]:
        return RegisteredJson(schema)
    raise PayloadError(f"schema {schema.id} is {schema.kind}, which nobody here can read")
