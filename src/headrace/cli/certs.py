"""`headrace certs`: a cluster's own certificates, as PEM files that nodes and clients take as they are.

What the folder has is `node/certificate_folder.py`'s.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from headrace.base.errors import InvalidBytesError
from headrace.cli.command_group import CommandGroup
from headrace.cli.options import confirm, examples, json_option, yes_option
from headrace.cli.output import print_json, print_json_rows, print_table
from headrace.node.certificate_folder import CA, CertificateFolder
from headrace.security.certificates import CA_DAYS, LEAF_DAYS, common_name, expires_at, hosts_of

_COLUMNS: Final = ("file", "name", "hosts", "expires", "days left")
_folder = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
_days = click.option(
    "--days",
    type=click.IntRange(1, CA_DAYS),
    default=LEAF_DAYS,
    show_default=True,
    help="How long they are good.",
)


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace certs create certs --node node1 --host kafka1.example.org",
        "headrace certs list certs",
        "headrace certs renew certs --within 30",
        "headrace certs revoke certs alice",
    ),
)
def certs() -> None:
    """Make, renew, revoke and look at the certificates of a cluster."""


@certs.command(
    epilog=examples(
        "headrace certs create certs --node node1 --host kafka1.example.org --host 10.0.0.1",
        "headrace certs create certs --user alice    # for clients that prove themselves by certificate",
    )
)
@_folder
@click.option("--node", metavar="NAME", help="A certificate for this node, reached by --host.")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="A name or address of the node.")
@click.option("--user", "users", multiple=True, metavar="NAME", help="A certificate for this user.")
@_days
@json_option
def create(
    folder: Path, node: str | None, hosts: tuple[str, ...], users: tuple[str, ...], days: int, as_json: bool
) -> None:
    """Make certificates in FOLDER, and the authority that issues them where there is none yet.

    Clients get ca.pem as their truststore. Keep ca.key where no node and no client can read it.
    """
    if node is None and (hosts or not users):
        raise click.UsageError("name whom it is for: --node NAME with --host HOST, or --user NAME")
    if node is not None and not hosts:
        raise click.UsageError("--node needs --host: clients compare the name they connect to")
    taken = [name for name in (node, *users) if name == CA]
    if taken:
        raise click.UsageError(f"{CA} is the authority's own name: choose another one")
    files = CertificateFolder(folder)
    if node is not None:
        files.issue(node, hosts, days=days)
    for user in users:
        files.issue(user, days=days)
    _print(files, as_json)


@certs.command("renew", epilog=examples("headrace certs renew certs --within 30"))
@_folder
@click.option(
    "--within",
    type=click.IntRange(0),
    metavar="DAYS",
    help="Only those that expire within so many days.  [default: all]",
)
@_days
@json_option
def renew_command(folder: Path, within: int | None, days: int, as_json: bool) -> None:
    """Issue the certificates in FOLDER again, with new keys, for the same names and hosts.

    A node takes new files while it runs. The authority itself is not renewed: everybody trusts it by its
    file.
    """
    files = CertificateFolder(folder)
    _check_authority(files)
    for name, data in _readable(files):
        if name != CA and (within is None or _days_left(data) <= within):
            files.renew(name, days=days)
    _print(files, as_json)


@certs.command("revoke", epilog=examples("headrace certs revoke certs alice"))
@_folder
@click.argument("name")
@yes_option
@json_option
def revoke_command(folder: Path, name: str, yes: bool, as_json: bool) -> None:
    """Put the certificate of NAME on the list of those that count no more, FOLDER/ca.crl.

    Nodes and clients that have this file in ssl.crl.location refuse it from then on: a node looks at the file
    while it runs.
    """
    files = CertificateFolder(folder)
    _check_authority(files)
    if name == CA:
        raise click.UsageError(
            "the authority cannot be revoked: make another one, and have it trusted instead"
        )
    if not files.file_of(name).exists():
        raise click.ClickException(
            f"{files.file_of(name)} is missing: `headrace certs list {folder}` shows what there is"
        )
    confirm(f"revoke the certificate of {name} for good?", yes)
    files.revoke(name)
    if as_json:
        print_json({"revoked": name, "list": str(files.crl_file)})
    else:
        click.echo(f"revoked {name}: {files.crl_file} says so to whoever has it in ssl.crl.location")


@certs.command("list", epilog=examples("headrace certs list certs", "headrace certs list certs --json"))
@_folder
@json_option
def list_command(folder: Path, as_json: bool) -> None:
    """Show the certificates in FOLDER, and how long each is good."""
    files = CertificateFolder(folder)
    _check_authority(files)
    _print(files, as_json)


def _check_authority(files: CertificateFolder) -> None:
    try:
        files.ca()
    except FileNotFoundError as error:
        raise click.ClickException(
            f"{error.filename} is missing: there is no authority in {files.path}; "
            "`headrace certs create` makes one"
        ) from error


def _readable(files: CertificateFolder) -> Iterator[tuple[str, bytes]]:
    for name, data in files.certificates():
        try:
            common_name(data)
        except InvalidBytesError as error:
            raise click.ClickException(f"{files.file_of(name)}: {error}") from error
        yield name, data


def _days_left(certificate: bytes) -> int:
    return (expires_at(certificate) - datetime.now(UTC)) // timedelta(days=1)


def _print(files: CertificateFolder, as_json: bool) -> None:
    rows = [
        (
            *(str(files.file_of(name)), common_name(data), ", ".join(hosts_of(data))),
            *(expires_at(data).date().isoformat(), _days_left(data)),
        )
        for name, data in _readable(files)
    ]
    if as_json:
        print_json_rows([column.replace(" ", "_") for column in _COLUMNS], rows)
    else:
        print_table(_COLUMNS, rows)
