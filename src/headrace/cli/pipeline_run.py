"""How pipelines are run: one session for all, /metrics beside them, again and again by a schedule."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, cast

import click

from headrace.cli.connecting import require_topics
from headrace.cli.output import note
from headrace.cli.pipeline_files import places_of, with_clients
from headrace.cli.pipeline_session import (
    SparkChoice,
    end,
    opened_session,
    stop_on_interrupt,
    unshared_places,
)
from headrace.cli.pipeline_view import PipelineView, open_view
from headrace.clients.errors import NoSuchTopicError

if TYPE_CHECKING:
    from headrace.spark.pipeline.runner import StoppedQuery
    from headrace.spark.pipeline.spec import PipelineSpec
    from headrace.spark.pipeline.traces import PipelineTraces
    from headrace.spark.pipeline.watch import PipelineWatch

# How often a wait for the next run looks whether it is to end.
_LOOK_S: Final = 0.2


class _Address(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):  # a default
            return cast(tuple[str, int], value)
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is no HOST:PORT.", param, ctx)
        return host.strip("[]"), int(port)


metrics_option = click.option(
    "--metrics",
    type=_Address(),
    metavar="HOST:PORT",
    help="Where to serve /metrics for Prometheus; port 0 takes a free one.",
)

traces_option = click.option(
    "--traces",
    is_flag=True,
    help="Send an OpenTelemetry trace of every batch to OTEL_EXPORTER_OTLP_ENDPOINT, over HTTP.",
)


def run_specs(
    specs: "Sequence[PipelineSpec]",
    choice: SparkChoice,
    as_json: bool,
    bootstrap: str,
    metrics: tuple[str, int] | None = None,
    with_traces: bool = False,
) -> None:
    """Run files until all have ended. Exit code 1 where one failed, or an alert stands."""
    specs = with_clients(specs, bootstrap)
    for spec in specs:
        _require_topics(spec, bootstrap)
    settings = {name: value for spec in specs for name, value in spec.session.items()}
    choice = choice._replace(config={**settings, **choice.config})
    with ExitStack() as stack:
        spark = stack.enter_context(opened_session(f"headrace {specs[0].name}", choice))
        from headrace.spark.pipeline.errors import PipelineError
        from headrace.spark.pipeline.watch import PipelineWatch

        for spec in specs:
            note(f"checkpoint: {spec.checkpoint}")
            for line in unshared_places(spark, places_of(spec), spec.clients):
                note(line)
        watch = PipelineWatch(specs)
        if metrics is not None:
            serve_metrics(stack, watch, metrics)
        traces = open_traces(stack) if with_traces else None
        should_stop = stack.enter_context(stop_on_interrupt())
        view = stack.enter_context(open_view(as_json))
        try:
            stops = _run_all(spark, specs, bootstrap, view, watch, traces, should_stop)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
    end(stops, as_json)
    alerts = watch.standing()
    if alerts:
        raise click.ClickException(f"{'; '.join(alerts)}: see `alert` in the file")


def _require_topics(spec: "PipelineSpec", bootstrap: str) -> None:
    from headrace.spark.client_options import ClusterOptions, client_settings_of

    cluster = ClusterOptions(spec.brokers or bootstrap, spec.clients)
    by_clients: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for each in spec.inputs:
        clients = client_settings_of(cluster.of_source(each.options))
        topics = {topic: each.line for topic in each.topics.split(",") if topic}
        by_clients.setdefault(tuple(sorted(clients.items())), {}).update(topics)
    for given, topics in by_clients.items():
        try:
            if topics:
                require_topics(dict(given), list(topics))
        except NoSuchTopicError as error:
            line = topics.get(error.topic, 1)
            raise click.ClickException(f"{spec.header.path}:{line}: {error}") from error


def serve_metrics(stack: ExitStack, watch: "PipelineWatch", address: tuple[str, int]) -> None:
    """For as long as the stack is entered."""
    from headrace.spark.pipeline.metrics_listener import PipelineMetrics

    try:
        served = stack.enter_context(PipelineMetrics(watch, *address))
    except OSError as error:
        raise click.ClickException(
            f"--metrics {address[0]}:{address[1]}: {error.strerror or error}"
        ) from error
    note(f"metrics: http://{served.address[0]}:{served.address[1]}/metrics")


def open_traces(stack: ExitStack) -> "PipelineTraces":
    """Where batches and failures are told for `--traces`."""
    try:
        from headrace.spark.pipeline.traces import PipelineTraces
    except ImportError as error:
        raise click.ClickException(
            f"--traces needs OpenTelemetry's SDK: pip install 'headrace[tracing]' ({error})"
        ) from error
    return stack.enter_context(PipelineTraces())


def _run_all(
    spark: Any,
    specs: "Sequence[PipelineSpec]",
    bootstrap: str,
    view: PipelineView,
    watch: "PipelineWatch",
    traces: "PipelineTraces | None",
    should_stop: Callable[[], bool],
) -> "list[StoppedQuery]":
    """Once, or as schedules say; those without one run beside them until they end."""
    from headrace.spark.pipeline.rounds import Rounds
    from headrace.spark.pipeline.runner import run_all

    def tell(report: Any) -> None:
        watch.batch(report)
        view.batch(report)
        if traces is not None:
            traces.batch(report)

    rounds = Rounds(specs, lambda: int(time.time() * 1000))
    stops: list[StoppedQuery] = []
    while True:
        due = rounds.due()
        if due:
            stops = run_all(spark, due, bootstrap, tell=tell, should_stop=should_stop, started=view.started)
            rounds.done(due)
            failed = [each for each in stops if each.failure is not None]
            if traces is not None:
                for each in failed:
                    traces.failed(each)
            if failed:
                return stops
        if should_stop() or rounds.is_over:
            return stops
        note(f"the next run is at {rounds.next_text()}")
        while not should_stop() and not rounds.is_due:
            time.sleep(_LOOK_S)
