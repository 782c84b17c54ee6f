"""What a pipeline expects of an input's rows: `expect: amount > 0 or drop|fail|dead letters`.

A condition is SQL over the payload's fields, and a row fulfils it where it is true: not where it is unknown.
It is judged before the query sees the row. Of a row that does not, the first such condition decides:

    dead letters   it is as one that cannot be parsed, and the condition is the reason
    drop           the query does not see it
    fail           the query ends, and the error names condition and record

All are counted by condition, whatever is done with them. Tombstones have no fields, and nothing is expected
of them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headrace.spark.pipeline.spec import DEAD_LETTERS, ExpectSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COUNTED: Final = "violates: "
_BROKEN: Final = "__broken"  # of rows on their way: the number of the condition that they do not fulfil


def judged(
    both: "DataFrame", expects: Sequence[ExpectSpec], check: "Callable[[ExpectSpec, DataFrame], None]"
) -> "DataFrame":
    """Rows with `data`, `error` and `record`, and what they do not fulfil; `check` gets each condition's rows
    for itself, so that what is wrong with it can be told."""
    from pyspark.sql import functions as F  # noqa: N812

    if not expects:
        return both
    inside = both.withColumnsRenamed({"data": "__data", "error": "__error"}).select("*", "__data.*")
    for each in expects:
        check(each, inside)
    broken: Column = F.lit(None).cast("int")
    for number, each in reversed(list(enumerate(expects))):
        is_fulfilled = F.coalesce(F.expr(each.condition).cast("boolean"), F.lit(False))
        broken = F.when(~is_fulfilled, F.lit(number)).otherwise(broken)
    has_fields = F.col("__data").isNotNull() & F.col("__error").isNull()
    marked = inside.select("__data", "__error", "record", F.when(has_fields, broken).alias(_BROKEN))
    error = F.col("__error")
    for number, each in enumerate(expects):
        if each.action == DEAD_LETTERS:
            reason = F.lit(f"not as expected: {each.condition}")
            error = F.when(F.col(_BROKEN) == number, reason).otherwise(error)
    return marked.select(F.col("__data").alias("data"), error.alias("error"), "record", _BROKEN)


def violations(expects: Sequence[ExpectSpec]) -> "list[Column]":
    """The counts, by condition."""
    from pyspark.sql import functions as F  # noqa: N812

    return [
        F.count_if(F.col(_BROKEN) == number).alias(COUNTED + each.condition)
        for number, each in enumerate(expects)
    ]


def kept(both: "DataFrame", expects: Sequence[ExpectSpec]) -> "DataFrame":
    """Without the rows that are dropped; to see one that ends the query does so."""
    from pyspark.sql import functions as F  # noqa: N812

    for number, each in enumerate(expects):
        is_broken = F.coalesce(F.col(_BROKEN) == number, F.lit(False))
        if each.action == "drop":
            both = both.where(~is_broken)
        elif each.action == "fail":
            fields = [
                name for name in ("topic", "partition", "offset") if name in both.select("record.*").columns
            ]
            place = F.concat_ws(" ", *(F.col(f"record.{name}").cast("string") for name in fields))
            told = F.concat(F.lit(f"not as expected: {each.condition}: record "), place)
            both = both.where(F.when(is_broken, F.raise_error(told).cast("boolean")).otherwise(F.lit(True)))
    return both
