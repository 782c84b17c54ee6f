"""A feed's backlog into a table: what `headrace load` runs.

It is a streaming query that ends where the feed ended when it began, with its checkpoint in the table's
folder: what was loaded is known, and the next load goes on from there. Batches are large, since each makes
files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from headrace.spark.loads.batches import BatchWriter, Loaded, TableTarget
from headrace.spark.loads.tables import LoadError
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options
from headrace.spark.pipeline.plan import FORMAT, OBSERVED, PlannedQuery, spark_reason
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import Stop, run_queries
from headrace.spark.pipeline.spec import OutputSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BATCH: Final = 2_000_000
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
    checkpoint: str | None = None
    every: str | None = None
    """How often to look for more; without it the load ends where the feed ended when it began."""
    options: Mapping[str, str] | None = None

    @property
    def checkpoint_path(self) -> str:
        return self.checkpoint or f"{self.path.rstrip('/')}/{_CHECKPOINT}"


def run_load(
    spark: "SparkSession",
    load: FeedLoad,
    *,
    tell: Callable[[BatchReport], None],
    loaded: Callable[[Loaded], None],
    should_stop: Callable[[], bool],
    started: Callable[[Sequence[str]], None] = lambda _: None,
) -> Stop:
    """Load until the backlog is done, something fails, or `should_stop` says so.

    LoadError for what cannot be loaded as it was asked for.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = tuple(name for name, _ in load.partition_by)
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
    planned = PlannedQuery(
        f"load of {load.topic}",
        rows,
        OutputSpec(0, load.kind, load.path),
        load.checkpoint_path,
        BatchWriter(TableTarget(load.kind, load.path, names, load.files), tell=loaded),
    )
    trigger: dict[str, str | bool] = (
        {"availableNow": True} if load.every is None else {"processingTime": load.every}
    )
    [stop] = run_queries(
        [planned], trigger, load.brokers, tell=tell, should_stop=should_stop, started=started
    )
    return stop


def _rows(spark: "SparkSession", load: FeedLoad) -> "DataFrame":
    options = {
        "kafka.bootstrap.servers": load.brokers,
        "subscribe": load.topic,
        "startingOffsets": load.start,
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(load.rows_per_batch),
        **(load.options or {}),
    }
    if load.start.isdecimal():
        options["startingTimestamp"] = options.pop("startingOffsets")
    read_options(options, streaming=True)
    rows = spark.readStream.format(FORMAT).options(**options).load()
    if load.where is not None:
        rows = rows.where(load.where)
    made = [f"{expression} AS `{name}`" for name, expression in load.partition_by if expression is not None]
    return rows.selectExpr(*(load.select or ("*",)), *made) if load.select or made else rows
