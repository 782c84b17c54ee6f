"""Several nodes on one machine as a cluster: the settings of each, and their folders formatted together.

Node K has its files in DATA/nodeK and its settings in DATA/nodeK/server.properties, so that it can be started
again by hand. Ports follow each other from the first; with port 0 free ones are taken. All nodes are brokers
and voters, whose set is kept in the metadata log (kraft.version 1) and can be changed there; the addresses in
controller.quorum.voters only say where each listens now. Topics get as many replicas as three nodes can hold.
"""

import os
import random
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.base.clock import SystemClock
from headrace.base.ids import new_uuid, uuid_text
from headrace.log.meta_properties import decode_meta_properties
from headrace.log.system_disk import SystemDisk
from headrace.node.config import controller_port
from headrace.node.storage import format_node
from headrace.raft.voters import Voter, VoterSet
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.not_yet import refuse_what_is_missing
from headrace.transport.system_network import free_ports

HOST: Final = "127.0.0.1"
CONTROLLER: Final = "CONTROLLER"
REPLICAS_MAX: Final = 3

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
    count: int, port: int, data: str, overrides: Mapping[str, str] | None = None
) -> list[BrokerConfig]:
    """The settings of nodes 1 to `count`; SettingError where the overrides are wrong."""
    given = {name: value for name, value in (overrides or {}).items() if name not in _OWN}
    ports = free_ports(2 * count, HOST) if port == 0 else [port + n for n in range(count)]
    if port:
        ports += [controller_port(port) + n for n in range(count)]
    voters = ",".join(f"{n + 1}@{HOST}:{ports[count + n]}" for n in range(count))
    configs = []
    for number in range(count):
        own = {
            "process.roles": "broker,controller",
            "node.id": str(number + 1),
            "listeners": f"PLAINTEXT://{HOST}:{ports[number]},{CONTROLLER}://{HOST}:{ports[count + number]}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{ports[number]}",
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": voters,
            "log.dirs": os.path.join(data, f"node{number + 1}"),
        }
        config = BrokerConfig(_replicated(count) | given | own)
        refuse_what_is_missing(config)
        configs.append(config)
    return configs


def _replicated(count: int) -> dict[str, str]:
    replicas = str(min(count, REPLICAS_MAX))
    needed = "2" if count >= REPLICAS_MAX else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": needed,
    }


def format_fleet(configs: Sequence[BrokerConfig], rng: random.Random) -> None:
    """Make the folders of nodes that have never run, and write down the settings of all."""
    disk, clock = SystemDisk(), SystemClock()
    known = [cluster for cluster in map(_cluster_of, configs) if cluster is not None]
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
        )
    for config in configs:
        folder = config.log_dirs[0]
        disk.make_folder(folder)
        format_node(config, cluster_id, disk=disk, clock=clock, rng=rng, voters=voters)
        with open(os.path.join(folder, "server.properties"), "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in sorted(config.static.items()))


def _cluster_of(config: BrokerConfig) -> str | None:
    path = os.path.join(config.log_dirs[0], "meta.properties")
    try:
        with open(path, "rb") as file:
            return decode_meta_properties(file.read()).cluster_id
    except FileNotFoundError:
        return None
