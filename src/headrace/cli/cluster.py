"""`headrace cluster`: the nodes, the quorum of their metadata, and what their folders hold."""

import click

from headrace.cli.cluster_sync import await_sync
from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import human_bytes, print_facts, print_json, print_json_rows, print_table
from headrace.clients import Admin, LogDirDescription, QuorumInfo
from headrace.clients.errors import RefusedError, UnsupportedError


@click.group(
    cls=CommandGroup,
    epilog=examples("headrace cluster describe", "headrace cluster describe -b kafka.example:9092"),
)
def cluster() -> None:
    """Describe nodes, quorum and folders, and wait until all is in sync."""


cluster.add_command(await_sync)


@cluster.command(epilog=examples("headrace cluster describe", "headrace cluster describe --log-dirs --json"))
@click.option("--log-dirs", is_flag=True, help="Also each broker's folders and what they hold.")
@cluster_options
@json_option
def describe(log_dirs: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Show the cluster's brokers and who decides about its metadata."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_cluster()
        quorum = _quorum(admin)
        folders = [
            folder
            for broker in found.brokers
            if log_dirs and not broker.fenced
            for folder in admin.describe_log_dirs(broker.node_id)
        ]
    if as_json:
        result: dict[str, object] = {
            "cluster_id": found.cluster_id,
            "controller_id": found.controller_id,
            "brokers": [each._asdict() for each in found.brokers],
            "quorum": None if quorum is None else _quorum_json(quorum),
        }
        if log_dirs:
            result["log_dirs"] = [_folder_json(each) for each in folders]
        print_json(result)
        return
    facts: list[tuple[str, object]] = [("cluster", found.cluster_id), ("controller", found.controller_id)]
    if quorum is not None:
        facts.append(
            (
                "quorum",
                f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, offset {quorum.high_watermark}",
            )
        )
    print_facts(facts)
    rows = [
        (each.node_id, f"{each.host}:{each.port}", each.rack, "fenced" if each.fenced else "up")
        for each in found.brokers
    ]
    print_table(("BROKER", "ADDRESS", "RACK", "STATE"), rows)
    if quorum is not None:
        _print_quorum(quorum)
    if folders:
        _print_folders(folders)


def _quorum(admin: Admin) -> QuorumInfo | None:
    """A cluster of ZooKeeper's days, or one that keeps it to itself, has no quorum to show."""
    try:
        return admin.describe_quorum()
    except (UnsupportedError, RefusedError):
        return None


def _print_quorum(quorum: QuorumInfo) -> None:
    rows = [
        (
            each.node_id,
            "voter" if each.is_voter else "observer",
            each.log_end_offset,
            max(0, quorum.high_watermark - each.log_end_offset),
        )
        for each in quorum.members
    ]
    print_table(("NODE", "PART IN QUORUM", "LOG END", "LAG"), rows)


def _print_folders(folders: list[LogDirDescription]) -> None:
    rows = [
        (
            each.node_id,
            each.path,
            len(each.partitions),
            human_bytes(sum(each.partitions.values())),
            human_bytes(each.usable_bytes),
            each.error or "good",
        )
        for each in folders
    ]
    print_table(("BROKER", "FOLDER", "PARTITIONS", "SIZE", "FREE", "STATE"), rows)


def _quorum_json(quorum: QuorumInfo) -> dict[str, object]:
    return {**quorum._asdict(), "members": [each._asdict() for each in quorum.members]}


def _folder_json(folder: LogDirDescription) -> dict[str, object]:
    sizes = [
        {"topic": key.topic, "partition": key.partition, "bytes": size}
        for key, size in sorted(folder.partitions.items())
    ]
    return {**folder._asdict(), "partitions": sizes}


@cluster.command(
    epilog=examples(
        "headrace cluster features",
        "headrace cluster features --set metadata.version=31 --set share.version=2",
    )
)
@click.option("--set", "pairs", multiple=True, metavar="NAME=LEVEL", help="Raise it; may be repeated.")
@click.option("--downgrade", is_flag=True, help="Lower what --set names, where nothing is lost by it.")
@cluster_options
@json_option
def features(
    pairs: tuple[str, ...], downgrade: bool, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Show or change what the cluster as a whole has agreed to use.

    A level is in force for good once brokers and controllers use it: raise it when no node is to go back to
    an older version.
    """
    wanted = parse_pairs("--set", pairs)
    if any(not level.isdecimal() for level in wanted.values()):
        raise click.UsageError("--set: a level is a number")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        if wanted:
            levels = {name: int(level) for name, level in wanted.items()}
            admin.update_features(levels, downgrade=downgrade)
        found = admin.describe_features()
    if wanted:
        found = {name: each._replace(level=int(wanted.get(name, each.level))) for name, each in found.items()}
    rows = [(name, each.level, each.least, each.most) for name, each in found.items()]
    if as_json:
        print_json_rows(("feature", "level", "least", "most"), rows)
    else:
        print_table(("FEATURE", "LEVEL", "LEAST", "MOST"), rows)
