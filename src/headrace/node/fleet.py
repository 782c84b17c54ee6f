"""Several nodes on one machine as a cluster: the settings of each, and their folders formatted together.

Node K has its files in DATA/nodeK and its settings in DATA/nodeK/server.properties, so that it can be started
again by hand. Ports follow each other from the first; with port 0 free ones are taken. All nodes are brokers,
and the first three voters, whose set is kept in the metadata log (kraft.version 1) and can be changed there;
the addresses in controller.quorum.voters only say where each listens now. Topics get as many replicas as
three nodes can hold; where the nodes are there for the machine's cores (`--nodes auto`), one, and one rack.

A secure cluster (`secure_fleet`) has listeners of three kinds: clients log in on one, and the nodes know each
other by their certificates on the other two.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace.base.clock import SystemClock
from headrace.base.ids import new_uuid, uuid_text
from headrace.log.meta_properties import decode_meta_properties
from headrace.log.system_disk import SystemDisk
from headrace.metadata.image import MetadataRecord
from headrace.node.config import controller_port
from headrace.node.machine import metrics_listener, replicated
from headrace.node.properties_file import open_properties
from headrace.node.storage import FirstMembers, format_node
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.not_yet import refuse_what_is_missing
from headrace.transport.system_network import free_ports

HOST: Final = "127.0.0.1"
CONTROLLER: Final = "CONTROLLER"
CONTROLLER_AT: Final = 1
"""Which of the kinds of listeners is the controllers'."""
VOTERS_MAX: Final = 3
"""A machine's nodes live and die with it: more voters would only make every change wait for more of them."""

SETTINGS_FILE: Final = "server.properties"

# What makes a node this one and no other: set here for each, whatever a file says.
_OWN: Final = (
    "node.id",
    "broker.id",
    "listeners",
    "advertised.listeners",
    "log.dir",
    "log.dirs",
    "broker.rack",
)


def fleet_configs(
    count: int,
    port: int,
    data: str,
    overrides: Mapping[str, str] | None = None,
    *,
    client_listener: str = "PLAINTEXT",
    more_listeners: Sequence[str] = (),
    more_settings: Callable[[int], Mapping[str, str]] = lambda node_id: {},
    rack: str | None = None,
) -> list[BrokerConfig]:
    """The settings of nodes 1 to `count`, each with `more_settings` of its own; SettingError where the
    overrides are wrong. Clients connect to `client_listener`; nodes talk on `more_listeners`. With a `rack`,
    which is all of theirs, a partition has one replica: no two are to be on one machine.
    """
    given = {name: value for name, value in (overrides or {}).items() if name not in _OWN}
    names = (client_listener, CONTROLLER, *more_listeners)
    ports = _ports(len(names), count, port)
    voting = [number < VOTERS_MAX or _has_voted(data, number) for number in range(count)]
    voters = ",".join(f"{n + 1}@{HOST}:{ports[CONTROLLER_AT][n]}" for n in range(count) if voting[n])
    defaults = replicated(count if rack is None else 1) | ({} if rack is None else {"broker.rack": rack})
    configs = []
    for number in range(count):
        listeners = [
            f"{name}://{HOST}:{ports[at][number]}"
            for at, name in enumerate(names)
            if name != CONTROLLER or voting[number]
        ]
        own = {
            "process.roles": "broker,controller" if voting[number] else "broker",
            "node.id": str(number + 1),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(each for each in listeners if not each.startswith(CONTROLLER)),
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": voters,
            "log.dirs": os.path.join(data, f"node{number + 1}"),
            **metrics_listener(given, number),
        }
        config = BrokerConfig(defaults | {**more_settings(number + 1)} | given | own)
        refuse_what_is_missing(config)
        configs.append(config)
    return configs


def _ports(kinds: int, count: int, port: int) -> list[list[int]]:
    """Of each kind of listener, one for each node; those of nodes' own follow the controllers'."""
    if port == 0:
        free = free_ports(kinds * count, HOST)
        return [free[kind * count : (kind + 1) * count] for kind in range(kinds)]
    firsts = [port, *(controller_port(port) + kind * count for kind in range(kinds - 1))]
    return [[first + number for number in range(count)] for first in firsts]


def _has_voted(data: str, number: int) -> bool:
    """A node that was made a voter stays one: the quorum's log counts on it."""
    try:
        found = open_properties(os.path.join(data, f"node{number + 1}", SETTINGS_FILE)).broker_settings()
    except OSError:
        return False
    return "controller" in found.get("process.roles", "")


def format_fleet(
    configs: Sequence[BrokerConfig],
    rng: random.Random,
    bootstrap: Sequence[MetadataRecord] | None = None,
) -> None:
    """Make the folders of nodes that have never run, and write down the settings of all. A cluster that is
    new begins with the records of `bootstrap`, and with the voters that these settings name.
    """
    disk, clock = SystemDisk(), SystemClock()
    known = [cluster for cluster in map(cluster_of, configs) if cluster is not None]
    cluster_id = known[0] if known else uuid_text(new_uuid(rng))
    voters = None
    if not known:
        voters = VoterSet(
            Voter(
                config.node_id,
                new_uuid(rng),
                {each.name: (each.host, each.port) for each in config.controller_listeners},
            )
            for config in configs
            if "controller" in config.roles
        )
    for config in configs:
        disk.make_folder(config.log_dirs[0])
        format_node(config, cluster_id, disk=disk, clock=clock, rng=rng, voters=voters, bootstrap=bootstrap)
        _write_settings(config)


def format_machine(configs: Sequence[BrokerConfig], rng: random.Random, cluster_id: str | None) -> None:
    """The same for the nodes of one machine of several (`machine`), which must agree on the cluster's id;
    SettingError where nobody said it."""
    disk, clock = SystemDisk(), SystemClock()
    known = [cluster for cluster in map(cluster_of, configs) if cluster is not None]
    if not known and cluster_id is None:
        raise SettingError(
            "log.dirs",
            "the folder is new: give every machine of the cluster the same --cluster-id, as "
            f"{uuid_text(new_uuid(rng))}, which is a new one",
        )
    if known and cluster_id not in (None, known[0]):
        raise SettingError("log.dirs", f"the folder is of cluster {known[0]}, not of {cluster_id}")
    for config in configs:
        joins = not config.list("controller.quorum.voters")
        disk.make_folder(config.log_dirs[0])
        format_node(
            *(config, known[0] if known else cluster_id),
            disk=disk,
            clock=clock,
            rng=rng,
            first=FirstMembers.NOBODY_HERE if joins else FirstMembers.OF_SETTINGS,
        )
        _write_settings(config)


def _write_settings(config: BrokerConfig) -> None:
    """For their owner alone: there may be passwords among them."""
    path = os.path.join(config.log_dirs[0], SETTINGS_FILE)
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        os.chmod(path, 0o600)  # it may be there, as an earlier release wrote it
        file.writelines(f"{name}={value}\n" for name, value in sorted(config.static.items()))


def cluster_of(config: BrokerConfig) -> str | None:
    """The id of the cluster that a node's folder is formatted for; None where it is not yet."""
    path = os.path.join(config.log_dirs[0], "meta.properties")
    try:
        with open(path, "rb") as file:
            return decode_meta_properties(file.read()).cluster_id
    except FileNotFoundError:
        return None
