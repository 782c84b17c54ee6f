"""A pipeline's DataFrames: inputs as views, the query over them, and what is to be written.

Making them asks Spark to check everything (`check` of the command goes this far and no further), but reads
nothing and needs no broker. A feed with a payload becomes a view of the payload's fields, and a column
`record` with what the record had: key, topic, partition, offset, timestamp. A feed without one has the
source's columns.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.errors import AnalysisException, ParseException, PySparkException, QueryContextType
from pyspark.sql.types import StructType

from headrace.spark.loads.batches import BatchWriter, TableTarget
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options, write_options
from headrace.spark.payloads import Avro, Json, Payload, PayloadError, Protobuf, dead_letters, parsed
from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.python_query import call_query
from headrace.spark.pipeline.spec import TABLE_KINDS, InputSpec, OutputSpec, PayloadSpec, PipelineSpec
from headrace.spark.sink.columns import check_columns
from headrace.spark.sink.errors import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

FORMAT: Final = "headrace"
# What `runner` finds the count of written rows under.
OBSERVED: Final = "headrace_out"
_DEAD: Final = "dead letters of"
# State outside the JVM's heap: it may be large, and transformWithState takes no other.
_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
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


def plan(spark: "SparkSession", spec: PipelineSpec, brokers: str) -> list[PlannedQuery]:
    """The pipeline's query, then one for each feed of dead letters; PipelineError names the line."""
    # A session of its own: views and settings of one pipeline are not another's.
    planner = _Planner(spark.newSession(), spec, spec.brokers or brokers)
    return [planner.main(), *planner.dead()]


class _Planner:
    def __init__(self, spark: "SparkSession", spec: PipelineSpec, brokers: str) -> None:
        self._spark = spark
        self._spec = spec
        self._brokers = brokers
        self._parsed: dict[str, DataFrame] = {}
        for name, value in {**_SETTINGS, **spec.session}.items():
            self._blamed(1, partial(spark.conf.set, name, value))
        self._inputs = {each.name: self._input(each) for each in spec.inputs}

    def main(self) -> PlannedQuery:
        from pyspark.sql import functions as F  # noqa: N812

        rows = self._query()
        if not rows.isStreaming:
            raise self._error(self._spec.header.body_line, "the query reads none of the input feeds")
        output = self._spec.output
        rows = self._blamed(output.line, lambda: self._outgoing(rows))
        counted = rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
        table = None
        if output.kind in TABLE_KINDS:
            table = BatchWriter(TableTarget(output.kind, output.place, output.partition_by, output.files))
        return PlannedQuery(self._spec.name, counted, output, f"{self._spec.checkpoint}/query", table)

    def dead(self) -> list[PlannedQuery]:
        from pyspark.sql import functions as F  # noqa: N812

        found = []
        for each in self._spec.inputs:
            if each.dead_letters is None:
                continue
            bad = self._parsed[each.name].where("error IS NOT NULL")
            rows = dead_letters(bad, columns=bad.select("record.*").columns)
            output = OutputSpec(each.line, "feed", each.dead_letters)
            counted = rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
            place = f"{self._spec.checkpoint}/dead-letters-{each.name}"
            found.append(PlannedQuery(f"{_DEAD} {each.name}", counted, output, place))
        return found

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
        options = {
            "kafka.bootstrap.servers": self._brokers,
            "startingOffsets": given.start,
            **({"subscribe": given.topics} if given.pattern is None else {"subscribePattern": given.pattern}),
            **given.options,
        }
        if given.start.isdecimal():
            options["startingTimestamp"] = options.pop("startingOffsets")
        read_options(options, streaming=True)
        records = self._spark.readStream.format(FORMAT).options(**options).load()
        if given.payload is None:
            return records
        line = given.payload.line
        payload = self._blamed(line, partial(self._payload, given.payload))
        both = self._blamed(line, lambda: parsed(records, payload))
        self._parsed[given.name] = both
        return both.where("error IS NULL AND data IS NOT NULL").select("data.*", "record")

    def _files(self, given: InputSpec) -> "DataFrame":
        if given.files_kind == "delta":
            from deltalake import DeltaTable

            return self._spark.createDataFrame(DeltaTable(given.path).to_pyarrow_table())
        assert given.files_kind is not None, "only files have a kind"
        return self._spark.read.format(given.files_kind).options(**given.options).load(given.path)

    def _payload(self, given: PayloadSpec) -> Payload:
        if given.kind == "json":
            StructType.fromDDL(given.schema)  # else the error would be of the whole expression
            return Json(given.schema)
        content = Path(given.schema).read_bytes()
        if given.kind == "avro":
            return Avro(content.decode())
        assert given.message is not None, "the spec has checked that a message is named"
        return Protobuf(content, given.message)

    # The query

    def _query(self) -> "DataFrame":
        header = self._spec.header
        if self._spec.is_python:
            return call_query(header, self._spark, self._inputs)
        # The head is comments: with the whole file, lines in errors are the file's.
        try:
            return self._spark.sql(header.text)
        except PySparkException as error:
            raise self._error(
                spark_line(error, header.text) or header.body_line, spark_reason(error)
            ) from error

    # The output

    def _outgoing(self, rows: "DataFrame") -> "DataFrame":
        output = self._spec.output
        if output.kind not in ("feed", "feeds"):
            missing = [name for name in output.partition_by if name not in rows.columns]
            if missing:
                raise self._error(output.line, f"the query has no column {missing[0]!r} to partition by")
            return rows
        rows = _as_records(rows, output, self._payload(output.payload) if output.payload else Json())
        topic = output.place if output.kind == "feed" else None
        check_columns(rows.schema, topic)
        write_options(sink_options(output, self._brokers))
        return rows

    # Errors

    def _error(self, line: int | None, what: str) -> PipelineError:
        return self._spec.header.error(line, what)

    def _blamed(self, line: int, act: Callable[[], T]) -> T:
        """The result of something that the user wrote; what is wrong with it is said with its line."""
        try:
            return act()
        except (OptionError, SinkError, PayloadError) as error:
            raise self._error(line, str(error)) from error
        except PySparkException as error:
            raise self._error(line, spark_reason(error)) from error
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(line, str(error)) from error


def sink_options(output: OutputSpec, brokers: str) -> Mapping[str, str]:
    """What the sink is to be told."""
    topic = {"topic": output.place} if output.kind == "feed" else {}
    return {"kafka.bootstrap.servers": brokers, **topic, **output.options}


def _as_records(rows: "DataFrame", output: OutputSpec, payload: Payload) -> "DataFrame":
    """Rows with the sink's columns: as they are where there is a `value`, else packed as the payload says."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BinaryType, StringType

    if output.key is not None and output.key not in rows.columns:
        raise SinkError(f"the query has no column {output.key!r} to take as key")
    made = {}
    has_value = "value" in rows.columns and isinstance(rows.schema["value"].dataType, StringType | BinaryType)
    if not has_value or output.payload is not None:
        own = [name for name in rows.columns if not (output.kind == "feeds" and name == "topic")]
        made["value"] = payload.format(F.struct(*own))
    if output.key is not None:
        made["key"] = rows[output.key].cast("string")
    kept = [name for name in _SINK_COLUMNS if name in rows.columns and name not in made]
    if "value" in made:  # all columns are in the value; only where it goes is said beside it
        kept = ["topic"] if output.kind == "feeds" and "topic" in rows.columns else []
    return rows.select(*kept, *(made[name].alias(name) for name in made))


_PLACE: Final = re.compile(r"\(line (\d+), pos \d+\)")


def spark_line(error: PySparkException, text: str) -> int | None:
    """The line of the query that Spark complains about."""
    if isinstance(error, ParseException) and (match := _PLACE.search(str(error))):
        return int(match[1])
    if isinstance(error, AnalysisException):
        for context in error.getQueryContext():
            if context.contextType() is QueryContextType.SQL:
                return text.count("\n", 0, context.startIndex()) + 1
    return None


def spark_reason(error: PySparkException) -> str:
    """Spark's message without its class and its drawing of the query."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    first = (
        re.sub(r"^\[[A-Z_.]+\] |\s*SQLSTATE: \w+.*$|\s*\(line \d+, pos \d+\).*$", "", lines[0])
        if lines
        else ""
    )
    return first.strip() or type(error).__name__
