"""JSON, by Spark's own parser.

`Json("service STRING, at TIMESTAMP")`: the fields wanted, in SQL's words. Text that is not
JSON and fields of another type are errors; fields that are missing are null, and others are passed over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.schemas.errors import PayloadError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Where Spark puts the text that it could not parse.
_CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class Json:
    """See above."""

    schema: "str | StructType" = ""
    """Wanted for parsing only; fields in SQL's words, or as Spark has them."""

    def parse(self, value: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812

        text = F.when(F.is_valid_utf8(value), value.cast("string"))
        found = F.from_json(text, self._wanted(), {"columnNameOfCorruptRecord": _CORRUPT})
        is_bad = found[_CORRUPT].isNotNull() | (value.isNotNull() & found.isNull())
        fields = found.dropFields(_CORRUPT)
        return F.struct(
            F.when(value.isNotNull() & ~is_bad, fields).alias("data"),
            F.when(~F.is_valid_utf8(value), F.lit("not UTF-8"))
            .when(is_bad, F.lit("not JSON, or a field has another type than the schema says"))
            .alias("error"),
        )

    def _wanted(self) -> "str | StructType":
        """The fields, and one for what cannot be parsed."""
        from pyspark.sql.types import StringType, StructField, StructType

        if isinstance(self.schema, StructType):
            return StructType([*self.schema.fields, StructField(_CORRUPT, StringType())])
        if not self.schema.strip():
            raise PayloadError("the schema names no fields: write NAME TYPE, NAME TYPE, …")
        return f"{self.schema}, {_CORRUPT} STRING"

    def format(self, fields: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812

        return F.to_json(fields).cast("binary")
