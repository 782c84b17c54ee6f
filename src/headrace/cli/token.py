"""`headrace token`: delegation tokens, with which others log in in somebody's name for a while (KIP-48).

The HMAC of a token is its password. It is printed when the token is made, and later only where it is asked
for; tokens are named by their ids, so that no secret has to be an argument.
"""

import base64
from datetime import UTC, datetime
from typing import Any, Final

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import confirm, examples, json_option, parse_duration_ms, yes_option
from headrace.cli.output import note, print_facts, print_json, print_table
from headrace.clients import Admin, DelegationToken
from headrace.clients.internals.admin.delegation_tokens import CLUSTERS_CHOICE

_COLUMNS: Final = ("ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "AT MOST UNTIL")

_hmac_option = click.option("--show-hmac", is_flag=True, help="Print the tokens' secrets too.")


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace token create --renewer User:scheduler --max-lifetime 7d",
        "headrace token list",
        "headrace token renew 4GmHTuIiTxuK4GmHTuIiTw",
        "headrace token expire 4GmHTuIiTxuK4GmHTuIiTw",
    ),
)
def token() -> None:
    """Make, list, renew and end delegation tokens.

    Who makes one has to be logged in, by something else than a token; the brokers need
    delegation.token.secret.key.
    """


@token.command(
    epilog=examples(
        "headrace token create",
        "headrace token create --owner User:loader --renewer User:scheduler --max-lifetime 7d",
    )
)
@click.option("--owner", metavar="PRINCIPAL", help="Whose it is, as User:loader.  [default: who asks]")
@click.option(
    "--renewer", "renewers", multiple=True, metavar="PRINCIPAL", help="Who may renew it; may be repeated."
)
@click.option(
    "--max-lifetime", metavar="TIME", help="How long at most, as 12h or 7d.  [default: the brokers']"
)
@cluster_options
@json_option
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    max_lifetime: str | None,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Make a token, and print it with its secret: keep it where only its user can read it."""
    lifetime_ms = _period(max_lifetime, "--max-lifetime")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        made = admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    if as_json:
        print_json(_as_json(made, with_hmac=True))
        return
    names = ("id", "owner", "requester", "renewers", "issued", "expires", "at most until")
    print_facts([*zip(names, _row(made), strict=True), ("hmac", _text(made.hmac))])
    note(
        "to log in with it, set sasl.mechanism=SCRAM-SHA-512 and\n  sasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made.token_id}" password="HMAC" tokenauth="true";'
    )


@token.command(
    "list", epilog=examples("headrace token list", "headrace token list --owner User:loader --json")
)
@click.option("--owner", "owners", multiple=True, metavar="PRINCIPAL", help="Only theirs; may be repeated.")
@_hmac_option
@cluster_options
@json_option
def list_tokens(
    owners: tuple[str, ...], show_hmac: bool, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """List the tokens that you may see: your own, those that you may renew, and by rules others'."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_delegation_tokens(owners or None)
    if as_json:
        print_json([_as_json(each, with_hmac=show_hmac) for each in found])
    elif not found:
        note("no token is like that" if owners else "there are no tokens that you may see")
    else:
        columns = (*_COLUMNS, "HMAC") if show_hmac else _COLUMNS
        rows = [(*_row(each), *([_text(each.hmac)] if show_hmac else [])) for each in found]
        print_table(columns, rows, absent="-", optional=("REQUESTER", "ISSUED"))


@token.command(
    epilog=examples(
        "headrace token renew 4GmHTuIiTxuK4GmHTuIiTw", "headrace token renew 4GmHTuIiTxuK4GmHTuIiTw --for 12h"
    )
)
@click.argument("token_id", metavar="ID")
@click.option("--for", "period", metavar="TIME", help="How long from now, as 12h.  [default: the brokers']")
@cluster_options
@json_option
def renew(token_id: str, period: str | None, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Give a token more time, never beyond its longest life."""
    period_ms = _period(period, "--for")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        until_ms = admin.renew_delegation_token(_find(admin, token_id).hmac, period_ms)
    _tell(token_id, until_ms, f"token {token_id} is good until {_time(until_ms)}", as_json)


@token.command(
    epilog=examples(
        "headrace token expire 4GmHTuIiTxuK4GmHTuIiTw",
        "headrace token expire 4GmHTuIiTxuK4GmHTuIiTw --after 1h --yes",
    )
)
@click.argument("token_id", metavar="ID")
@click.option("--after", "period", metavar="TIME", help="When, from now, as 1h.  [default: now]")
@yes_option
@cluster_options
@json_option
def expire(
    token_id: str, period: str | None, yes: bool, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """End a token, now or in a while: nobody can log in with it from then on."""
    period_ms = _period(period, "--after")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = _find(admin, token_id)
        confirm(f"end token {token_id} of {found.owner}?", yes)
        until_ms = admin.expire_delegation_token(found.hmac, period_ms)
    when = "ended" if period is None else f"ends at {_time(until_ms)}"
    _tell(token_id, until_ms, f"token {token_id} {when}", as_json)


def _find(admin: Admin, token_id: str) -> DelegationToken:
    for each in admin.describe_delegation_tokens():
        if each.token_id == token_id:
            return each
    raise click.ClickException(
        f"there is no token {token_id} that you may see; `headrace token list` shows which there are"
    )


def _period(text: str | None, option: str) -> int:
    return CLUSTERS_CHOICE if text is None else parse_duration_ms(text, option)


def _tell(token_id: str, until_ms: int, text: str, as_json: bool) -> None:
    if as_json:
        print_json({"token_id": token_id, "expiry_timestamp_ms": until_ms})
    else:
        click.echo(text)


def _as_json(given: DelegationToken, *, with_hmac: bool) -> dict[str, Any]:
    told = given._asdict()
    hmac = told.pop("hmac")
    return told | {"hmac": _text(hmac)} if with_hmac else told


def _row(given: DelegationToken) -> tuple[str | None, ...]:
    times = (given.issue_timestamp_ms, given.expiry_timestamp_ms, given.max_timestamp_ms)
    renewers = ", ".join(given.renewers) or None
    return given.token_id, given.owner, given.requester, renewers, *map(_time, times)


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(hmac: bytes) -> str:
    """As Kafka's tool writes it, and as a login takes it."""
    return base64.b64encode(hmac).decode()
