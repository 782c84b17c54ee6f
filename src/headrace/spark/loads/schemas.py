"""A table's schema, from the DataFrame's."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_schema(schema: "StructType") -> Any:
    """In Arrow's words, with timestamps in UTC. Every column may be null: the next batch may have nulls."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    found = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in found])
