"""`headrace profile`: clusters by name, in a file of the user's.

The file is `headrace/profiles.toml` in the user's folder for settings ($XDG_CONFIG_HOME, else ~/.config):

    current = "test"

    [profiles.test]
    bootstrap-server = "127.0.0.1:9092"

    [profiles.production]
    bootstrap-server = "kafka-1:9092,kafka-2:9092"
    request-timeout-ms = 10000
    command-config = "production.properties"

A command asks the cluster of --bootstrap-server, else of --profile, else of HEADRACE_BOOTSTRAP_SERVER, else
of HEADRACE_PROFILE, else of the current profile, else 127.0.0.1:9092.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from headrace.cli.command_config import read_command_config
from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_profiles
from headrace.cli.options import examples, json_option
from headrace.cli.output import note, print_json, print_table

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_SERVER: Final = "bootstrap-server"
_TIMEOUT: Final = "request-timeout-ms"
_CONFIG: Final = "command-config"
_KEYS: Final = {_SERVER: str, _TIMEOUT: int, _CONFIG: str}

_existing = click.argument("name", shell_complete=complete_profiles)


@dataclass(slots=True)
class Profiles:
    """The file's content; `current` may name none of them."""

    current: str | None = None
    clusters: dict[str, dict[str, str | int]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, str | int]:
        """A profile; an error that names those that there are where it is none of them."""
        if name not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none yet: `headrace profile add` makes one"
            raise click.ClickException(
                f"there is no profile {name!r} in {profiles_path()}: there are {known}"
            )
        return self.clusters[name]


def profiles_path() -> Path:
    """Where the user's profiles are."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(folder) / "headrace" / "profiles.toml"


def read_profiles() -> Profiles:
    """What the file says; nothing where there is no file."""
    path = profiles_path()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: {error}: mend it, or remove it and add profiles anew") from error
    clusters = content.get("profiles", {})
    for name, settings in clusters.items():
        _check(path, name, settings)
    return Profiles(content.get("current"), clusters)


def _check(path: Path, name: str, settings: Any) -> None:
    if not isinstance(settings, Mapping) or not isinstance(settings.get(_SERVER), str):
        raise click.ClickException(f"{path}: profile {name} has no {_SERVER}: give it one, as host:9092")
    for key, value in settings.items():
        if key not in _KEYS:
            raise click.ClickException(f"{path}: profile {name}: {key} is none of {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise click.ClickException(f"{path}: profile {name}: {key} has to be {_KEYS[key].__name__}")


def _write(profiles: Profiles) -> None:
    """Replace the file whole: two commands at once leave one of theirs, never half of each."""
    lines = [] if profiles.current is None else [f"current = {_toml(profiles.current)}"]
    for name, settings in sorted(profiles.clusters.items()):
        lines += ["", f"[profiles.{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items())]
    path = profiles_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")
    new.replace(path)


def _toml(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace profile add production --bootstrap-server kafka-1:9092,kafka-2:9092",
        "headrace profile use production",
        "headrace topic list --profile test",
    ),
)
def profile() -> None:
    """Name clusters, and choose the one that commands ask.

    Profiles are in headrace/profiles.toml in your folder for settings ($XDG_CONFIG_HOME, or ~/.config).
    """


@profile.command("list", epilog=examples("headrace profile list", "headrace profile list --json"))
@json_option
def list_(as_json: bool) -> None:
    """List profiles; the current one has a star."""
    found = read_profiles()
    if as_json:
        print_json(
            [
                {"name": name, "current": name == found.current, **settings}
                for name, settings in sorted(found.clusters.items())
            ]
        )
    elif not found.clusters:
        note("there are no profiles yet: `headrace profile add NAME --bootstrap-server HOST:PORT` makes one")
    else:
        rows = [
            (
                "*" if name == found.current else "",
                *(name, settings[_SERVER], settings.get(_TIMEOUT), settings.get(_CONFIG)),
            )
            for name, settings in sorted(found.clusters.items())
        ]
        print_table(("", "PROFILE", "BOOTSTRAP SERVER", "TIMEOUT MS", "COMMAND CONFIG"), rows)


@profile.command(
    epilog=examples(
        "headrace profile add test --bootstrap-server 127.0.0.1:9092 --use",
        "headrace profile add production -b kafka-1:9092,kafka-2:9092 --request-timeout-ms 10000",
        "headrace profile add secure -b 127.0.0.1:9092 --command-config data/security/admin.properties",
    )
)
@click.argument("name")
@click.option(
    "--bootstrap-server", "-b", "bootstrap", required=True, metavar="HOST:PORT,…", help="Its brokers."
)
@click.option(
    "--request-timeout-ms", type=click.IntRange(1), metavar="MS", help="How long it may take to answer."
)
@click.option(
    "--command-config",
    "config",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="Settings of its clients, such as logins, as Kafka's tools take them.",
)
@click.option("--use", "is_used", is_flag=True, help="Make it the current one.")
@json_option
def add(
    name: str,
    bootstrap: str,
    request_timeout_ms: int | None,
    config: str | None,
    is_used: bool,
    as_json: bool,
) -> None:
    """Add a profile, or change the one of this name. The first one is the current one."""
    from headrace.clients.config import parse_addresses

    if not _NAME.fullmatch(name):
        raise click.BadParameter("it is made of letters, digits, - and _.", param_hint="'NAME'")
    parse_addresses(bootstrap)
    found = read_profiles()
    settings: dict[str, str | int] = {_SERVER: bootstrap}
    if request_timeout_ms is not None:
        settings[_TIMEOUT] = request_timeout_ms
    if config is not None:
        read_command_config(config)
        settings[_CONFIG] = config
    what = "changed" if name in found.clusters else "added"
    found.clusters[name] = settings
    if is_used or found.current is None:
        found.current = name
    _write(found)
    _tell(f"{what} profile {name} in {profiles_path()}", name, found, as_json)


@profile.command(epilog=examples("headrace profile use production"))
@_existing
@json_option
def use(name: str, as_json: bool) -> None:
    """Make a profile the current one."""
    found, settings = _named(name)
    found.current = name
    _write(found)
    _tell(f"commands ask {name} at {settings[_SERVER]}", name, found, as_json)


@profile.command(epilog=examples("headrace profile delete test"))
@_existing
@json_option
def delete(name: str, as_json: bool) -> None:
    """Delete a profile; the cluster stays as it is."""
    found, _ = _named(name)
    del found.clusters[name]
    if found.current == name:
        found.current = None
    _write(found)
    _tell(f"deleted profile {name}", name, found, as_json)


def _named(name: str) -> tuple[Profiles, Mapping[str, str | int]]:
    """All profiles, and the one of this name; an error where there is none."""
    found = read_profiles()
    return found, found.get(name)


def _tell(text: str, name: str, found: Profiles, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "current": found.current, **found.clusters.get(name, {})})
    else:
        click.echo(text)
