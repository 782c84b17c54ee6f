"""A node's settings at its start: a FILE in Kafka's form, the command line, and what a single node needs.

    headrace's own defaults  <  FILE  <  --port and --data  <  --set

Without a FILE, or with one from the days of ZooKeeper (no process.roles), the node is on its own: both roles,
a quorum of one, internal topics with one replica. A FILE that names its roles is taken as Kafka takes it.
"""

from collections.abc import Mapping
from typing import Final

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.listeners import Endpoint
from headrace.settings.not_yet import refuse_what_is_missing
from headrace.settings.properties import parse_properties

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = "data"
# How far the controller's port lies from the clients' one: stable, and not where a neighbour would listen.
CONTROLLER_PORT_DISTANCE: Final = 10_000
_CONTROLLER: Final = "CONTROLLER"

# A single node cannot keep more than one replica.
_ONE_REPLICA: Final = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


def load(
    file: str | None = None,
    overrides: Mapping[str, str] | None = None,
    port: int | None = None,
    data: str | None = None,
) -> BrokerConfig:
    """The settings of a node; SettingError where they are wrong, OSError where the file cannot be read."""
    properties = {} if file is None else read_properties_file(file)
    if port is not None and "listeners" in properties:
        _move_to_port(properties, port)
    if data is not None:
        properties["log.dirs"] = data
    properties.update(overrides or {})
    if "process.roles" not in properties:
        _stand_alone(properties, DEFAULT_PORT if port is None else port)
    config = BrokerConfig(properties)
    refuse_what_is_missing(config)
    return config


def read_properties_file(path: str) -> dict[str, str]:
    """The names and values of a .properties file."""
    with open(path, encoding="utf-8") as file:
        return parse_properties(file.read())


def controller_port(port: int) -> int:
    """Where the controller of the node on this port listens; a free port stays a free one."""
    if port == 0:
        return 0
    above = port + CONTROLLER_PORT_DISTANCE
    return above if above <= 65535 else port - CONTROLLER_PORT_DISTANCE


def _stand_alone(properties: dict[str, str], port: int) -> None:
    """Add what a node on its own needs and nobody has set."""
    listeners = properties.get("listeners", f"PLAINTEXT://127.0.0.1:{port}")
    protocols = properties.get("listener.security.protocol.map")
    if f"{_CONTROLLER}://" not in listeners:
        first_port = listeners.partition(",")[0].rpartition(":")[2].strip()
        own_port = controller_port(int(first_port)) if first_port.isdecimal() else 0
        properties["listeners"] = f"{listeners},{_CONTROLLER}://127.0.0.1:{own_port}"
        properties.setdefault("controller.quorum.voters", f"{_node_id(properties)}@127.0.0.1:{own_port}")
        if protocols is not None and f"{_CONTROLLER}:" not in protocols:
            properties["listener.security.protocol.map"] = f"{protocols},{_CONTROLLER}:PLAINTEXT"
    if "log.dir" not in properties:
        properties.setdefault("log.dirs", DEFAULT_DATA)
    defaults = {
        **_ONE_REPLICA,
        "process.roles": "broker,controller",
        "node.id": _node_id(properties),
        "controller.listener.names": _CONTROLLER,
    }
    for name, value in defaults.items():
        properties.setdefault(name, value)


def _node_id(properties: Mapping[str, str]) -> str:
    return properties.get("node.id", properties.get("broker.id", "1"))


def _move_to_port(properties: dict[str, str], port: int) -> None:
    """Give the file's first listener for clients another port, also where it is advertised."""
    config = BrokerConfig(properties, check=False)
    listener = (config.broker_listeners or config.listeners)[0]
    for setting in ("listeners", "advertised.listeners"):
        if setting in properties:
            items = config.listeners if setting == "listeners" else config.advertised_listeners
            properties[setting] = ",".join(_at_port(each, listener.name, port) for each in items)


def _at_port(endpoint: Endpoint, name: str, port: int) -> str:
    return str(endpoint._replace(port=port) if endpoint.name == name else endpoint)
