"""JSON, by Spark's own parser.

`Json("service STRING, at TIMESTAMP")`: the fields wanted, in SQL's words or as a StructType. Text that is not
JSON and fields of another type are errors; fields that are missing are null, and others are passed over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.spark.payloads.errors import PayloadError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Where Spark puts the text that it could not parse.
_CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class Json:
    """See above."""

    schema: "str | StructType"

    def spark_schema(self) -> "StructType":
        """The fields wanted; Spark's own error where they are not said as it wants them."""
        from pyspark.sql.types import StructType

        found = self.schema if isinstance(self.schema, StructType) else StructType.fromDDL(self.schema)
        if not isinstance(found, StructType):
            raise PayloadError(f"{self.schema!r} names no fields: write NAME TYPE, NAME TYPE, …")
        return found

    def parse(self, value: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        schema = self.spark_schema()
        wanted = StructType([*schema.fields]).add(_CORRUPT, "string")
        text = F.when(F.is_valid_utf8(value), value.cast("string"))
        found = F.from_json(text, wanted, {"columnNameOfCorruptRecord": _CORRUPT})
        is_bad = found[_CORRUPT].isNotNull() | (value.isNotNull() & found.isNull())
        fields = F.struct(*(found[field.name].alias(field.name) for field in schema.fields))
        return F.struct(
            F.when(value.isNotNull() & ~is_bad, fields).alias("data"),
            F.when(~F.is_valid_utf8(value), F.lit("not UTF-8"))
            .when(is_bad, F.lit("not JSON, or a field has another type than the schema says"))
            .alias("error"),
        )

    def format(self, fields: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_json(fields).cast("binary")
