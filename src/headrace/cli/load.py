"""`headrace load`: a feed's backlog into Parquet, Delta or Iceberg, each record once.

Started again, a load goes on where the last one ended, and a batch that was cut off is not doubled.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.command_config import command_config
from headrace.cli.connecting import bootstrap_option, require_topics
from headrace.cli.options import examples, json_option, parse_pairs, parse_time
from headrace.cli.output import human_bytes, note, print_json_line
from headrace.cli.pipeline_run import metrics_option, open_traces, serve_metrics, traces_option
from headrace.cli.pipeline_session import (
    SparkChoice,
    end,
    opened_session,
    spark_options,
    stop_on_interrupt,
    unshared_places,
)
from headrace.cli.pipeline_view import open_view

if TYPE_CHECKING:
    from headrace.spark.loads.batches import Loaded
    from headrace.spark.loads.feed_load import FeedLoad
    from headrace.spark.pipeline.reports import BatchReport
    from headrace.spark.pipeline.runner import StoppedQuery
    from headrace.spark.pipeline.traces import PipelineTraces
    from headrace.spark.pipeline.watch import PipelineWatch

_KINDS: Final = ["parquet", "delta", "iceberg"]
_EVERY: Final = "1 minute"
_COMPACT: Final = 64


@click.command(
    epilog=examples(
        "headrace load orders /data/orders --to parquet",
        "headrace load orders /data/orders --to delta --partition-by 'date=to_date(timestamp)'",
        "headrace load logs /data/logs --to iceberg --select 'cast(value AS string) AS line' --select offset",
        "headrace load orders /data/orders --to delta --continuous     # a history, until Ctrl-C",
    )
)
@click.argument("topic")
@click.argument("path")
@click.option("--to", "kind", type=click.Choice(_KINDS), required=True, help="The kind of table in PATH.")
@click.option(
    "--partition-by",
    "partitions",
    multiple=True,
    metavar="COLUMN[=EXPR]",
    help="A column that the table is partitioned by, or one made for it; may be repeated.",
)
@click.option(
    "--select",
    "columns",
    multiple=True,
    metavar="EXPR",
    help="A column, as SQL; may be repeated. All of the record's if none is given.",
)
@click.option("--where", metavar="EXPR", help="Only rows for which this SQL holds.")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|TIME",
    help="Where the first load begins.",
)
@click.option(
    "--rows-per-batch",
    type=click.IntRange(1),
    default=2_000_000,
    show_default=True,
    metavar="N",
    help="The most rows of a batch: more make fewer and larger files.",
)
@click.option("--files", type=click.IntRange(1), metavar="N", help="The most files of a batch.")
@click.option(
    "--schema",
    type=click.Choice(["evolve", "strict"]),
    default="evolve",
    show_default=True,
    help="What becomes of rows whose columns are not the table's: it gets them where its format can, or "
    "the load is refused.",
)
@click.option("--checkpoint", metavar="PATH", help="Where progress is kept, if not below PATH.")
@click.option(
    "--continuous", is_flag=True, help=f"Do not end: load what comes, every {_EVERY} or as --every says."
)
@click.option("--every", metavar="INTERVAL", help="Do not end: load what comes, this often.")
@click.option(
    "--compact",
    type=click.IntRange(0),
    metavar="N",
    help="Join small files into large ones beside the load, once there are N; 0 never does. Delta and "
    f"Iceberg, by default where a load does not end, with {_COMPACT}.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the source, as read.mode=segments; may be repeated.",
)
@metrics_option
@traces_option
@spark_options
@json_option
@bootstrap_option
def load(
    topic: str,
    path: str,
    kind: str,
    partitions: tuple[str, ...],
    columns: tuple[str, ...],
    where: str | None,
    start: str,
    rows_per_batch: int,
    files: int | None,
    schema: str,
    checkpoint: str | None,
    continuous: bool,
    every: str | None,
    compact: int | None,
    options: tuple[str, ...],
    metrics: tuple[str, int] | None,
    traces: bool,
    choice: SparkChoice,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Load the records of TOPIC into the table in the folder PATH.

    Ends where TOPIC ended at the start. The table knows its batches, so a load that is started again, after
    its end or after a crash, adds what is new and doubles nothing.

    A table of Delta or Iceberg with all records as they are (without --select and --where) is a history: its
    commits say which offsets it holds, and format("headrace") with the option history=PATH reads it and the
    log behind it as one.
    """
    every = every or (_EVERY if continuous else None)
    small_files = _joined_files(kind, compact, is_endless=every is not None)
    place = start if start in ("earliest", "latest") else str(parse_time(start, "--from"))
    if choice.remote is not None:
        raise click.UsageError(
            "A load commits its table by the driver's JVM, which Spark Connect does not give: use --master."
        )
    own, clients = parse_pairs("--option", options), command_config()
    from headrace.spark.client_options import ClusterOptions, client_settings_of

    require_topics(client_settings_of(ClusterOptions(bootstrap, clients).of_source(own)), [topic])
    with opened_session(f"headrace load {topic}", choice) as spark:
        from headrace.spark.loads.feed_load import FeedLoad

        plan = FeedLoad(
            topic,
            kind,
            path if "://" in path else str(Path(path).absolute()),
            bootstrap,
            partition_by=tuple(_partition(each) for each in partitions),
            select=columns,
            where=where,
            start=place,
            rows_per_batch=rows_per_batch,
            files=files,
            schema=schema,
            checkpoint=checkpoint,
            every=every,
            compact=small_files,
            options=own,
            clients=clients,
        )
        for line in unshared_places(spark, places_of(plan), clients):
            note(line)
        done: list[Loaded] = []
        with _watching(plan, metrics, traces) as watchers:
            stop = watchers.ended(_run(spark, plan, done, as_json, watchers))
    _tell(done, f"{kind} {path}", as_json)
    end([stop], as_json)


class _Watchers(ExitStack):
    """Who hears of each batch, beside the one who sits in front."""

    def __init__(self) -> None:
        super().__init__()
        self.watch: PipelineWatch | None = None
        self.traces: PipelineTraces | None = None

    def batch(self, report: "BatchReport") -> None:
        for each in (self.watch, self.traces):
            if each is not None:
                each.batch(report)

    def ended(self, stop: "StoppedQuery") -> "StoppedQuery":
        if self.traces is not None and stop.failure is not None:
            self.traces.failed(stop)
        return stop


def _watching(plan: "FeedLoad", metrics: tuple[str, int] | None, has_traces: bool) -> _Watchers:
    found = _Watchers()
    if metrics is not None:
        from headrace.spark.pipeline.watch import PipelineWatch

        found.watch = PipelineWatch([], plan.edges())
        serve_metrics(found, found.watch, metrics)
    if has_traces:
        found.traces = open_traces(found)
    return found


def _run(
    spark: Any, plan: "FeedLoad", done: "list[Loaded]", as_json: bool, watchers: _Watchers
) -> "StoppedQuery":
    from headrace.spark.loads.feed_load import run_load
    from headrace.spark.loads.tables import LoadError

    with stop_on_interrupt() as should_stop, open_view(as_json) as view:

        def tell(report: "BatchReport") -> None:
            view.batch(report)
            watchers.batch(report)

        try:
            return run_load(
                spark,
                plan,
                tell=tell,
                loaded=done.append,
                should_stop=should_stop,
                started=view.started,
            )
        except LoadError as error:
            raise click.ClickException(str(error)) from error


def places_of(plan: "FeedLoad") -> list[str]:
    """Folders that workers share; the checkpoint lies in the table's unless it is said otherwise."""
    return [plan.path, *([] if plan.checkpoint is None else [plan.checkpoint])]


def _joined_files(kind: str, given: int | None, *, is_endless: bool) -> int | None:
    """How many small files there must be for joining them; None never joins any."""
    if given and kind == "parquet":
        raise click.UsageError("--compact is for Delta and Iceberg: Parquet's readers would see rows twice.")
    if given is None and is_endless and kind != "parquet":
        return _COMPACT
    return given or None


def _tell(done: "list[Loaded]", place: str, as_json: bool) -> None:
    """What the load has added; batches that were in the table already have no rows here."""
    rows, files, size = (
        sum(each.rows for each in done),
        sum(each.files for each in done),
        sum(each.bytes for each in done),
    )
    if as_json:
        print_json_line({"event": "loaded", "rows": rows, "files": files, "bytes": size})
    else:
        note(f"loaded {rows:,} rows in {files:,} files of {human_bytes(size)} into {place}")


def _partition(text: str) -> tuple[str, str | None]:
    name, separator, expression = text.partition("=")
    if not name.strip() or (separator and not expression.strip()):
        raise click.BadParameter(f"{text!r} is not COLUMN or COLUMN=EXPR.", param_hint="'--partition-by'")
    return name.strip(), expression.strip() or None
