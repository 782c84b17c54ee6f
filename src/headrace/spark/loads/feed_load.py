"""A feed's backlog into a table: what `headrace load` runs.

It is a streaming query that ends where the feed ended when it began, with its checkpoint in the table's
folder: what was loaded is known, and the next load goes on from there. Batches are large, since each makes
files.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from headrace.spark.abilities import LIMITS_BATCHES, needs_newer
from headrace.spark.client_options import ClusterOptions
from headrace.spark.loads.batches import BatchWriter, Loaded, TableTarget
from headrace.spark.loads.folders import TableFolder
from headrace.spark.loads.iceberg_catalog import is_in_catalog
from headrace.spark.loads.tables import HISTORY_KINDS, LoadError, arrow_schema, table_at
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options
from headrace.spark.pipeline.graph import QueryEdge
from headrace.spark.pipeline.plan import FORMAT, OBSERVED, OBSERVED_IN, PlannedQuery, spark_reason
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import StoppedQuery, run_queries
from headrace.spark.pipeline.spec import OutputSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.history.held import BatchOffsets

log = logging.getLogger(__name__)

ROWS_PER_BATCH: Final = 2_000_000
PIPELINE: Final = "load"
"""What reports and /metrics of a load have where those of a pipeline have its name."""
_CHECKPOINT: Final = "_headrace/checkpoint"


@dataclass(frozen=True, slots=True)
class FeedLoad:
    """What to load, and where to."""

    topic: str
    kind: str
    path: str
    brokers: str
    partition_by: tuple[tuple[str, str | None], ...] = ()
    """Columns by name, with the expression of those that are made for it."""
    select: tuple[str, ...] = ()
    where: str | None = None
    start: str = "earliest"
    rows_per_batch: int = ROWS_PER_BATCH
    files: int | None = None
    schema: str = "evolve"
    checkpoint: str | None = None
    every: str | None = None
    """How often to look for more; without it the load ends where the feed ended when it began."""
    compact: int | None = None
    """How many small files are joined into large ones beside the load; None leaves them."""
    options: Mapping[str, str] | None = field(default=None, repr=False)
    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of clients, as security.protocol."""

    @property
    def query(self) -> str:
        """The name of its query, in reports."""
        return f"load of {self.topic}"

    def edges(self) -> list[QueryEdge]:
        """What it reads and writes, for /metrics."""
        return [
            QueryEdge(PIPELINE, self.query, "in", "feed", self.topic),
            QueryEdge(PIPELINE, self.query, "out", "table", self.path),
        ]

    @property
    def checkpoint_path(self) -> str:
        """LoadError for a table whose folder is its catalogue's affair."""
        if self.checkpoint is None and is_in_catalog(self.path):
            raise LoadError(
                f"{self.path} is no folder, to keep the load's progress in: say where, --checkpoint"
            )
        return self.checkpoint or f"{self.path.rstrip('/')}/{_CHECKPOINT}"


def run_load(
    spark: "SparkSession",
    load: FeedLoad,
    *,
    tell: Callable[[BatchReport], None],
    loaded: Callable[[Loaded], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> StoppedQuery:
    """Load until the backlog is done, something fails, or `should_stop` says so.

    LoadError for what cannot be loaded as it was asked for.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = tuple(name for name, _ in load.partition_by)
    if not LIMITS_BATCHES:
        log.warning("%s", needs_newer("a limit of rows", "4.2", "a batch of this load has all that is there"))
    try:
        rows = _rows(spark, load)
    except PySparkException as error:
        raise LoadError(spark_reason(error)) from error
    except OptionError as error:
        raise LoadError(str(error)) from error
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise LoadError(f"there is no column {missing[0]!r} to partition by: say how it is made, NAME=EXPR")
    rows = rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
    offsets = _history_offsets(spark, load, rows)
    planned = PlannedQuery(
        load.query,
        rows,
        OutputSpec(0, load.kind, load.path),
        load.checkpoint_path,
        BatchWriter(
            TableTarget(load.kind, load.path, names, load.files, load.schema, compact=load.compact),
            tell=loaded,
            offsets=offsets,
        ),
        pipeline=PIPELINE,
    )
    trigger: dict[str, str | bool] = (
        {"availableNow": True} if load.every is None else {"processingTime": load.every}
    )
    [stop] = run_queries([planned], trigger, tell=tell, should_stop=should_stop, started=started)
    return stop


def _is_history(load: FeedLoad) -> bool:
    """Whether all records are kept as they are, in a format whose commits can say which."""
    return load.kind in HISTORY_KINDS and load.where is None and not load.select


def _history_offsets(
    spark: "SparkSession", load: FeedLoad, rows: "DataFrame"
) -> "Callable[[int], BatchOffsets] | None":
    from headrace.spark.history.snapshot import missing_columns

    if not _is_history(load) or missing_columns(arrow_schema(rows.schema)):
        return None
    from headrace.spark.history.batch_offsets import CheckpointOffsets

    return CheckpointOffsets(spark, load.checkpoint_path, read_options(_options(load), streaming=True))


def _options(load: FeedLoad) -> dict[str, str]:
    """Of the source."""
    options = {
        "subscribe": load.topic,
        "startingOffsets": load.start,
        "includeHeaders": "true",
        **({"maxOffsetsPerTrigger": str(load.rows_per_batch)} if LIMITS_BATCHES else {}),
        **ClusterOptions(load.brokers, load.clients).of_source(load.options or {}),
    }
    if load.start.isdecimal():
        options["startingTimestamp"] = options.pop("startingOffsets")
    return options


def _behind_table(spark: "SparkSession", load: FeedLoad, options: dict[str, str]) -> dict[str, str]:
    """Where the checkpoint is gone, a load goes on where its table ends."""
    from headrace.spark.history.lost_checkpoint import start_behind

    if load.start != "earliest" or TableFolder(spark, load.checkpoint_path).exists("offsets"):
        return {}
    _, table = table_at(spark, load.kind, load.path, ())
    start = start_behind(table, options)
    return {} if start is None else {"startingOffsets": start}


def _rows(spark: "SparkSession", load: FeedLoad) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    options = _options(load)
    read_options(options, streaming=True)
    if _is_history(load):
        options |= _behind_table(spark, load, options)
    rows = spark.readStream.format(FORMAT).options(**options).load()
    if "value" in rows.columns:
        rows = rows.observe(f"{OBSERVED_IN}load", F.count_if(F.col("value").isNull()).alias("tombstones"))
    if load.where is not None:
        rows = rows.where(load.where)
    made = [f"{expression} AS `{name}`" for name, expression in load.partition_by if expression is not None]
    return rows.selectExpr(*(load.select or ("*",)), *made) if load.select or made else rows
