"""`headrace load`: a feed's backlog into Parquet, Delta or Iceberg, each record once.

Started again, a load goes on where the last one ended, and a batch that was cut off is not doubled.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.connecting import bootstrap_option
from headrace.cli.options import examples, json_option, parse_pairs, parse_time
from headrace.cli.output import human_bytes, note, print_json_line
from headrace.cli.pipeline import end, master_option, opened_session, stop_on_interrupt
from headrace.cli.pipeline_view import open_view

if TYPE_CHECKING:
    from headrace.spark.loads.batches import Loaded

_KINDS: Final = ["parquet", "delta", "iceberg"]


@click.command(
    epilog=examples(
        "headrace load orders /data/orders --to parquet",
        "headrace load orders /data/orders --to delta --partition-by 'date=to_date(timestamp)'",
        "headrace load logs /data/logs --to iceberg --select 'cast(value AS string) AS line' --select offset",
        "headrace load orders /data/orders --to delta --every '1 minute'    # and what comes, until Ctrl-C",
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
@click.option("--checkpoint", metavar="PATH", help="Where progress is kept, if not below PATH.")
@click.option("--every", metavar="INTERVAL", help="Do not end: load what comes, this often.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the source, as read.mode=segments; may be repeated.",
)
@master_option
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
    checkpoint: str | None,
    every: str | None,
    options: tuple[str, ...],
    master: str,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Load the records of TOPIC into the table in the folder PATH.

    Ends where TOPIC ended at the start. The table knows its batches, so a load that is started again, after
    its end or after a crash, adds what is new and doubles nothing.
    """
    place = start if start in ("earliest", "latest") else str(parse_time(start, "--from"))
    with opened_session(f"headrace load {topic}", master) as spark:
        from headrace.spark.loads.feed_load import FeedLoad, run_load
        from headrace.spark.loads.tables import LoadError

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
            checkpoint=checkpoint,
            every=every,
            options=parse_pairs("--option", options),
        )
        done: list[Loaded] = []
        with stop_on_interrupt() as should_stop, open_view(as_json) as view:
            try:
                stop = run_load(
                    spark,
                    plan,
                    tell=view.batch,
                    loaded=done.append,
                    should_stop=should_stop,
                    started=view.started,
                )
            except LoadError as error:
                raise click.ClickException(str(error)) from error
    _tell(done, f"{kind} {path}", as_json)
    end([stop], as_json)


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
