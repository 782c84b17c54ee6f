"""`headrace pipeline`: run a pipeline's file, or check it.

Ctrl-C lets the batch finish and says where it stopped; a second one does not wait.
"""

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.connecting import bootstrap_option
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import note, print_json_line
from headrace.cli.pipeline_view import open_view

if TYPE_CHECKING:
    from headrace.spark.pipeline.runner import Stop
    from headrace.spark.pipeline.spec import PipelineSpec

_set_option = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="What ${NAME} stands for in the file's head."
)
_file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False))
master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Spark's master; under spark-submit it is the cluster's.",
)


@click.group(
    epilog=examples(
        "headrace pipeline check errors.sql", "headrace pipeline run errors.sql -b kafka.example:9092"
    )
)
def pipeline() -> None:
    """Derive feeds and tables from feeds, by a short file.

    \b
    A file is SQL, or Python with a function `query`, behind a head of comments:
      -- in logs: feed service-logs
      --   json: service STRING, level STRING, at TIMESTAMP
      --   watermark: at, 30 seconds
      --   dead letters: service-logs-dead
      -- out: feed errors-per-minute
      --   key: service
      -- trigger: every 10 seconds
      SELECT service, window.start AS minute, count(*) AS errors
      FROM logs WHERE level = 'ERROR' GROUP BY service, window(at, '1 minute')
    """


@pipeline.command(
    epilog=examples(
        "headrace pipeline run errors.sql",
        "headrace pipeline run errors.sql --json              # a line of JSON for every batch",
        "headrace pipeline run errors.sql --set DAY=2026-01-31",
    )
)
@_file_argument
@_set_option
@master_option
@json_option
@bootstrap_option
def run(file: str, pairs: tuple[str, ...], master: str, as_json: bool, bootstrap: str) -> None:
    """Run the pipeline in FILE until it ends or Ctrl-C.

    With the trigger `available now` it ends when everything that was there is read. Its checkpoint keeps what
    is done: started again, it goes on from there.
    """
    spec = _read(file, pairs)
    with opened_session(f"headrace {spec.name}", master) as spark:
        from headrace.spark.pipeline.errors import PipelineError
        from headrace.spark.pipeline.runner import run

        note(f"checkpoint: {spec.checkpoint}")
        with stop_on_interrupt() as should_stop, open_view(as_json) as view:
            try:
                stops = run(
                    spark, spec, bootstrap, tell=view.batch, should_stop=should_stop, started=view.started
                )
            except PipelineError as error:
                raise click.ClickException(str(error)) from error
    end(stops, as_json)


@pipeline.command(epilog=examples("headrace pipeline check errors.sql"))
@_file_argument
@_set_option
@bootstrap_option
def check(file: str, pairs: tuple[str, ...], bootstrap: str) -> None:
    """Check FILE without running it: the head, the query, and what goes out. No broker is asked."""
    spec = _read(file, pairs)
    with opened_session(f"headrace {spec.name}", "local[1]") as spark:
        from headrace.spark.pipeline.errors import PipelineError
        from headrace.spark.pipeline.plan import plan

        try:
            main, *dead = plan(spark, spec, bootstrap)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
    inputs = ", ".join(each.name for each in spec.inputs)
    click.echo(f"{file}: {inputs} to {main.output.kind} {main.output.place}".rstrip())
    for each in dead:
        click.echo(f"{each.name} to feed {each.output.place}")


@pipeline.command(epilog=examples('eval "$(headrace pipeline environment)" && spark-pipelines run'))
def environment() -> None:
    """Print what Spark's own commands need to know here, for a shell: where Java and Python are."""
    from headrace.spark.session import prepare_environment

    prepare_environment()
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        click.echo(f"export {name}={shlex.quote(os.environ[name])}")


def _read(file: str, pairs: tuple[str, ...]) -> "PipelineSpec":
    from headrace.spark.pipeline.errors import PipelineError
    from headrace.spark.pipeline.spec import read_spec

    variables: Mapping[str, str] = {**os.environ, **parse_pairs("--set", pairs)}
    try:
        return read_spec(file, Path(file).read_text(), variables)
    except PipelineError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def opened_session(name: str, master: str) -> Iterator[Any]:
    """Spark, for as long as it is needed."""
    try:
        from headrace.spark.pipeline.errors import hide_stacks
        from headrace.spark.session import spark_session

        hide_stacks()
        session = spark_session(name, master=master)
    except ImportError as error:
        raise click.ClickException(
            f"Spark is not installed ({error}): pip install 'headrace[spark]'"
        ) from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def stop_on_interrupt() -> Iterator[Any]:
    """Whether to stop, which a first Ctrl-C says; a second one is the usual interrupt.

    Spark's own handler would cancel the batch that runs.
    """
    asked = threading.Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        note("stopping when the batch is done; press Ctrl-C again not to wait for it")

    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def end(stops: "list[Stop]", as_json: bool) -> None:
    """Say where it stopped; exit code 1 where something failed."""
    for stop in stops:
        if as_json:
            print_json_line(stop.as_json())
        elif stop.failure is None:
            note(f"{stop.query}: {_where(stop)}")
    failed = [stop for stop in stops if stop.failure is not None]
    if failed:
        after = "its first batch" if failed[0].last_batch is None else f"batch {failed[0].last_batch}"
        raise click.ClickException(f"{failed[0].query} failed after {after}: {failed[0].failure}")


def _where(stop: "Stop") -> str:
    if stop.last_batch is None:
        return "there was nothing to do"
    ends = ", ".join(
        f"{topic} at {', '.join(f'{partition}:{offset}' for partition, offset in sorted(each.items()))}"
        for topic, each in sorted(stop.ends.items())
    )
    return f"batch {stop.last_batch} is complete" + (f"; read {ends}" if ends else "")
