"""--command-config FILE: the settings of a client, in Kafka's .properties form, as its own tools take them.

    security.protocol=SSL
    ssl.truststore.type=PEM
    ssl.truststore.location=ca.pem

One file may serve all commands: each client takes those that it knows. A name that no client has is an error.
`bootstrap.servers` counts where neither --bootstrap-server nor --profile is given. Values may come from
config providers, as in a node's file. A profile may name such a file (`headrace profile add`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from headrace.cli.output import note

F = TypeVar("F", bound=Callable[..., Any])

_COMMAND_CONFIG: Final = "headrace.command-config"


def _read(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Eager: the other options ask for it."""
    if value is not None and not ctx.resilient_parsing:
        ctx.meta[_COMMAND_CONFIG] = read_command_config(value)


def read_command_config(file: str) -> dict[str, str]:
    """The settings of a file; an error that names it, and the line, where it cannot be used."""
    from headrace.clients.config import TABLES

    return read_settings(file, "client", {name for table in TABLES.values() for name in table})


def read_settings(file: str, kind: str, known: set[str], *, prefix: str = "") -> dict[str, str]:
    """The same of a file of another kind, whose settings have these names, or begin with the prefix."""
    from headrace.node.config_providers import PROVIDERS, look_up
    from headrace.node.properties_file import open_properties
    from headrace.node.secret_files import ExposedFiles, files_with_secrets, key_files
    from headrace.settings.definition import SettingError, unknown_setting

    try:
        found = open_properties(file)
        looked_up = look_up({name: entry.value for name, entry in found.entries.items()})
        settings = looked_up.values
        for name in list(settings):
            if name.startswith(PROVIDERS):
                del settings[name]
            elif name not in known and not (prefix and name.startswith(prefix)):
                raise SettingError(name, f"{unknown_setting(name, known, kind).reason} ({found.place(name)})")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except (SettingError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from None
    secrets = files_with_secrets(file, settings, looked_up.files)
    for exposed in ExposedFiles().among([*secrets, *key_files(settings)]):
        note(str(exposed))
    return settings


command_config_option: Final = click.option(
    "--command-config",
    is_eager=True,
    expose_value=False,
    callback=_read,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Settings of the client, such as security.protocol and ssl.*, as Kafka's tools take them.",
)


def given_config(ctx: click.Context) -> Mapping[str, str]:
    """What the file of --command-config says; nothing where it is not given."""
    settings: Mapping[str, str] = ctx.meta.get(_COMMAND_CONFIG, {})
    return settings


def config_for(named: str | None, asked: str) -> Mapping[str, str]:
    """The settings for the brokers that a file of the user's names, or for those that are asked otherwise.
    A profile's file is of the profile's cluster, and others hear nothing of it."""
    ctx = click.get_current_context()
    if named in (None, asked) or ctx.get_parameter_source("command_config") is ParameterSource.COMMANDLINE:
        return command_config()
    return {}


def command_config(kind: str = "") -> Mapping[str, str]:
    """What the file says that a client of this kind (producer, consumer, admin) knows; all without a kind.
    Without --command-config it is the profile's file, where the profile says which cluster is asked.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return {}
    if _COMMAND_CONFIG not in ctx.meta:
        from headrace.cli.connecting import profile_in_use

        file = profile_in_use(ctx).get("command-config")
        ctx.meta[_COMMAND_CONFIG] = {} if file is None else read_command_config(str(file))
    settings = given_config(ctx)
    if not kind or not settings:
        return settings
    from headrace.clients.config import TABLES

    return {name: value for name, value in settings.items() if name in TABLES[kind]}
