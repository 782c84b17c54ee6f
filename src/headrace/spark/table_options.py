"""Options of a table of Spark's catalogue: `CREATE TABLE orders USING headrace OPTIONS (…)`.

Spark gives them to a Python source once, when the table is created and the source is asked for its schema.
Who reads from the table later is handed none (Spark 4.3: `reader` gets an empty mapping), but the schema that
was kept comes back whole. So the options are kept with it, as metadata of the first column. What is given
with a query (`SELECT … FROM orders WITH (startingOffsets = 'earliest')`, `spark.read.options(…).table`) wins.

A column's metadata goes along where the column goes, into files too: secrets are refused there.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from headrace.spark.option_values import OptionError
from headrace.spark.options import user_options
from headrace.spark.secret_options import is_secret

_KEPT: Final = "headrace.options"


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema as it is kept where a table is created; as it is anywhere else."""
    kept = user_options(options)
    if kept is None:
        return schema
    secrets = sorted(name for name in kept if is_secret(name))
    if secrets:
        raise OptionError(
            f"option {secrets[0]} cannot be an option of a table: it would be part of its columns, and of "
            f"files that are made of them. Give it when you read: SELECT … FROM t WITH (`{secrets[0]}` = '…')"
        )
    first, *others = schema.fields
    metadata = {**first.metadata, _KEPT: json.dumps(kept, sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def kept_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """What was kept with a schema, and what is given on top of it."""
    texts = [each.metadata[_KEPT] for each in schema.fields if _KEPT in each.metadata]
    kept = json.loads(texts[0]) if texts else {}
    return {**kept, **{name.lower(): text for name, text in given.items()}}
