"""`headrace format`: the folders of a node of a cluster before it first runs, as by Kafka's StorageTool.

A node that is alone formats its folders by itself. Nodes of a cluster must agree on its id first, and on who
votes: by controller.quorum.voters in every node's settings, or, where the log itself keeps the voters, by the
same --initial-controllers for all of them. A node that joins later has none.
"""

import random
import re
from typing import TYPE_CHECKING

import click

from headrace.cli.options import examples, parse_pairs, parse_uuid

if TYPE_CHECKING:
    from headrace.raft.voters import VoterSet


@click.command(
    epilog=examples(
        "headrace format --config server.properties --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
        "headrace format -c node1.properties -I 1@127.0.0.1:9093:D3IzQtVYRY2Jv5bMoKaQiA",
    )
)
@click.option(
    "--config", "-c", "file", type=click.Path(), required=True, metavar="FILE", help="The node's settings."
)
@click.option("--cluster-id", "-t", metavar="ID", help="The same for all nodes.  [default: a new one]")
@click.option(
    "--initial-controllers",
    "-I",
    metavar="ID@HOST:PORT:DIRECTORY,…",
    help="The first voters, where the log keeps them (kraft.version 1).",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="NAME=VALUE", help="Wins over FILE.")
def format_command(
    file: str,
    cluster_id: str | None,
    initial_controllers: str | None,
    settings: tuple[str, ...],
) -> None:
    """Make the folders of a node that has never run; what is formatted already stays as it is."""
    from headrace.base.clock import SystemClock
    from headrace.base.ids import new_uuid, uuid_text
    from headrace.log.system_disk import SystemDisk
    from headrace.node.config import read_properties_file
    from headrace.node.storage import format_node
    from headrace.settings.broker_config import BrokerConfig

    config = BrokerConfig(read_properties_file(file) | parse_pairs("--set", settings))
    rng = random.SystemRandom()
    chosen = uuid_text(new_uuid(rng)) if cluster_id is None else parse_uuid(cluster_id, "--cluster-id")
    listener = config.controller_listener_names[0]
    voters = None if initial_controllers is None else _voters(initial_controllers, listener)
    for folder in config.log_dirs:
        SystemDisk().make_folder(folder)
    format_node(config, chosen, disk=SystemDisk(), clock=SystemClock(), rng=rng, voters=voters)
    click.echo(f"formatted {', '.join(config.log_dirs)} for node {config.node_id} of cluster {chosen}")


def _voters(text: str, listener: str) -> "VoterSet":
    """The voters of the option, as Kafka's own tool writes them."""
    from headrace.base.ids import uuid_bytes
    from headrace.raft.voters import Voter, VoterSet

    voters = []
    for entry in text.split(","):
        match = re.fullmatch(r"(\d+)@(.+):(\d+):([\w-]{22})", entry.strip())
        if match is None:
            raise click.BadParameter(
                f"{entry!r} is not ID@HOST:PORT:DIRECTORY, as in 1@127.0.0.1:9093:MkU3OEVBNTcwNTJENDM2Qg",
                param_hint="'--initial-controllers'",
            )
        endpoints = {listener: (match[2].strip("[]"), int(match[3]))}
        voters.append(Voter(int(match[1]), uuid_bytes(match[4]), endpoints))
    return VoterSet(voters)
