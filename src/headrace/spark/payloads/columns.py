"""Python decoders and encoders as functions on Arrow columns, for formats that Spark has no parser for.

A decoder turns bytes into a dict and raises what is wrong; an encoder does the reverse. Both are made where
they run, once for each process, from something small that can be pickled.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.errors import PayloadError, RegistryError
from headrace.spark.abilities import arrow_schema, needs_newer

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

Decoder = Callable[[bytes], dict[str, Any]]
Encoder = Callable[[dict[str, Any]], bytes]

# A reason, not a document: some parsers repeat the whole value.
_REASON_CHARS_MAX: Final = 300


def decoded(value: "Column", schema: "StructType", make_decoder: Callable[[], Decoder]) -> "Column":
    """Bytes as a struct of `data` and `error`."""
    import pyarrow as pa
    from pyspark.sql.types import StringType, StructType

    kind = pa.struct(list(arrow_schema(schema)))

    def decode(values: pa.Array) -> pa.Array:
        decoder = make_decoder()
        rows: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for each in values:
            data, error = _attempt(decoder, each.as_py())
            rows.append(data)
            errors.append(error)
        return pa.StructArray.from_arrays(
            [_column(rows, errors, kind), pa.array(errors, pa.string())], names=["data", "error"]
        )

    result = StructType().add("data", schema).add("error", StringType())
    # Else a filter on `error` would be pushed below the parsing, and everything parsed twice.
    parse: Any = _arrow_udf()(decode, returnType=result).asNondeterministic()
    found: Column = parse(value)
    return found


def _attempt(decoder: Decoder, value: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    if value is None:
        return None, None
    try:
        return decoder(value), None
    except RegistryError:
        raise
    except Exception as error:
        # Whatever a poisoned record does to a parser, it is one row's error and not the query's.
        return None, f"{type(error).__name__}: {error}"[:_REASON_CHARS_MAX]


def _column(rows: list[dict[str, Any] | None], errors: list[str | None], kind: Any) -> Any:
    """The rows as Arrow; one that its type does not hold (a year 20000) becomes an error of its own."""
    import pyarrow as pa

    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        for at, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                rows[at], errors[at] = None, f"{type(error).__name__}: {error}"[:_REASON_CHARS_MAX]
        return pa.array(rows, kind)


def encoded(fields: "Column", make_encoder: Callable[[], Encoder]) -> "Column":
    """A struct as bytes; what cannot be encoded fails the query, since it is the query's own doing."""
    import pyarrow as pa

    def encode(values: pa.Array) -> pa.Array:
        encoder = make_encoder()
        return pa.array(
            [None if each is None else encoder(each) for each in values.to_pylist(maps_as_pydicts="strict")],
            pa.binary(),
        )

    write: Any = _arrow_udf()(encode, returnType="binary")
    found: Column = write(fields)
    return found


def _arrow_udf() -> Any:
    """Spark's decorator, whose declared types leave structs out."""
    from pyspark.sql.pandas import functions

    found = getattr(functions, "arrow_udf", None)
    if found is None:
        raise PayloadError(needs_newer("a payload by its schema", "4.1", "use that, or `json:` in its place"))
    return found
