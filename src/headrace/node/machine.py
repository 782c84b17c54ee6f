"""How many nodes a machine runs, and the settings of those that belong to a cluster of several machines.

A node is one event loop: it uses a core, and a part of a second one for the kernel's work, fsync, compaction
and the checks of large batches. So a machine runs a node for every two cores (`nodes_for`). What is in the
folder goes first: nodes that have data there are started, however many cores there are.

Machines of one cluster share a file of settings that names the controllers (controller.quorum.voters), and
differ in node.id and listeners. Node K of a machine has the number node.id + K - 1 and ports that follow each
other; the first one is the machine's controller, if it has one. All of them stand in one rack, the machine's
name unless the file has another: replicas of a partition are on different racks, and so on different
machines.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.listeners import ListenerEndpoint
from headrace.settings.not_yet import refuse_what_is_missing

CORES_PER_NODE: Final = 2
# Beyond that one supervisor, one disk and one network card are the limit, not the loops.
NODES_MAX: Final = 32
CPU_MAX: Final = "/sys/fs/cgroup/cpu.max"
METRICS_LISTENER: Final = "headrace.metrics.listener"
QUORUM: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")


def usable_cores() -> int:
    """Those that this process may run on, and no more than its cgroup has time for."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    try:
        with open(CPU_MAX, encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, round(int(quota) / int(period))))


def machine_name() -> str:
    """What tells this machine from others: its own name, since what DNS makes of it may be `localhost`."""
    return os.uname().nodename


def nodes_for(cores: int) -> int:
    """How many nodes use so many cores well."""
    return min(max(1, cores // CORES_PER_NODE), NODES_MAX)


def nodes_in(data: str) -> int:
    """How many nodes have run in this folder: the highest number of theirs."""
    try:
        names = os.listdir(data)
    except OSError:
        return 0
    found = [match for name in names if (match := re.fullmatch(r"node(\d+)", name))]
    numbers = [int(m[1]) for m in found if os.path.exists(os.path.join(data, m[0], "meta.properties"))]
    return max(numbers, default=0)


def note_of_unused(nodes: int, cores: int) -> str | None:
    """What to tell whoever starts fewer nodes than the machine has cores for."""
    if nodes >= nodes_for(cores):
        return None
    what = "one node uses" if nodes == 1 else f"{nodes} nodes use"
    return (
        f"this machine has {cores} cores, of which {what} some {nodes * CORES_PER_NODE}: unless other nodes "
        f"run here, `--nodes auto` runs {nodes_for(cores)} in a new folder (docs/operations.md, Sizing)"
    )


def is_one_of_several(settings: Mapping[str, str]) -> bool:
    """Whether these settings are of a machine in a cluster of more."""
    return any(settings.get(name) for name in QUORUM)


def machine_configs(count: int, data: str, settings: Mapping[str, str], rack: str) -> list[BrokerConfig]:
    """The settings of this machine's nodes, in this rack unless they name another; SettingError where they
    are wrong.
    """
    common = {name: value for name, value in settings.items() if name != "log.dir"}
    common.setdefault("process.roles", "broker,controller")
    common.setdefault("controller.listener.names", "CONTROLLER")
    common.setdefault("broker.rack", rack)
    if "node.id" not in common:
        raise SettingError("node.id", "give the number of this machine's first node, as 11; the next has 12")
    common = _replicated(common) | common
    first = BrokerConfig(common | {"log.dirs": data}, check=False)
    taken: set[int] = set()
    configs = []
    for number in range(count):
        roles = common["process.roles"] if number == 0 else "broker"
        listeners = _moved(first.listeners if number == 0 else first.broker_listeners, number)
        if clash := sorted(taken.intersection(each.port for each in listeners)):
            raise SettingError(
                "listeners",
                f"port {clash[0]} would be that of two nodes of this machine: {count} nodes have ports that "
                f"follow each other, so leave {count - 1} free behind each",
            )
        taken.update(each.port for each in listeners)
        own = {
            "process.roles": roles,
            "node.id": str(first.node_id + number),
            "listeners": ",".join(map(str, listeners)),
            "log.dirs": os.path.join(data, f"node{number + 1}"),
            **metrics_listener(common, number),
        }
        if "advertised.listeners" in common:
            own["advertised.listeners"] = ",".join(map(str, _moved(first.advertised_listeners, number)))
        config = BrokerConfig(common | own)
        refuse_what_is_missing(config)
        configs.append(config)
    return configs


def metrics_listener(given: Mapping[str, str], number: int) -> dict[str, str]:
    """Nodes of one machine have ports that follow each other, here too; 0 stays for any."""
    text = given.get(METRICS_LISTENER, "")
    before, colon, port = text.rpartition(":")
    return {METRICS_LISTENER: f"{before}{colon}{int(port) + number}"} if port.isdigit() and int(port) else {}


def _moved(endpoints: tuple[ListenerEndpoint, ...], number: int) -> list[ListenerEndpoint]:
    return [each._replace(port=each.port + number) if each.port > 0 else each for each in endpoints]


def _replicated(settings: Mapping[str, str]) -> dict[str, str]:
    """As many replicas as there are machines with a controller, three at most."""
    named = next(filter(None, (settings.get(name) for name in QUORUM)), "")
    hosts = {each.rpartition("@")[2].rpartition(":")[0].strip() for each in named.split(",")}
    return replicated(len(hosts))


def replicated(machines: int) -> dict[str, str]:
    """The defaults of a cluster whose replicas can be in so many places."""
    replicas = str(min(machines, 3))
    needed = "2" if machines >= 3 else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": needed,
    }
