"""Options of every command that talks to a cluster, and the cluster they name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from headrace.clients import Admin, Consumer, Producer
    from headrace.clients.remote_logs import ClusterRemoteLogs

F = TypeVar("F", bound=Callable[..., Any])

# Commands write files and pipes: few large batches, flushed when the input pauses.
_LINGER_MS: Final = 100
_BATCH_BYTES: Final = 256 * 1024

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


def open_admin(bootstrap: str, request_timeout_ms: int) -> "Admin":
    """The administrator of the cluster that the options name; to be used with `with`."""
    from headrace.clients import Admin  # each command pays for its own client only

    return Admin(_settings(bootstrap, request_timeout_ms), default_api_timeout_ms=request_timeout_ms)


def open_producer(bootstrap: str, request_timeout_ms: int, **settings: Any) -> "Producer":
    """A producer for people: what is not written within the time-out has failed."""
    from headrace.clients import Producer

    patience = {"max_block_ms": request_timeout_ms, "delivery_timeout_ms": request_timeout_ms + _LINGER_MS}
    options = {"linger_ms": _LINGER_MS, "batch_size": _BATCH_BYTES, **patience, **settings}
    return Producer(_settings(bootstrap, request_timeout_ms), **options)


def open_consumer(bootstrap: str, request_timeout_ms: int, **settings: Any) -> "Consumer":
    """A consumer of partitions that it is given."""
    from headrace.clients import Consumer

    patience: dict[str, Any] = {
        "default_api_timeout_ms": request_timeout_ms,
        "allow_auto_create_topics": False,
    }
    return Consumer(_settings(bootstrap, request_timeout_ms), **patience, **settings)


def open_remote_logs(bootstrap: str, request_timeout_ms: int) -> "ClusterRemoteLogs":
    """What the cluster that the options name has in its remote store."""
    from headrace.clients.remote_logs import ClusterRemoteLogs

    return ClusterRemoteLogs(_settings(bootstrap, request_timeout_ms))


def _settings(bootstrap: str, request_timeout_ms: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "headrace-cli",
        "request.timeout.ms": request_timeout_ms,
        "socket.connection.setup.timeout.ms": request_timeout_ms,
    }
