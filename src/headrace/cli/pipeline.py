"""`headrace pipeline`: run pipelines' files, check and test them, draw them, run them over the past again.

Ctrl-C lets the batch finish and says where it stopped; a second one does not wait.
"""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import bootstrap_option
from headrace.cli.options import examples, json_option
from headrace.cli.output import human_bytes, print_json, print_json_line
from headrace.cli.pipeline_files import files_argument, read_files, set_option, with_clients
from headrace.cli.pipeline_look import graph, infer, test
from headrace.cli.pipeline_replay import replay
from headrace.cli.pipeline_run import metrics_option, run_specs, traces_option
from headrace.cli.pipeline_session import SparkChoice, opened_session, spark_options

if TYPE_CHECKING:
    from headrace.spark.pipeline.plan import PlannedQuery
    from headrace.spark.pipeline.spec import PipelineSpec


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace pipeline check errors.sql", "headrace pipeline run errors.sql -b kafka.example:9092"
    ),
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


for _each in (graph, infer, replay, test):
    pipeline.add_command(_each)


@pipeline.command(
    epilog=examples(
        "headrace pipeline run errors.sql",
        "headrace pipeline run pipelines/                     # all files of a folder, in one session",
        "headrace pipeline run errors.sql --json              # a line of JSON for every batch",
        "headrace pipeline run errors.sql --set DAY=2026-01-31",
        "headrace pipeline run errors.sql --metrics 127.0.0.1:9404",
        "headrace pipeline run errors.sql --master spark://master:7077 --conf spark.executor.memory=4g",
    )
)
@files_argument
@set_option
@metrics_option
@traces_option
@spark_options
@json_option
@bootstrap_option
def run(
    files: tuple[str, ...],
    pairs: tuple[str, ...],
    metrics: tuple[str, int] | None,
    traces: bool,
    choice: SparkChoice,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Run the pipelines in these files, or of these folders, until they end or Ctrl-C.

    With the trigger `available now` one ends when everything that was there is read, and with a `schedule` it
    is run again and again. Checkpoints keep what is done: started again, it goes on from there. The exit code
    is 1 where a query failed or an `alert` stands at the end.
    """
    run_specs(read_files(files, pairs), choice, as_json, bootstrap, metrics, traces)


@pipeline.command(epilog=examples("headrace pipeline check errors.sql", "headrace pipeline check pipelines/"))
@files_argument
@set_option
@json_option
@bootstrap_option
def check(files: tuple[str, ...], pairs: tuple[str, ...], as_json: bool, bootstrap: str) -> None:
    """Check files without running them: the head, the queries, and what goes out. No broker is asked."""
    specs = with_clients(read_files(files, pairs), bootstrap)
    with opened_session(f"headrace {specs[0].name}", SparkChoice("local[1]")) as spark:
        from headrace.spark.pipeline.errors import PipelineError
        from headrace.spark.pipeline.plan import plan

        try:
            planned = [plan(spark, spec, bootstrap, is_trial=True) for spec in specs]
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
    for spec, queries in zip(specs, planned, strict=True):
        _tell_checked(spec, queries, as_json)


def _tell_checked(spec: "PipelineSpec", queries: "list[PlannedQuery]", as_json: bool) -> None:
    if as_json:
        found = [
            {"query": each.name, "kind": each.output.kind, "place": each.output.place} for each in queries
        ]
        inputs = [each.name for each in spec.inputs]
        print_json_line({"file": spec.header.path, "inputs": inputs, "queries": found})
        return
    inputs_text = ", ".join(each.name for each in spec.inputs)
    for each in queries:
        is_dead = each.name.startswith("dead letters of")
        start = each.name if is_dead else f"{spec.header.path}: {inputs_text}"
        click.echo(f"{start} to {each.output.kind} {each.output.place}".rstrip())


@pipeline.command(epilog=examples('eval "$(headrace pipeline environment)" && spark-pipelines run'))
@json_option
def environment(as_json: bool) -> None:
    """Print what Spark's own commands need to know here, for a shell: where Java and Python are."""
    from headrace.spark.session import prepare_environment

    prepare_environment()
    names = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
    if as_json:
        print_json({name: os.environ[name] for name in names})
        return
    for name in names:
        click.echo(f"export {name}={shlex.quote(os.environ[name])}")


@pipeline.command(
    epilog=examples(
        "headrace pipeline pack -o env.tar.gz",
        "headrace pipeline run errors.sql --master yarn --conf spark.archives=env.tar.gz#environment",
        "headrace pipeline pack -o headrace.zip    # for --py-files",
    )
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A .tar.gz with all that workers need, or a .zip with headrace alone.",
)
@click.option(
    "--with",
    "more",
    multiple=True,
    metavar="PACKAGE",
    help="A package that the pipeline's own functions need; may be repeated.",
)
@json_option
def pack(output: Path, more: tuple[str, ...], as_json: bool) -> None:
    """Pack headrace as it is installed here, for workers that have a bare Python.

    A .tar.gz is for Spark's --archives FILE#environment. Workers need a Python of this minor version and the
    same kind of machine. A .zip is for --py-files, where workers lack headrace alone.
    """
    from headrace.spark.packing import PackError
    from headrace.spark.packing import pack as pack_into

    try:
        count = pack_into(output, more)
    except (PackError, OSError) as error:
        raise click.ClickException(str(error)) from error
    size = output.stat().st_size
    if as_json:
        print_json({"file": str(output), "packages": count, "bytes": size})
    else:
        click.echo(f"{output}: {count} packages in {human_bytes(size)}")


@pipeline.command(
    name="submit-script",
    epilog=examples(
        'spark-submit --master yarn "$(headrace pipeline submit-script)" errors.sql -b kafka.example:9092'
    ),
)
@json_option
def submit_script(as_json: bool) -> None:
    """Print the path of the program to give to spark-submit; its arguments are those of `run`."""
    path = str(Path(__file__).parent / "submit" / "headrace_pipeline.py")
    if as_json:
        print_json({"file": path})
    else:
        click.echo(path)
