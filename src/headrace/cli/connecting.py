"""Options of every command that talks to a cluster, and the cluster they name."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from headrace.cli.command_config import command_config, command_config_option, given_config
from headrace.cli.completion import complete_profiles

if TYPE_CHECKING:
    from headrace.clients import Admin, Consumer, Producer, ShareConsumer
    from headrace.clients.remote_logs import ClusterRemoteLogs

DEFAULT_SERVER: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_MS: Final = 30_000
LOOK_TIMEOUT_MS: Final = 10_000
"""For a cluster that is only looked at before Spark starts, which takes as long."""

F = TypeVar("F", bound=Callable[..., Any])

# Commands write files and pipes: few large batches, flushed when the input pauses.
_LINGER_MS: Final = 100
_BATCH_BYTES: Final = 256 * 1024

_CLIENT_ID: Final = "headrace-cli"
_PROFILE: Final = "headrace.profile"
_ENVIRONMENT: Final = "HEADRACE_BOOTSTRAP_SERVER"


def _note_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Eager: the other options ask for it."""
    ctx.meta[_PROFILE] = value


def _bootstrap(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is not None and ctx.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        if ctx.meta.get(_PROFILE) is not None and not ctx.resilient_parsing:
            raise click.UsageError("give one of --bootstrap-server and --profile")
        return value
    return server_of(ctx)


def server_of(ctx: click.Context) -> str:
    """The brokers to ask where the words name none: the file's of --command-config, the profile's, the
    environment's or this machine's."""
    in_file = given_config(ctx).get("bootstrap.servers")
    if in_file and ctx.meta.get(_PROFILE) is None:
        return in_file
    given = os.environ.get(_ENVIRONMENT)
    if ctx.meta.get(_PROFILE) is None and given:
        return given
    return str(_profile(ctx).get("bootstrap-server", DEFAULT_SERVER))


def profile_in_use(ctx: click.Context) -> Mapping[str, str | int]:
    """The profile that says which cluster is asked; nothing where something else does."""
    if ctx.meta.get(_PROFILE) is None and (
        os.environ.get(_ENVIRONMENT) or ctx.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    ):
        return {}
    return _profile(ctx)


def _timeout(ctx: click.Context, param: click.Parameter, value: int | None) -> int:
    if value is not None:
        return value
    in_file = command_config().get("request.timeout.ms", "")
    if in_file.isdecimal():
        return int(in_file)
    return int(_profile(ctx).get("request-timeout-ms", DEFAULT_TIMEOUT_MS))


def _profile(ctx: click.Context) -> Mapping[str, str | int]:
    from headrace.cli.profile import read_profiles

    found = read_profiles()
    wanted = ctx.meta.get(_PROFILE) or os.environ.get("HEADRACE_PROFILE") or found.current
    if wanted is None or (ctx.resilient_parsing and wanted not in found.clusters):
        return {}
    return found.get(wanted)


profile_option = click.option(
    "--profile",
    "profile",
    is_eager=True,
    expose_value=False,
    callback=_note_profile,
    shell_complete=complete_profiles,
    metavar="NAME",
    help="A cluster by its name, as `headrace profile list` shows it.",
)
_server_option = click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    callback=_bootstrap,
    show_default=f"the profile's, or {DEFAULT_SERVER}",
    envvar=_ENVIRONMENT,
    show_envvar=True,
    metavar="HOST:PORT,…",
    help="Brokers to ask first.",
)
timeout_option = click.option(
    "--request-timeout-ms",
    type=click.IntRange(1),
    callback=_timeout,
    show_default=f"the profile's, or {DEFAULT_TIMEOUT_MS}",
    metavar="MS",
    help="How long the cluster may take to answer.",
)


def bootstrap_option(command: F) -> F:
    """--bootstrap-server, --command-config and --profile."""
    return _server_option(command_config_option(profile_option(command)))


def cluster_options(command: F) -> F:
    """--bootstrap-server, --command-config, --profile and --request-timeout-ms."""
    return bootstrap_option(timeout_option(command))


def open_admin(bootstrap: str, request_timeout_ms: int) -> "Admin":
    """The administrator of the cluster that the options name; to be used with `with`."""
    from headrace.clients import Admin  # each command pays for its own client only

    return Admin(_settings("admin", bootstrap, request_timeout_ms), default_api_timeout_ms=request_timeout_ms)


def open_producer(bootstrap: str, request_timeout_ms: int, **settings: Any) -> "Producer":
    """A producer for people: what is not written within the time-out has failed."""
    from headrace.clients import Producer

    patience = {"max_block_ms": request_timeout_ms, "delivery_timeout_ms": request_timeout_ms + _LINGER_MS}
    options = {"linger_ms": _LINGER_MS, "batch_size": _BATCH_BYTES, **patience, **settings}
    return Producer(_settings("producer", bootstrap, request_timeout_ms), **options)


def open_consumer(bootstrap: str, request_timeout_ms: int, **settings: Any) -> "Consumer":
    """A consumer of partitions that it is given."""
    from headrace.clients import Consumer

    patience: dict[str, Any] = {
        "default_api_timeout_ms": request_timeout_ms,
        "allow_auto_create_topics": False,
    }
    return Consumer(_settings("consumer", bootstrap, request_timeout_ms), **patience, **settings)


def open_share_consumer(bootstrap: str, request_timeout_ms: int, **settings: Any) -> "ShareConsumer":
    """A member of a share group."""
    from headrace.clients import ShareConsumer

    patience: dict[str, Any] = {"default_api_timeout_ms": request_timeout_ms}
    return ShareConsumer(_settings("share consumer", bootstrap, request_timeout_ms), **patience, **settings)


def open_remote_logs(bootstrap: str, request_timeout_ms: int) -> "ClusterRemoteLogs":
    """What the cluster that the options name has in its remote store."""
    from headrace.clients.remote_logs import ClusterRemoteLogs

    return ClusterRemoteLogs(_settings("consumer", bootstrap, request_timeout_ms))


def require_topics(clients: Mapping[str, str], topics: Sequence[str]) -> None:
    """An error at once for a topic that is not there, before anything is started that takes its time;
    `clients` are the settings by which it will be read."""
    from headrace.clients import Admin
    from headrace.clients.config import ADMIN

    known = {name: text for name, text in clients.items() if name in ADMIN}
    settings = {"client.id": _CLIENT_ID, **known, **_patience(LOOK_TIMEOUT_MS)}
    with Admin(settings, default_api_timeout_ms=LOOK_TIMEOUT_MS) as admin:
        admin.describe_topics(topics)


def _settings(kind: str, bootstrap: str, request_timeout_ms: int) -> dict[str, Any]:
    return {
        "client.id": _CLIENT_ID,
        **command_config(kind),
        "bootstrap.servers": bootstrap,
        **_patience(request_timeout_ms),
    }


def _patience(request_timeout_ms: int) -> dict[str, Any]:
    return {
        "request.timeout.ms": request_timeout_ms,
        "socket.connection.setup.timeout.ms": request_timeout_ms,
    }
