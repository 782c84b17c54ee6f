"""`headrace user`: who may log in by SCRAM. Users are records of the cluster, which has no passwords in it.

A password is typed twice, read from a file or from stdin, or made up here; never an argument, because those
are seen by everybody on the machine and kept in the shell's history.
"""

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import confirm, examples, json_option, yes_option
from headrace.cli.output import note, print_json, print_table
from headrace.clients import Admin, UserScramCredentialDeletion, UserScramCredentialUpsertion
from headrace.clients.internals.admin.scram_users import SCRAM_ITERATIONS
from headrace.security.sasl.mechanism import SCRAM_SHA_512
from headrace.security.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS

F = TypeVar("F", bound=Callable[..., Any])

_STDIN: Final = "-"
_PASSWORD_BYTES: Final = 24  # 32 characters: nobody types it, and nobody guesses it


def password_options(command: F) -> F:
    """Where a password comes from; without one of them it is asked for."""
    command = click.option(
        "--generate", is_flag=True, help="Make a password up, and print it: it is told this once."
    )(command)
    return click.option(
        "--password-file", metavar="FILE", help="The password is the first line of FILE; - is stdin."
    )(command)


_mechanisms_option = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(tuple(SCRAM_MECHANISMS), case_sensitive=False),
    help="May be repeated.",
)
_iterations_option = click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=SCRAM_ITERATIONS,
    show_default=True,
    help="How much work guessing the password from what is stored makes.",
)


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace user add alice",
        "headrace user list",
        "headrace user password alice --password-file alice.secret",
        "headrace user delete alice",
    ),
)
def user() -> None:
    """Make, list and remove users who log in with a password (SCRAM).

    What they may do is said by rules: `headrace acl`.
    """


@user.command(
    "list", epilog=examples("headrace user list", "headrace user list alice bob", "headrace user list --json")
)
@click.argument("names", nargs=-1, metavar="[USER]…")
@cluster_options
@json_option
def list_users(names: tuple[str, ...], bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """List users, and the mechanisms by which they may log in."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_user_scram_credentials(names or None)
    missing = [name for name in names if name not in {each.user for each in found}]
    if as_json:
        print_json([each._asdict() for each in found])
    elif found:
        print_table(("USER", "MECHANISM", "ITERATIONS"), found)
    elif not names:
        note("there are no users who log in by SCRAM: `headrace user add NAME` makes one")
    if missing:
        raise click.ClickException(f"there is no user {', '.join(missing)}")


@user.command(
    epilog=examples(
        "headrace user add alice                                  # asks for the password",
        "headrace user add loader --generate",
        "pass show kafka/loader | headrace user add loader --password-file -",
    )
)
@click.argument("name", metavar="USER")
@_mechanisms_option
@_iterations_option
@password_options
@cluster_options
@json_option
def add(
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    generate: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Make a user; without --mechanism one who logs in by SCRAM-SHA-512."""
    wanted = mechanisms or (SCRAM_SHA_512,)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        there = [each for each in _mechanisms_of(admin, name) if each in wanted]
        if there:
            raise click.ClickException(
                f"user {name} is there already and logs in by {', '.join(there)}: "
                f"`headrace user password {name}` changes the password"
            )
        password = _password(name, password_file, generate)
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(name, password, each, iterations) for each in wanted]
        )
    _tell("added", name, wanted, password if generate else None, as_json)


@user.command(
    epilog=examples(
        "headrace user password alice", "headrace user password alice --password-file alice.secret"
    )
)
@click.argument("name", metavar="USER")
@_mechanisms_option
@_iterations_option
@password_options
@cluster_options
@json_option
def password(
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    generate: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Give a user another password; without --mechanism for all by which it logs in.

    Connections that are open stay; whoever connects from now on needs the new one.
    """
    with open_admin(bootstrap, request_timeout_ms) as admin:
        wanted = _require(name, _mechanisms_of(admin, name), mechanisms)
        secret = _password(name, password_file, generate)
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(name, secret, each, iterations) for each in wanted]
        )
    _tell("changed the password of", name, wanted, secret if generate else None, as_json)


@user.command(epilog=examples("headrace user delete alice", "headrace user delete alice --yes"))
@click.argument("name", metavar="USER")
@_mechanisms_option
@yes_option
@cluster_options
@json_option
def delete(
    name: str,
    mechanisms: tuple[str, ...],
    yes: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Remove a user, or a mechanism by which it logs in. Its rules and quotas stay."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        wanted = _require(name, _mechanisms_of(admin, name), mechanisms)
        confirm(f"delete user {name} ({', '.join(wanted)})?", yes)
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, each) for each in wanted])
    _tell("deleted", name, wanted, None, as_json)


def _mechanisms_of(admin: Admin, name: str) -> list[str]:
    return [each.mechanism for each in admin.describe_user_scram_credentials(name)]


def _require(name: str, there: list[str], mechanisms: tuple[str, ...]) -> tuple[str, ...]:
    """The mechanisms that are meant, all of which the user must have."""
    if not there:
        raise click.ClickException(f"there is no user {name}; `headrace user list` shows who there is")
    missing = [each for each in mechanisms if each not in there]
    if missing:
        raise click.ClickException(
            f"user {name} does not log in by {', '.join(missing)}, but by {', '.join(there)}"
        )
    return mechanisms or tuple(there)


def _password(name: str, file: str | None, generate: bool) -> str:
    if file is not None and generate:
        raise click.UsageError("give --password-file or --generate, not both")
    if generate:
        return secrets.token_urlsafe(_PASSWORD_BYTES)
    if file is not None:
        return _first_line(file)
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is nobody to ask for the password: give --password-file FILE (- is stdin) or --generate"
        )
    typed: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return typed


def _first_line(file: str) -> str:
    if file == _STDIN:
        text = sys.stdin.readline()
    else:
        from headrace.node.secret_files import exposed_file

        text = Path(file).read_text().partition("\n")[0]
        if (exposed := exposed_file(file)) is not None:
            note(str(exposed))
    found = text.rstrip("\r\n")
    if not found:
        raise click.ClickException(f"{'stdin' if file == _STDIN else file} has no password in its first line")
    return found


def _tell(done: str, name: str, mechanisms: tuple[str, ...], password: str | None, as_json: bool) -> None:
    if as_json:
        told = {"user": name, "mechanisms": mechanisms}
        print_json(told if password is None else told | {"password": password})
        return
    click.echo(f"{done} user {name} ({', '.join(mechanisms)})")
    if password is not None:
        click.echo(f"password: {password}")
