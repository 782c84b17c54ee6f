"""Avro, by the `fastavro` library: records as Kafka carries them, without the container file's head.

`Avro(schema)` takes the schema as JSON. With `confluent=True` values begin with a zero byte and a schema's
number, which are passed over: all of them must have been written with this one schema.
"""

import json
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.payloads.avro_types import spark_type
from headrace.spark.payloads.columns import Decoder, Encoder, decoded, encoded
from headrace.spark.payloads.errors import PayloadError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_CONFLUENT_HEAD_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class Avro:
    """See above."""

    schema: str
    confluent: bool = False

    def spark_schema(self) -> "StructType":
        """The payload's fields; PayloadError where the schema is none or not of a record."""
        from pyspark.sql.types import StructType

        found = spark_type(_parsed(self.schema))
        if not isinstance(found, StructType):
            raise PayloadError("the Avro schema must be of a record: only that has fields to make columns of")
        return found

    def parse(self, value: "Column") -> "Column":
        return decoded(value, self.spark_schema(), partial(_decoder, self.schema, self.confluent))

    def format(self, fields: "Column") -> "Column":
        self.spark_schema()
        if self.confluent:
            raise PayloadError(
                "Avro with confluent=True is for reading: there is no registry to number schemas"
            )
        return encoded(fields, partial(_encoder, self.schema))


@lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    import fastavro

    try:
        return fastavro.parse_schema(json.loads(schema))
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise PayloadError(f"this is not an Avro schema: {error}") from error


def _decoder(schema: str, confluent: bool) -> Decoder:
    from fastavro import schemaless_reader

    form = _parsed(schema)

    def decode(value: bytes) -> dict[str, Any]:
        source = BytesIO(value)
        if confluent:
            head = source.read(_CONFLUENT_HEAD_BYTES)
            if len(head) < _CONFLUENT_HEAD_BYTES or head[0]:
                raise ValueError("the value does not begin with a zero byte and a schema's number")
        found: Any = schemaless_reader(source, form, None)
        left = len(value) - source.tell()
        if left:
            raise ValueError(f"{left} bytes are left behind the record")
        return dict(found)

    return decode


def _encoder(schema: str) -> Encoder:
    from fastavro import schemaless_writer

    form = _parsed(schema)

    def encode(row: dict[str, Any]) -> bytes:
        target = BytesIO()
        schemaless_writer(target, form, row)
        return target.getvalue()

    return encode
