"""`headrace pipeline replay`: a pipeline once more over a part of the past."""

import time

import click

from headrace.cli.connecting import bootstrap_option
from headrace.cli.options import examples, json_option
from headrace.cli.output import note
from headrace.cli.pipeline_files import read_files, set_option
from headrace.cli.pipeline_run import run_specs
from headrace.cli.pipeline_session import SparkChoice, spark_options


@click.command(
    epilog=examples(
        "headrace pipeline replay errors.sql --from 2026-01-30 --to 2026-01-31T12:00Z --into errors-shadow",
        "headrace pipeline replay orders.sql --from 2026-01-30 --to 2026-01-31    # into the same output",
    )
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--from", "first", required=True, metavar="TIME", help="The time of the first records.")
@click.option("--to", "last", required=True, metavar="TIME", help="The first time that is not read any more.")
@click.option(
    "--into",
    multiple=True,
    metavar="[NAME=]PLACE",
    help="Another topic or table for an output, by its name where there are several.",
)
@set_option
@spark_options
@json_option
@bootstrap_option
def replay(
    file: str,
    first: str,
    last: str,
    into: tuple[str, ...],
    pairs: tuple[str, ...],
    choice: SparkChoice,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Run the pipeline in FILE over records from one time to another, each of its rows written once (but for
    `mode: update` through Spark Connect).

    Times are 2026-01-31, 2026-01-31T12:00Z or milliseconds. The file's own checkpoint is not touched: the
    replay has one of its own, so that it goes on where it was when it is started again.
    """
    [spec] = read_files([file], pairs)
    from headrace.spark.pipeline.replaying import ReplayError, replayed
    from headrace.spark.pipeline.spec import time_ms

    times = []
    for name, text in (("--from", first), ("--to", last)):
        found = time_ms(text)
        if found is None:
            raise click.UsageError(f"{name} {text}: a time is 2026-01-31, 2026-01-31T12:00Z or milliseconds.")
        times.append(found)
    if times[1] > time.time() * 1000:
        raise click.UsageError(f"--to {last} is to come: a replay is of what has been.")
    places = dict(
        (name, place) if sep else ("", each) for each in into for name, sep, place in [each.partition("=")]
    )
    try:
        past = replayed(spec, times[0], times[1], places)
    except ReplayError as error:
        raise click.ClickException(str(error)) from error
    if places and any(each.dead_letters for each in spec.inputs):
        note("dead letters are counted and not written: the output is a shadow")
    run_specs([past], choice, as_json, bootstrap)
