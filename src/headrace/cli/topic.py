"""`headrace topic`: make, list, describe, alter and delete topics; `topic_offsets.py` trims them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_topics
from headrace.cli.config import require_settings
from headrace.cli.connecting import cluster_options, open_admin, open_remote_logs
from headrace.cli.options import confirm, examples, json_option, parse_pairs, yes_option
from headrace.cli.output import human_bytes, lag_style, note, print_facts, print_json, print_table
from headrace.cli.topic_offsets import (
    GROUPS_MAX,
    GroupLag,
    PartitionFigures,
    figures_of,
    lags_of,
    offsets,
    trim,
)
from headrace.clients import ConfigEntry, ResourceKind, TopicDescription
from headrace.clients.errors import RefusedError
from headrace.settings.definition import ConfigSource

if TYPE_CHECKING:
    from headrace.clients import Admin
    from headrace.clients.remote_logs import ClusterRemoteLogs
    from headrace.clients.tiered_partition import TieredPartition

Figures = Mapping[TopicPartition, PartitionFigures]

set_option = click.option(
    "--set", "-s", "settings", multiple=True, metavar="NAME=VALUE", help="One of Kafka's topic settings."
)


@click.group(
    cls=CommandGroup, epilog=examples("headrace topic create orders --partitions 6", "headrace topic list")
)
def topic() -> None:
    """Create, list, describe, alter, trim and delete topics."""


topic.add_command(offsets)
topic.add_command(trim)


@topic.command(
    epilog=examples(
        "headrace topic create orders",
        "headrace topic create orders --partitions 6 --replication-factor 3",
        "headrace topic create users --set cleanup.policy=compact --set retention.ms=-1",
    )
)
@click.argument("name")
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1),
    metavar="N",
    help="How many; the brokers' num.partitions otherwise.",
)
@click.option(
    "--replication-factor",
    "-r",
    type=click.IntRange(1),
    metavar="N",
    help="Replicas of each; the brokers' default otherwise.",
)
@set_option
@click.option("--if-not-exists", is_flag=True, help="Do nothing where the topic is there already.")
@cluster_options
@json_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Create a topic."""
    configs = parse_pairs("--set", settings)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        try:
            made = admin.create_topic(
                name,
                partitions=partitions or -1,
                replication_factor=replication_factor or -1,
                configs=configs,
            )
        except RefusedError as error:
            if not if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            if as_json:
                print_json({"name": name, "created": False})
            else:
                click.echo(f"topic {name} is there already")
            return
    if as_json:
        print_json({**made._asdict(), "created": True})
    else:
        parts, copies = _count(made.partitions, "partition"), _count(made.replication_factor, "replica")
        click.echo(f"created topic {name}: {parts}, {copies} each")


@topic.command(
    "list", epilog=examples("headrace topic list", "headrace topic list --json | jq -r '.[].name'")
)
@click.option("--internal", is_flag=True, help="Also the topics that brokers keep for themselves.")
@cluster_options
@json_option
def list_(internal: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """List topics."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = [each for each in admin.list_topics() if internal or not each.internal]
    if as_json:
        print_json([each._asdict() for each in found])
    elif not found:
        note("there are no topics yet: `headrace topic create NAME` makes one")
    else:
        rows = [(each.name, each.partitions, each.replication_factor, each.topic_id) for each in found]
        print_table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), rows, optional=("ID",))


@topic.command(
    epilog=examples(
        "headrace topic describe orders",
        "headrace topic describe orders users --json",
        "headrace topic describe --under-replicated",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=complete_topics)
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader that is up.")
@click.option(
    "--groups/--no-groups",
    "wants_groups",
    default=None,
    help=f"Show how far groups are behind.  [default: where there are no more than {GROUPS_MAX}]",
)
@cluster_options
@json_option
def describe(
    names: tuple[str, ...],
    under_replicated: bool,
    unavailable: bool,
    wants_groups: bool | None,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Describe topics, all where none is named: partitions, offsets, sizes, settings of their own, lag."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        wanted = names or [each.name for each in admin.list_topics()]
        described = _filtered(
            admin.describe_topics(wanted), under_replicated=under_replicated, unavailable=unavailable
        )
        values = {each.name: admin.describe_configs(ResourceKind.TOPIC, each.name) for each in described}
        settings = {name: _own(found) for name, found in values.items()}
        tiered = [each for each in described if settings[each.name].get("remote.storage.enable") == "true"]
        remote = open_remote_logs(bootstrap, request_timeout_ms)
        tiers = {each.name: _tiers(admin, remote, each, values[each.name]) for each in tiered}
        figures = figures_of(admin, described)
        lags = lags_of(admin, figures, wants_groups) if described else {}
    if as_json:
        print_json(
            [
                _as_json(each, figures, settings[each.name], lags.get(each.name, []), tiers.get(each.name))
                for each in described
            ]
        )
        return
    for number, each in enumerate(described):
        if number:
            click.echo()
        _print_topic(each, figures, settings[each.name])
        if lags.get(each.name):
            click.echo()
            rows = [tuple(lag) for lag in lags[each.name]]
            print_table(("GROUP", "PARTITIONS", "LAG", "MOST IN ONE"), rows, styles={"LAG": lag_style})
        if each.name in tiers:
            _print_tiers(tiers[each.name])


def _filtered(
    described: list[TopicDescription], *, under_replicated: bool, unavailable: bool
) -> list[TopicDescription]:
    """Topics with partitions in one of these states; all where none is asked for."""
    if not under_replicated and not unavailable:
        return described
    found = []
    for each in described:
        partitions = [
            one
            for one in each.partitions
            if (under_replicated and one.is_under_replicated)
            or (unavailable and (one.leader < 0 or one.leader in one.offline))
        ]
        if partitions:
            found.append(each._replace(partitions=partitions))
    return found


def _own(values: list[ConfigEntry]) -> dict[str, str | None]:
    return {each.name: each.value for each in values if each.source == ConfigSource.TOPIC}


def _tiers(
    admin: "Admin", remote: "ClusterRemoteLogs", described: TopicDescription, values: list[ConfigEntry]
) -> list["TieredPartition"]:
    """How a tiered topic is spread over the brokers' disks and the remote store."""
    from headrace.cli.topic_tiers import tiers_of
    from headrace.clients.tiered_partition import segment_bytes_of

    in_force = {each.name: each.value for each in values}
    return tiers_of(admin, remote, described, segment_bytes=segment_bytes_of(in_force))


def _as_json(
    described: TopicDescription,
    figures: Figures,
    settings: dict[str, str | None],
    lags: list[GroupLag],
    tiers: list["TieredPartition"] | None,
) -> dict[str, object]:
    partitions = [
        {**each._asdict(), **_figures(figures, described.name, each.number)._asdict()}
        for each in described.partitions
    ]
    more = {}
    if tiers is not None:
        more["tiers"] = [each._asdict() for each in tiers]
    groups = [each._asdict() for each in lags]
    return {**described._asdict(), "partitions": partitions, "settings": settings, "groups": groups, **more}


def _figures(figures: Figures, topic: str, number: int) -> PartitionFigures:
    return figures.get(TopicPartition(topic, number)) or PartitionFigures(None, None, None)


def _print_topic(described: TopicDescription, figures: Figures, settings: dict[str, str | None]) -> None:
    own = ", ".join(f"{name}={value}" for name, value in settings.items()) or "all as the brokers'"
    internal = [("internal", "yes")] if described.internal else []
    print_facts([("topic", described.name), ("id", described.topic_id), *internal, ("settings", own)])
    # What no partition has is not worth a column.
    shows_eligible = any(each.elr for each in described.partitions)
    shows_offline = any(each.offline for each in described.partitions)
    rows = []
    for each in described.partitions:
        held = _figures(figures, described.name, each.number)
        rows.append(
            (
                each.number,
                "none" if each.leader < 0 else each.leader,
                each.leader_epoch,
                _numbers(each.replicas),
                _numbers(each.isr),
                *((_numbers(each.elr or []),) if shows_eligible else ()),
                *((_numbers(each.offline),) if shows_offline else ()),
                held.start,
                held.end,
                None if held.size_bytes is None else human_bytes(held.size_bytes),
            )
        )
    more = (*(("ELIGIBLE",) if shows_eligible else ()), *(("OFFLINE",) if shows_offline else ()))
    columns = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", *more, "START", "END", "SIZE")
    print_table(columns, rows, absent="-", optional=("EPOCH",))


def _print_tiers(tiers: list["TieredPartition"]) -> None:
    columns = ("PARTITION", "START", "LOCAL START", "REMOTE END", "END", "LOCAL BYTES", "REMOTE BYTES")
    rows = [
        (
            each.partition,
            each.start,
            each.local_start,
            each.tiered_to,
            each.end,
            each.local_bytes,
            each.remote_bytes,
            each.remote_segments,
            each.only_local,
            each.only_local_bytes,
            each.copy_lag_bytes,
        )
        for each in tiers
    ]
    click.echo()
    print_table((*columns, "REMOTE SEGMENTS", "ONLY LOCAL", "ONLY LOCAL BYTES", "COPY LAG BYTES"), rows)


@topic.command(
    epilog=examples(
        "headrace topic alter orders --partitions 12",
        "headrace topic alter orders --set retention.ms=3600000 --delete segment.ms",
    )
)
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(1),
    metavar="N",
    help="How many it shall have; they can only grow.",
)
@set_option
@click.option(
    "--delete", "deleted", multiple=True, metavar="NAME", help="A setting to take back to the brokers' value."
)
@cluster_options
@json_option
def alter(
    name: str,
    partitions: int | None,
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Give a topic more partitions or other settings."""
    configs = parse_pairs("--set", settings)
    if partitions is None and not configs and not deleted:
        raise click.UsageError("nothing to alter: give --partitions, --set or --delete")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        if configs or deleted:
            require_settings(admin, ResourceKind.TOPIC, name, deleted)
            admin.alter_configs(ResourceKind.TOPIC, name, set_to=configs, delete=deleted)
        if partitions is not None:
            admin.create_partitions(name, partitions)
    if as_json:
        print_json({"name": name, "partitions": partitions, "set": configs, "deleted": list(deleted)})
    else:
        click.echo(f"altered topic {name}")


@topic.command(epilog=examples("headrace topic delete orders", "headrace topic delete orders users --yes"))
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_topics)
@yes_option
@cluster_options
@json_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Delete topics and all their records."""
    confirm(f"Delete {', '.join(names)} and all records?", yes)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        admin.delete_topics(names)
    if as_json:
        print_json({"deleted": list(names)})
    else:
        click.echo(f"deleted {', '.join(names)}")


def _numbers(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
