"""What commands on Spark share: which Spark, a session, an end between two batches, and how it ended."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from headrace.cli.options import parse_pairs
from headrace.cli.output import note, print_json_line

if TYPE_CHECKING:
    from headrace.spark.pipeline.runner import StoppedQuery

F = TypeVar("F", bound=Callable[..., Any])


class SparkChoice(NamedTuple):
    """Which Spark a command runs on, and with which settings."""

    master: str | None = None
    remote: str | None = None
    config: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"SparkChoice(master={self.master!r}, remote={self.remote!r})"  # settings may have secrets


def spark_options(command: F) -> F:
    """--master, --remote and --conf, which reach the command as one `choice`."""

    @click.option(
        "--master",
        metavar="URL",
        help="Spark's master, as spark://host:7077 or yarn; without it this machine, or spark-submit's.",
    )
    @click.option("--remote", metavar="URL", help="A Spark Connect server, as sc://host:15002.")
    @click.option(
        "--conf",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark, as spark.executor.memory=4g; may be repeated.",
    )
    @wraps(command)
    def chosen(
        *arguments: Any, master: str | None, remote: str | None, settings: tuple[str, ...], **more: Any
    ) -> Any:
        if master is not None and remote is not None:
            raise click.UsageError("--master and --remote are two ways to name one Spark: give one of them.")
        choice = SparkChoice(master, remote, parse_pairs("--conf", settings))
        return command(*arguments, choice=choice, **more)

    return cast(F, chosen)


@contextmanager
def opened_session(name: str, choice: SparkChoice) -> Iterator[Any]:
    """Spark, for as long as it is needed."""
    try:
        from headrace.spark.pipeline.errors import hide_stacks
        from headrace.spark.session import NoJavaError, SessionError, spark_session, web_page

        hide_stacks()
        try:
            session = spark_session(name, master=choice.master, remote=choice.remote, config=choice.config)
        except (NoJavaError, SessionError) as error:
            raise click.ClickException(str(error)) from error
    except ImportError as error:
        raise click.ClickException(
            f"Spark is not installed ({error}): pip install 'headrace[spark]'"
        ) from error
    page = web_page(session)
    if page is not None:
        note(f"Spark's page: {page}")
    try:
        yield session
    finally:
        session.stop()


def unshared_places(spark: Any, places: Iterable[str], clients: Mapping[str, str]) -> Iterator[str]:
    """A line for each folder that executors on other machines are to share and cannot see, and for each file
    that the clients' settings name, since executors have clients too."""
    from headrace.spark.session import is_on_this_machine

    if is_on_this_machine(spark):
        return
    for place in places:
        if "://" not in place or place.startswith("file:"):
            yield (
                f"{place} is a folder of this machine: where workers do not have it too, state and files "
                "go astray; use s3a://, hdfs:// or a shared folder"
            )
    for name, file in clients.items():
        if name.endswith(".location") and file:
            yield (
                f"{name}: {file} is a file of this machine: workers connect to the brokers too, and need it "
                "under the same path"
            )


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


def end(stops: "list[StoppedQuery]", as_json: bool) -> None:
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


def _where(stop: "StoppedQuery") -> str:
    if stop.last_batch is None:
        return "there was nothing to do"
    ends = ", ".join(
        f"{topic} at {', '.join(f'{partition}:{offset}' for partition, offset in sorted(each.items()))}"
        for topic, each in sorted(stop.ends.items())
    )
    return f"batch {stop.last_batch} is complete" + (f"; read {ends}" if ends else "")
