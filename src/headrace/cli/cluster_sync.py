"""`headrace cluster await-sync`: when it is safe to stop the next node.

A cluster is in sync when no broker that is registered is fenced, and every replica of every partition is in
its partition's in-sync set. Between two nodes of a rolling restart, scripts wait for that.
"""

import logging
import time
from typing import Final

import click

from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_duration_ms
from headrace.cli.output import print_json
from headrace.clients import Admin
from headrace.clients.errors import ClientError

TOPICS_AT_ONCE: Final = 100
NAMED_MAX: Final = 5
_PAUSE_S: Final = 0.25


@click.command(
    "await-sync",
    epilog=examples(
        "headrace cluster await-sync && systemctl restart headrace",
        "headrace cluster await-sync --brokers 3 --for 10m",
    ),
)
@click.option("--brokers", type=click.IntRange(1), metavar="N", help="Also wait until so many are up.")
@click.option(
    "--for",
    "patience",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long to wait, as 90s or 10m; then the exit code is 1.",
)
@cluster_options
@json_option
def await_sync(
    brokers: int | None, patience: str, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Wait until every broker is up and every replica in sync."""
    deadline = time.monotonic() + parse_duration_ms(patience, "--for") / 1000
    # What clients tell of brokers that are down is what this command is there for.
    logging.getLogger("headrace.clients").setLevel(logging.ERROR)
    while lacking := _lacking_in(bootstrap, request_timeout_ms, brokers):
        if time.monotonic() > deadline:
            raise click.ClickException(f"after {patience}: {lacking}")
        time.sleep(_PAUSE_S)
    if as_json:
        print_json({"in_sync": True})
    else:
        click.echo("every broker is up, and every replica in sync")


def _lacking_in(bootstrap: str, request_timeout_ms: int, brokers: int | None) -> str:
    """A new client each time: one that came while a node was down may wait for it for longer than needed."""
    try:
        with open_admin(bootstrap, request_timeout_ms) as admin:
            return lacking(admin, brokers)
    except ClientError as error:
        return str(error)


def lacking(admin: Admin, brokers: int | None = None) -> str:
    """What keeps the cluster from being in sync; nothing where it is."""
    found = admin.describe_cluster().brokers
    fenced = [str(each.node_id) for each in found if each.fenced]
    if fenced:
        return f"broker {', '.join(fenced)} is not up"
    if brokers is not None and len(found) < brokers:
        return f"{len(found)} of {brokers} brokers are up"
    names = [each.name for each in admin.list_topics()]
    behind = [
        f"{topic.name}-{each.number}"
        for at in range(0, len(names), TOPICS_AT_ONCE)
        for topic in admin.describe_topics(names[at : at + TOPICS_AT_ONCE])
        for each in topic.partitions
        if each.leader < 0 or len(each.isr) < len(each.replicas)
    ]
    more = f" and {len(behind) - NAMED_MAX} more" if len(behind) > NAMED_MAX else ""
    return f"not in sync: {', '.join(behind[:NAMED_MAX])}{more}" if behind else ""
