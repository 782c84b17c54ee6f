"""A pipeline's DataFrames: inputs as views, the query over them, and what is to be written.

Making them asks Spark to check everything (`check` of the command goes this far and no further), but reads
nothing and needs no broker. A feed with a payload becomes a view of the payload's fields, and a column
`record` with what the record had: key, topic, partition, offset, timestamp. A feed without one has the
source's columns.

A record without a value (a tombstone) deletes what has its key. It is a row of the view where the query names
`tombstone`: its payload's fields are null, but for those that are the output's key, which are the record's.
A row of the result whose column `tombstone` is true goes on as a tombstone, or deletes from a table. A plain
query that does not name it has it carried on (`tombstones.py`); any other, an aggregation as a rule, sees
values only. All are counted, as is what cannot be parsed.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from headrace.schemas.registry import KINDS, RegisteredSchema
from headrace.spark import register
from headrace.spark.checked_ranges import BLOCK_OFFSETS, BLOCKS_MAX
from headrace.spark.client_options import ClusterOptions
from headrace.spark.loads.batches import BatchWriter, TableTarget
from headrace.spark.loads.delta_table import delta_rows
from headrace.spark.loads.stores import session_settings
from headrace.spark.loads.tables import HISTORY_KINDS, SMALL_FILES
from headrace.spark.loads.upserts import TOMBSTONE
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options, write_options
from headrace.spark.payloads import (
    Avro,
    Json,
    Payload,
    PayloadError,
    Protobuf,
    Registry,
    RegistryError,
    UnknownSchemaError,
    dead_letters,
    parsed,
    registered_payload,
)
from headrace.spark.payloads.made_schemas import made_schema
from headrace.spark.pipeline.checked import BAD_BLOCKS, LOOKED_AT, CheckedInput, checked_input
from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.expectations import judged, kept, violations
from headrace.spark.pipeline.graph import dead_letters_query
from headrace.spark.pipeline.queries import QUERY, Functions, run_statements, spark_line, spark_reason
from headrace.spark.pipeline.spec import (
    TABLE_KINDS,
    ExpectSpec,
    InputSpec,
    OutputSpec,
    PayloadSpec,
    PipelineSpec,
)
from headrace.spark.pipeline.tombstones import carrying
from headrace.spark.session import is_connected, own_session
from headrace.spark.sink import SinkError
from headrace.spark.sink.columns import check_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")

FORMAT: Final = "headrace"
# What `runner` finds the count of written rows under.
OBSERVED: Final = "headrace_out"
OBSERVED_IN: Final = "headrace_in_"
# State outside the JVM's heap: it may be large, and transformWithState takes no other.
_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
_FEED_KINDS: Final = ("feed", "feeds")
_SINK_COLUMNS: Final = ("key", "value", "headers", "partition", "topic")


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A streaming query that is ready to be started."""

    name: str
    rows: "DataFrame"
    output: OutputSpec
    checkpoint: str
    table: BatchWriter | None = None
    """Where the output is a table."""
    checked: tuple[CheckedInput, ...] = ()
    """Inputs whose dead letters are told by what this query finds."""
    is_after_main: bool = False
    """It reads what the main queries have told of."""
    pipeline: str = ""
    trigger: Mapping[str, str | bool] | None = None
    """That of its own file, where several files run together."""
    sink: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The sink's options, where the output is a feed."""


def plan(
    spark: "SparkSession", spec: PipelineSpec, brokers: str, *, is_trial: bool = False
) -> list[PlannedQuery]:
    """The pipeline's queries, then one for each feed of dead letters; PipelineError names the line.

    A trial is for what it says of mistakes: nothing is registered for it, and it cannot be run.
    """
    # A session of its own: views and settings of one pipeline are not another's.
    planner = Planner(own_session(spark), spec, spec.brokers or brokers, is_trial=is_trial)
    return [*planner.mains(), *planner.dead()]


Records = Callable[[InputSpec, Mapping[str, str], "Planner"], "DataFrame"]
"""An input's records, by the source's options."""


class Planner:
    """Plans one file. `records` is where inputs come from, which is brokers as a rule."""

    def __init__(
        self,
        spark: "SparkSession",
        spec: PipelineSpec,
        brokers: str,
        records: Records | None = None,
        *,
        is_trial: bool = False,
    ) -> None:
        self._spark = spark
        self._is_trial = is_trial
        self._records = records or self._stream
        self._spec = spec
        self._cluster = ClusterOptions(brokers, spec.clients)
        self._parsed: dict[str, DataFrame] = {}
        self._checked: dict[str, CheckedInput] = {}
        for name, value in {**_SETTINGS, **spec.session}.items():
            if spark.conf.get(name, None) != value:  # what is static was set when Spark was started
                self._blamed(1, partial(spark.conf.set, name, value))
        if any("history" in each.options for each in spec.inputs):
            register(spark)  # again: what opens the table is to know what the file has set
        self._carrying = self._carried()
        self._registry: Registry | None = None
        self._payloads: dict[PayloadSpec, Payload] = {}
        self._inputs = {each.name: self._input(each) for each in spec.inputs}

    def mains(self) -> list[PlannedQuery]:
        from pyspark.sql import functions as F  # noqa: N812

        found = []
        for output, rows in self.results():
            if not rows.isStreaming:
                raise self._error(
                    output.line if output.name else self._spec.header.body_line,
                    "the query reads none of the input feeds",
                )
            rows = self._blamed(output.line, partial(self._outgoing, output, rows))
            counted = rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
            found.append(
                self._planned(
                    f"{self._spec.name}/{output.name}" if output.name else self._spec.name,
                    counted,
                    output,
                    f"query-{output.name}" if output.name else "query",
                    table=self._table(output),
                    checked=tuple(self._checked.values()),
                )
            )
        return found

    def _planned(
        self, name: str, rows: "DataFrame", output: OutputSpec, place: str, **more: Any
    ) -> PlannedQuery:
        return PlannedQuery(
            name,
            rows,
            output,
            f"{self._spec.checkpoint}/{place}",
            pipeline=self._spec.name,
            trigger=self._spec.trigger,
            sink=self._sink_options(output) if output.kind in _FEED_KINDS else {},
            **more,
        )

    def _table(self, output: OutputSpec) -> BatchWriter | None:
        if output.kind not in TABLE_KINDS:
            return None
        return BatchWriter(
            TableTarget(
                output.kind,
                output.place,
                output.partition_by,
                output.files,
                output.schema,
                output.key_columns,
                self._compact(output),
            )
        )

    def _compact(self, output: OutputSpec) -> int | None:
        if output.compact is not None:
            return output.compact or None
        is_endless = "availableNow" not in self._spec.trigger
        return SMALL_FILES if is_endless and output.kind in HISTORY_KINDS else None

    def dead(self) -> list[PlannedQuery]:
        from pyspark.sql import functions as F  # noqa: N812

        found = []
        for each in self._spec.inputs:
            if each.dead_letters is None:
                continue
            both = self._parsed[each.name]
            if each.name in self._checked:
                file = str(self._checked[each.name].log.path)
                both = self._both(each, {**self._source_options(each), "checkedFile": file})
            bad = both.where("error IS NOT NULL")
            rows = dead_letters(bad, columns=bad.select("record.*").columns)
            login = self._cluster.beside_source(each.options)
            output = OutputSpec(each.line, "feed", each.dead_letters, options=login)
            counted = rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
            is_after = each.name in self._checked
            found.append(
                self._planned(
                    dead_letters_query(each.name),
                    counted,
                    output,
                    f"dead-letters-{each.name}",
                    is_after_main=is_after,
                )
            )
        return found

    def bad(self, name: str) -> "DataFrame":
        """The records of an input that cannot be parsed or are not as expected."""
        return self._parsed[name].where("error IS NOT NULL").select("record.*")

    # Inputs

    def _input(self, given: InputSpec) -> "DataFrame":
        rows = self._blamed(given.line, lambda: self._read(given))
        if given.watermark is not None:
            column, delay = given.watermark
            rows = self._blamed(given.line, lambda: rows.withWatermark(column, delay))
        rows.createOrReplaceTempView(given.name)
        return rows

    def _read(self, given: InputSpec) -> "DataFrame":
        if given.files_kind is not None:
            return self._files(given)
        options = self._source_options(given)
        read_options(options, streaming=True)
        if given.payload is None:
            return _counted(given, self._records(given, options, self))
        both = self._both(given, options)
        self._parsed[given.name] = both
        if given.dead_letters is not None and not is_connected(self._spark):
            checked = checked_input(self._spec, given, both.select("record.*").columns)
            if checked is not None:
                self._checked[given.name] = checked
        return self._values(given, both)

    def _stream(self, given: InputSpec, options: Mapping[str, str], _: "Planner") -> "DataFrame":
        return self._spark.readStream.format(FORMAT).options(**options).load()

    def _source_options(self, given: InputSpec) -> dict[str, str]:
        options = {
            "startingOffsets": given.start,
            **({"subscribe": given.topics} if given.pattern is None else {"subscribePattern": given.pattern}),
            **self._cluster.of_source(given.options),
        }
        if given.start.isdecimal():
            options["startingTimestamp"] = options.pop("startingOffsets")
        if given.end is not None:
            options["endingTimestamp"] = given.end
        return options

    def _both(self, given: InputSpec, options: Mapping[str, str]) -> "DataFrame":
        """Records with their payload, or with what is wrong with it."""
        assert given.payload is not None
        records = self._records(given, options, self)
        line = given.payload.line
        if given.payload not in self._payloads:  # dead letters are parsed as the rest, by the same version
            made = self._blamed(line, partial(self.payload, given.payload, given.topics))
            self._payloads[given.payload] = made
        payload = self._payloads[given.payload]
        both = self._blamed(line, lambda: parsed(records, payload))
        return judged(both, given.expects, self._check_expected)

    def _check_expected(self, expected: ExpectSpec, rows: "DataFrame") -> None:
        self._blamed(expected.line, lambda: rows.selectExpr(f"cast(({expected.condition}) AS boolean)"))

    def _values(self, given: InputSpec, both: "DataFrame") -> "DataFrame":
        """The rows of a view; what is left out of it is counted first."""
        from pyspark.sql import functions as F  # noqa: N812

        is_tombstone = F.col("record.value").isNull()
        counted = both.observe(
            OBSERVED_IN + given.name,
            F.count_if(F.col("error").isNotNull()).alias("bad"),
            F.count_if(is_tombstone).alias("tombstones"),
            *violations(given.expects),
            *(self._where_bad() if given.name in self._checked else ()),
        )
        counted = kept(counted, given.expects)
        if not self._sees_tombstones:
            return counted.where("error IS NULL AND data IS NOT NULL").select("data.*", "record")
        good = counted.where("error IS NULL AND (data IS NOT NULL OR record.value IS NULL)")
        record = F.col("record").withField(TOMBSTONE, is_tombstone).alias("record")
        columns = both.select("record.*").columns
        keys = self._key_fields(both.select("data.*").schema) if "key" in columns else {}
        fields = both.select("data.*").columns
        return good.select(
            *(
                F.when(is_tombstone, keys[each]).otherwise(F.col("data")[each]).alias(each)
                if each in keys
                else F.col("data")[each].alias(each)
                for each in fields
            ),
            record,
        )

    def _where_bad(self) -> "list[Column]":
        from pyspark.sql import functions as F  # noqa: N812

        block = (F.col("record.offset") / BLOCK_OFFSETS).cast("long")
        place = F.struct("record.topic", "record.partition", block.alias("block"))
        blocks = F.collect_set(F.when(F.col("error").isNotNull(), place))
        return [
            F.count(F.lit(1)).alias(LOOKED_AT),
            F.slice(blocks, 1, BLOCKS_MAX + 1).alias(BAD_BLOCKS),
        ]

    def _key_fields(self, fields: StructType) -> "dict[str, Column]":
        """What the record's key says about the fields that are the output's key: its text, or where they are
        several, JSON of them."""
        from pyspark.sql import functions as F  # noqa: N812

        text = F.col("record.key").cast("string")
        keyed = next((each for each in self._spec.outputs if each.key is not None), self._spec.output)
        own = [fields[name] for name in keyed.key_columns if name in fields.names]
        if len(own) == 1:
            return {own[0].name: text.try_cast(own[0].dataType)}
        found = F.from_json(text, StructType(own))
        return {each.name: found[each.name] for each in own}

    @property
    def _names_tombstones(self) -> bool:
        return re.search(rf"\b{TOMBSTONE}\b", self._spec.body) is not None

    @property
    def _sees_tombstones(self) -> bool:
        return self._carrying is not None or self._names_tombstones

    def _carried(self) -> str | None:
        """The query with tombstones, where it does not name them and they are to be carried on."""
        output = self._spec.output
        is_wanted = output.kind == "feed" and output.key is not None and output.tombstones == "carry"
        is_one = len(self._spec.outputs) == 1 and not output.source
        if not is_wanted or not is_one or self._spec.is_python or self._names_tombstones:
            return None
        views = frozenset(each.name for each in self._spec.inputs if each.payload is not None)
        return carrying(self._spec.text, views)

    def _files(self, given: InputSpec) -> "DataFrame":
        if given.files_kind == "delta":
            return self._spark.createDataFrame(delta_rows(given.path, session_settings(self._spark)))
        assert given.files_kind is not None, "only files have a kind"
        return self._spark.read.format(given.files_kind).options(**given.options).load(given.path)

    def payload(self, given: PayloadSpec, topic: str, columns: StructType | None = None) -> Payload:
        """Of an input, or with `columns` of an output that has them."""
        if given.registered is not None:
            return self._registered(given, topic, columns)
        if given.kind == "json":
            StructType.fromDDL(given.schema)  # else the error would be of the whole expression
            return Json(given.schema)
        content = Path(given.schema).read_bytes()
        if given.kind == "avro":
            return Avro(content.decode())
        assert given.message is not None, "the spec has checked that a message is named"
        return Protobuf(content, given.message)

    def _registered(self, given: PayloadSpec, topic: str, columns: StructType | None) -> Payload:
        wanted, place = given.registered, self._spec.registry
        assert wanted is not None
        assert place is not None, "the spec has checked that there is a registry"
        if self._registry is None:
            self._registry = self._blamed(
                place.line, lambda: Registry(place.place, place.user, place.password)
            )
        registry, kind = self._registry, KINDS[given.kind]
        subject = wanted.subject or f"{topic}-value"
        if wanted.is_made:
            assert columns is not None, "only an output's schema is made"
            try:
                before = registry.latest(subject)
            except UnknownSchemaError:
                before = None
            if before is not None and before.kind != kind:
                raise PayloadError(f"{subject} is {before.kind}, not {kind}")
            text = made_schema(kind, columns, topic, before)
            if self._is_trial:
                schema = RegisteredSchema(0, kind, text)
            else:
                schema = registry.by_id(registry.register(subject, kind, text))
        else:
            schema = registry.latest(subject, wanted.version)
        if schema.kind != kind:
            raise PayloadError(f"{subject} is {schema.kind}, not {kind}")
        payload = registered_payload(registry, schema, given.message)
        if columns is not None:
            payload.check_columns(columns)
        return payload

    # The queries

    def results(self) -> "list[tuple[OutputSpec, DataFrame]]":
        """The rows of each output, before they are made what is written."""
        outputs = self._spec.outputs
        if self._spec.is_python:
            functions = Functions(self._spec.header, self._spark, self._inputs)
            return [(each, functions.rows(each.source or QUERY)) for each in outputs]
        if len(outputs) == 1 and not outputs[0].source and self._carrying is not None:
            rows = self._carried_rows()
            if rows is not None:
                return [(outputs[0], rows)]
        rows = run_statements(self._spec.header, self._spark)
        return [(each, self._rows_of(each, rows)) for each in outputs]

    def _rows_of(self, output: OutputSpec, rows: "DataFrame | None") -> "DataFrame":
        if not output.source:
            if rows is None:
                raise self._error(output.line, "there is no query for it: write a SELECT behind the views")
            return rows
        if output.source == output.name and rows is not None and len(self._spec.outputs) == 1:
            return rows
        try:
            return self._spark.table(output.source)
        except PySparkException as error:
            raise self._error(
                output.line,
                f"there is no view {output.source!r}: write CREATE TEMPORARY VIEW {output.source} AS …",
            ) from error

    def _carried_rows(self) -> "DataFrame | None":
        """With tombstones; None where Spark does not take the query so."""
        assert self._carrying is not None
        try:
            rows = self._spark.sql(self._carrying)
        except PySparkException:  # wrong without it too, and then that is what to tell; or no plain query
            self._carrying = None
            self._inputs = {each.name: self._input(each) for each in self._spec.inputs}
            return None
        # A key that the query makes of other fields is not known of a tombstone.
        key = self._spec.output.key or ""
        return rows.where(f"NOT {TOMBSTONE} OR `{key}` IS NOT NULL") if key in rows.columns else rows

    # The output

    def _outgoing(self, output: OutputSpec, rows: "DataFrame") -> "DataFrame":
        if output.kind not in _FEED_KINDS:
            for names, purpose in ((output.partition_by, "to partition by"), (output.key_columns, "as key")):
                missing = [name for name in names if name not in rows.columns]
                if missing:
                    raise self._error(output.line, f"the query has no column {missing[0]!r} {purpose}")
            return rows
        rows = _as_records(rows, output, partial(self._output_payload, output))
        topic = output.place if output.kind == "feed" else None
        check_columns(rows.schema, topic)
        write_options(self._sink_options(output))
        return rows

    def _sink_options(self, output: OutputSpec) -> dict[str, str]:
        topic = {"topic": output.place} if output.kind == "feed" else {}
        return {**topic, **self._cluster.of_sink(output.options)}

    def _output_payload(self, output: OutputSpec, columns: StructType) -> Payload:
        if output.payload is None:
            return Json()
        given = output.payload
        return self._blamed(given.line, lambda: self.payload(given, output.place, columns))

    # Errors

    def _error(self, line: int | None, what: str) -> PipelineError:
        return self._spec.header.error(line, what)

    def _blamed(self, line: int, act: Callable[[], T]) -> T:
        """The result of something that the user wrote; what is wrong with it is said with its line."""
        try:
            return act()
        except (OptionError, SinkError, PayloadError, RegistryError, UnknownSchemaError) as error:
            raise self._error(line, str(error)) from error
        except PySparkException as error:
            raise self._error(line, spark_reason(error)) from error
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(line, str(error)) from error


def _counted(given: InputSpec, records: "DataFrame") -> "DataFrame":
    """The records of a feed without a payload; its tombstones are rows as any other, and counted."""
    from pyspark.sql import functions as F  # noqa: N812

    if "value" not in records.columns:
        return records
    return records.observe(OBSERVED_IN + given.name, F.count_if(F.col("value").isNull()).alias("tombstones"))


def _as_records(
    rows: "DataFrame", output: OutputSpec, payload: Callable[[StructType], Payload]
) -> "DataFrame":
    """Rows with the sink's columns: as they are where there is a `value`, else packed as the payload says."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BinaryType, StringType

    if output.key is not None and output.key not in rows.columns:
        raise SinkError(f"the query has no column {output.key!r} to take as key")
    made = {}
    deletes = rows[TOMBSTONE] if is_marked(rows) else None
    has_value = "value" in rows.columns and isinstance(rows.schema["value"].dataType, StringType | BinaryType)
    if not has_value or output.payload is not None:
        own = [name for name in rows.columns if not (output.kind == "feeds" and name == "topic")]
        own = [name for name in own if not (name == TOMBSTONE and deletes is not None)]
        made["value"] = payload(rows.select(*own).schema).format(F.struct(*own))
    if deletes is not None:
        made["value"] = F.when(deletes, F.lit(None)).otherwise(
            made.get("value", F.col("value").cast("binary"))
        )
    if output.key is not None:
        made["key"] = rows[output.key].cast("string")
    kept = [name for name in _SINK_COLUMNS if name in rows.columns and name not in made]
    if (
        "value" in made and not has_value
    ):  # all columns are in the value; only where it goes is said beside it
        kept = ["topic"] if output.kind == "feeds" and "topic" in rows.columns else []
    return rows.select(*kept, *(made[name].alias(name) for name in made))


def is_marked(rows: "DataFrame") -> bool:
    """Whether a column says which rows are tombstones."""
    from pyspark.sql.types import BooleanType

    return TOMBSTONE in rows.columns and isinstance(rows.schema[TOMBSTONE].dataType, BooleanType)


__all__ = [
    "FORMAT",
    "OBSERVED",
    "OBSERVED_IN",
    "PlannedQuery",
    "Planner",
    "plan",
    "spark_line",
    "spark_reason",
]
