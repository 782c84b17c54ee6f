"""`headrace quorum`: who votes on the cluster's metadata, and voters that come and go (KIP-853).

A controller becomes a voter in two steps: it runs as one that only follows, formatted without initial
controllers and finding the others through controller.quorum.bootstrap.servers, and is then added. Its
settings file says its id, where it listens, and where its folder with the directory's id is.
"""

import os

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_uuid
from headrace.cli.output import print_facts, print_json, print_table


@click.group(
    cls=CommandGroup,
    epilog=examples("headrace quorum describe", "headrace quorum add --config node4/server.properties"),
)
def quorum() -> None:
    """Show and change who votes on the cluster's metadata."""


@quorum.command(epilog=examples("headrace quorum describe", "headrace quorum describe --json"))
@cluster_options
@json_option
def describe(bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Show the voters and who else follows, how far each has got, and who leads."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_quorum()
    if as_json:
        print_json({**found._asdict(), "members": [each._asdict() for each in found.members]})
        return
    print_facts(
        [("leader", found.leader_id), ("epoch", found.leader_epoch), ("committed to", found.high_watermark)]
    )
    rows = [
        (
            each.node_id,
            "leader" if each.node_id == found.leader_id else "voter" if each.is_voter else "observer",
            each.log_end_offset,
            max(0, found.high_watermark - each.log_end_offset),
            each.directory_id,
            ",".join(each.endpoints) or None,
        )
        for each in found.members
    ]
    print_table(("NODE", "PART", "LOG END", "LAG", "DIRECTORY", "LISTENS ON"), rows, optional=("DIRECTORY",))


@quorum.command(epilog=examples("headrace quorum add --config node4/server.properties"))
@click.option(
    "--config", "-c", "file", type=click.Path(), required=True, metavar="FILE", help="Settings of that node."
)
@cluster_options
@json_option
def add(file: str, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Let a controller vote that runs and has caught up."""
    from headrace.clients import RaftVoterEndpoint
    from headrace.node.config import read_properties_file
    from headrace.settings.broker_config import BrokerConfig

    config = BrokerConfig(read_properties_file(file))
    directory_id = _directory_of(config.metadata_log_dir)
    endpoints = [RaftVoterEndpoint(each.name, each.host, each.port) for each in config.controller_listeners]
    if not endpoints:
        raise click.ClickException(f"{file}: the node is no controller: process.roles must name it as one")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        admin.add_voter(config.node_id, directory_id, endpoints)
    if as_json:
        print_json({"node_id": config.node_id, "directory_id": directory_id, "is_voter": True})
    else:
        click.echo(f"node {config.node_id} is a voter")


@quorum.command(epilog=examples("headrace quorum remove 3"))
@click.argument("node_id", type=int)
@click.option("--directory-id", metavar="ID", help="Only if this is its directory.  [default: the voter's]")
@cluster_options
@json_option
def remove(
    node_id: int, directory_id: str | None, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Let a voter only follow from now on, as before it goes for good."""
    if directory_id is not None:
        parse_uuid(directory_id, "--directory-id")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        if directory_id is None:
            known = {each.node_id: each for each in admin.describe_quorum().members if each.is_voter}
            if node_id not in known:
                raise click.ClickException(f"node {node_id} is no voter: see `headrace quorum describe`")
            directory_id = known[node_id].directory_id
        admin.remove_voter(node_id, directory_id)
    if as_json:
        print_json({"node_id": node_id, "directory_id": directory_id, "is_voter": False})
    else:
        click.echo(f"node {node_id} is no voter any more")


def _directory_of(folder: str) -> str:
    """The id of a formatted folder."""
    from headrace.base.ids import uuid_text
    from headrace.log.meta_properties import decode_meta_properties

    with open(os.path.join(folder, "meta.properties"), "rb") as file:
        return uuid_text(decode_meta_properties(file.read()).directory_id)
