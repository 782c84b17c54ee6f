"""Options of every command that talks to a cluster, and the cluster they name."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.clients.cluster import Cluster
from headrace.clients.system import connect

F = TypeVar("F", bound=Callable[..., Any])

bootstrap_option = click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    default="127.0.0.1:9092",
    show_default=True,
    envvar="HEADRACE_BOOTSTRAP_SERVER",
    show_envvar=True,
    metavar="HOST:PORT,…",
    help="Brokers to ask first.",
)
timeout_option = click.option(
    "--request-timeout-ms",
    type=click.IntRange(1),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="How long the cluster may take to answer.",
)


def cluster_options(command: F) -> F:
    """--bootstrap-server and --request-timeout-ms."""
    return bootstrap_option(timeout_option(command))


def open_cluster(bootstrap: str, request_timeout_ms: int) -> Cluster:
    """The cluster that the options name; to be used with `with`."""
    return connect(bootstrap, client_id="headrace-cli", timeout_ms=request_timeout_ms)
