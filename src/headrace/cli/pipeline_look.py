"""`headrace pipeline graph`, `test` and `infer`: what pipelines are, whether they are right, how to begin."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.completion import complete_topics
from headrace.cli.connecting import cluster_options, open_admin, open_consumer
from headrace.cli.options import examples, json_option
from headrace.cli.output import note, print_json, print_json_line
from headrace.cli.pipeline_files import files_argument, read_files, set_option
from headrace.cli.pipeline_session import SparkChoice, opened_session

if TYPE_CHECKING:
    from headrace.spark.pipeline.infer import Proposal

_POLL_S: Final = 0.5


@click.command(
    epilog=examples(
        "headrace pipeline graph pipelines/",
        "headrace pipeline graph pipelines/ --svg pipelines.svg",
    )
)
@files_argument
@set_option
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw it into this file instead of the terminal.",
)
@json_option
def graph(files: tuple[str, ...], pairs: tuple[str, ...], svg: Path | None, as_json: bool) -> None:
    """Draw how rows go from feeds and files through queries to feeds and tables. Nothing is run."""
    specs = read_files(files, pairs)
    from headrace.spark.pipeline.errors import PipelineError
    from headrace.spark.pipeline.graph import as_svg, as_text, graph_of

    try:
        found = graph_of(specs)
    except PipelineError as error:
        raise click.ClickException(str(error)) from error
    if svg is not None:
        svg.write_text(as_svg(found), encoding="utf-8")
        note(f"{svg}: {len(found.nodes)} nodes, {len(found.edges)} edges")
    if as_json:
        print_json(
            {
                "nodes": [{"kind": each.kind, "name": each.name} for each in found.nodes],
                "edges": [{"from": source.label, "to": target.label} for source, target in found.edges],
            }
        )
    elif svg is None:
        for line in as_text(found):
            click.echo(line)


@click.command(
    epilog=examples(
        "headrace pipeline test errors.sql       # the cases in errors.test/",
        "headrace pipeline test pipelines/       # those of all files, in one session",
    )
)
@files_argument
@set_option
@json_option
def test(files: tuple[str, ...], pairs: tuple[str, ...], as_json: bool) -> None:
    """Run files over sample records, and compare what comes out with what is expected.

    \b
    Beside errors.sql, with an input `logs`:
      errors.test/CASE/logs.jsonl        records, one a line
      errors.test/CASE/expected.jsonl    the rows that come out
    """
    specs = read_files(files, pairs)
    from headrace.spark.pipeline.samples import SampleError, cases_of, run_case

    cases = [(spec, case) for spec in specs for case in cases_of(spec.header.path)]
    if not cases:
        path = Path(specs[0].header.path).with_suffix(".test")
        raise click.ClickException(f"there are no samples: write {path}/CASE/expected.jsonl")
    failed = 0
    with opened_session("headrace pipeline test", SparkChoice("local[2]")) as spark:
        from headrace.spark.pipeline.errors import PipelineError

        for spec, case in cases:
            try:
                result = run_case(spark, spec, case)
            except (PipelineError, SampleError) as error:
                raise click.ClickException(str(error)) from error
            failed += bool(result.differences)
            if as_json:
                print_json_line(result.as_json())
                continue
            word = "differs" if result.differences else f"ok, {result.rows} rows"
            click.echo(f"{result.file} {result.case}: {word}")
            for line in result.differences:
                click.echo(f"  {line}")
    if failed:
        raise click.ClickException(f"{failed} of {len(cases)} cases differ")


@click.command(
    epilog=examples(
        "headrace pipeline infer orders > orders.sql && headrace pipeline run orders.sql",
        "headrace pipeline infer orders --registry http://127.0.0.1:8081",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--records", default=1000, show_default=True, type=click.IntRange(1), help="How many are looked at."
)
@click.option("--registry", metavar="URL", help="The schema registry, or a folder of schemas.")
@json_option
@cluster_options
def infer(
    topic: str, records: int, registry: str | None, as_json: bool, bootstrap: str, request_timeout_ms: int
) -> None:
    """Look at records of TOPIC and propose a pipeline's file with their fields."""
    from headrace.spark.pipeline.infer import propose, proposed_file

    values = list(_values(topic, records, bootstrap, request_timeout_ms))
    if not values:
        raise click.ClickException(f"{topic} has no records to look at")
    found = propose(values)
    payload = _registered(found, topic, registry) if found.ids else ""
    if as_json:
        print_json(
            {
                "topic": topic,
                "records": found.records,
                "fields": found.fields,
                "schema_ids": list(found.ids),
                "payload": payload,
                "bad": found.bad,
                "tombstones": found.tombstones,
            }
        )
        return
    note(
        f"{found.records} records: {found.bad} are no JSON objects, {found.tombstones} are tombstones"
        if not found.ids
        else f"{found.records} records, with schemas {', '.join(map(str, found.ids))}"
    )
    click.echo(proposed_file(topic, found, payload, registry), nl=False)


def _registered(found: "Proposal", topic: str, place: str | None) -> str:
    """How the payload of values with ids is said in a file."""
    from headrace.schemas.registry import KINDS
    from headrace.spark.payloads import PayloadError, Registry, RegistryError, UnknownSchemaError

    if place is None:
        raise click.ClickException(
            f"the values of {topic} begin with ids of schemas ({', '.join(map(str, found.ids))}): say with "
            "--registry where those are"
        )
    try:
        registry = Registry(place)
        kinds = {registry.by_id(each).kind for each in found.ids}
    except (PayloadError, RegistryError, UnknownSchemaError) as error:
        raise click.ClickException(str(error)) from error
    words = [word for word, kind in KINDS.items() if kind in kinds]
    if len(kinds) != 1 or not words:
        raise click.ClickException(
            f"the values of {topic} are {' and '.join(sorted(kinds))}: which is meant?"
        )
    try:
        registry.latest(f"{topic}-value")
        return f"{words[0]}: registry"
    except UnknownSchemaError:
        note(f"there is no subject {topic}-value: say which one it is")
        return f"{words[0]}: registry subject NAME"


def _values(topic: str, most: int, bootstrap: str, timeout_ms: int) -> Iterator[bytes | None]:
    """Of the first records of each partition, as many of one as of another."""
    from headrace.base.ids import TopicPartition
    from headrace.clients import OffsetSpec

    with open_admin(bootstrap, timeout_ms) as admin:
        [described] = admin.describe_topics([topic])
        partitions = [TopicPartition(topic, number) for number in range(len(described.partitions))]
        first, last = (
            {
                each: found.offset
                for each, found in admin.list_offsets(dict.fromkeys(partitions, spec)).items()
            }
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
    share = -(-most // len(partitions))
    left = {each: min(last[each], first[each] + share) for each in partitions if first[each] < last[each]}
    with open_consumer(bootstrap, timeout_ms) as consumer:
        consumer.assign(list(left))
        for each in left:
            consumer.seek(each, first[each])
        while left:
            for record in consumer.poll(_POLL_S):
                if record.offset < left.get(TopicPartition(record.topic, record.partition), 0):
                    yield record.value
            for each in [each for each, end in left.items() if consumer.position(each) >= end]:
                consumer.pause(each)
                del left[each]
