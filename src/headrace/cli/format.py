"""`headrace format`: the folders of a node of a cluster before it first runs, as by Kafka's StorageTool.

A node that is alone formats its folders by itself. Nodes of a cluster must agree on its id first, and on who
votes: by controller.quorum.voters in every node's settings, or, where the log itself keeps the voters, by the
same --initial-controllers for all of them, or by --standalone for the first one. A node that joins later has
none (--no-initial-controllers).
"""

import random
import re
from typing import TYPE_CHECKING

import click

from headrace.cli.options import examples, json_option, parse_pairs, parse_uuid
from headrace.cli.output import print_json

if TYPE_CHECKING:
    from headrace.raft.voters import VoterSet
    from headrace.settings.broker_config import BrokerConfig


@click.command(
    epilog=examples(
        "headrace format --config server.properties --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
        "headrace format -c server.properties --standalone --release-version 4.1",
        "headrace format -c node1.properties -I 1@127.0.0.1:9093:D3IzQtVYRY2Jv5bMoKaQiA",
    )
)
@click.option(
    "--config", "-c", "file", type=click.Path(), required=True, metavar="FILE", help="The node's settings."
)
@click.option("--cluster-id", "-t", metavar="ID", help="The same for all nodes.")
@click.option(
    "--initial-controllers",
    "-I",
    metavar="ID@HOST:PORT:DIRECTORY,…",
    help="The first voters, where the log keeps them (kraft.version 1).",
)
@click.option("--standalone", is_flag=True, help="This controller is the first voter; others join later.")
@click.option(
    "--no-initial-controllers", "-N", is_flag=True, help="This node joins voters that are there already."
)
@click.option(
    "--release-version", "-r", metavar="VERSION", help="The release to begin with, as 4.1 or 4.1-IV1."
)
@click.option(
    "--feature",
    "-f",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature's level to begin with.",
)
@click.option(
    "--add-scram",
    "-S",
    "scram",
    multiple=True,
    metavar="SCRAM-SHA-256=[name=…,password=…]",
    help="A user to begin with; also iterations=, salt=, saltedpassword=.",
)
@click.option("--ignore-formatted", "-g", is_flag=True, help="As Kafka's; formatted folders are always left.")
@click.option("--set", "-s", "settings", multiple=True, metavar="NAME=VALUE", help="Wins over FILE.")
@json_option
def format_command(
    file: str,
    cluster_id: str | None,
    initial_controllers: str | None,
    standalone: bool,
    no_initial_controllers: bool,
    release_version: str | None,
    features: tuple[str, ...],
    scram: tuple[str, ...],
    ignore_formatted: bool,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make the folders of a node that has never run; what is formatted already stays as it is.

    Without a cluster id new folders get that of the formatted ones beside them, or a new one. Options are
    those of Kafka's `kafka-storage format`.
    """
    from headrace.base.clock import SystemClock
    from headrace.log.system_disk import SystemDisk
    from headrace.node.bootstrap import BootstrapError, bootstrap_records, scram_user
    from headrace.node.config import read_properties_file
    from headrace.node.storage import FirstMembers, format_node
    from headrace.settings.broker_config import BrokerConfig

    config = BrokerConfig(read_properties_file(file) | parse_pairs("--set", settings))
    _check_members(config, initial_controllers, standalone, no_initial_controllers)
    rng = random.SystemRandom()
    try:
        users = [scram_user(text, rng.randbytes) for text in scram]
        records = bootstrap_records(release_version, _levels(features), users)
    except BootstrapError as error:
        raise click.UsageError(f"{error}.") from error
    if cluster_id is not None:
        parse_uuid(cluster_id, "--cluster-id")
    listener = config.controller_listener_names[0]
    first = FirstMembers.OF_SETTINGS
    if standalone or no_initial_controllers:
        first = FirstMembers.THIS_NODE if standalone else FirstMembers.NOBODY_HERE
    for folder in config.log_dirs:
        SystemDisk().make_folder(folder)
    chosen, new = format_node(
        config,
        cluster_id,
        disk=SystemDisk(),
        clock=SystemClock(),
        rng=rng,
        voters=None if initial_controllers is None else _voters(initial_controllers, listener),
        first=first,
        bootstrap=records,
    )
    if as_json:
        print_json({"node": config.node_id, "cluster": chosen, "formatted": sorted(new)})
        return
    of_whom = f"for node {config.node_id} of cluster {chosen}"
    old = [folder for folder in config.log_dirs if folder.rstrip("/") not in new]
    if old:
        click.echo(f"left as they are: {', '.join(old)}, formatted already {of_whom}")
    if new:
        click.echo(f"formatted {', '.join(new)} {of_whom}")


def _check_members(
    config: "BrokerConfig", initial_controllers: str | None, standalone: bool, no_initial_controllers: bool
) -> None:
    """What Kafka's tool refuses of how the first voters are named."""
    given = [
        name
        for name, is_given in (
            ("--initial-controllers", initial_controllers is not None),
            ("--standalone", standalone),
            ("--no-initial-controllers", no_initial_controllers),
        )
        if is_given
    ]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} contradict each other: give one of them.")
    if (standalone or no_initial_controllers) and config.list("controller.quorum.voters"):
        raise click.UsageError(
            f"{given[0]} is for quorums whose log keeps the voters, but controller.quorum.voters is set: "
            "take it out, and set controller.quorum.bootstrap.servers."
        )
    if standalone and "controller" not in config.roles:
        raise click.UsageError(
            "--standalone is for a controller, and process.roles says that this node is none."
        )


def _levels(features: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, text in parse_pairs("--feature", features).items():
        if not text.strip().isdecimal():
            raise click.BadParameter(f"{name}={text}: a level is a number.", param_hint="'--feature'")
        levels[name] = int(text)
    return levels


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
