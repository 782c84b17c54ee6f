"""A node's settings at its start: a FILE in Kafka's form, the command line, and what a single node needs.

    headrace's own defaults  <  FILE  <  --port and --data  <  --set

Without a FILE, or with one from the days of ZooKeeper (no process.roles), the node is on its own: both roles,
a quorum of one, internal topics with one replica. A FILE that names its roles is taken as Kafka takes it.
Names that no broker setting has are a warning in a FILE, and an error on the command line.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final

from headrace.node.config_providers import LookedUp, look_up
from headrace.node.properties_file import PropertiesFile, open_properties, warnings
from headrace.node.secret_files import files_with_secrets
from headrace.settings.broker import BROKER
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.listeners import ListenerEndpoint
from headrace.settings.not_yet import refuse_what_is_missing

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = "data"
SECURITY: Final = "security"
"""The folder, beside those of the nodes, of a cluster that was made secure (`secure_fleet`)."""
# In a cluster, how far a controller's port lies from the clients' one: stable, not where a neighbour would
# listen.
CONTROLLER_PORT_DISTANCE: Final = 10_000
# Ports that the system lends to outgoing connections, and those of Linux where it does not say which.
LENT_PORTS_FILE: Final = "/proc/sys/net/ipv4/ip_local_port_range"
LENT_PORTS: Final = (32_768, 60_999)
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
    *,
    strict: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> BrokerConfig:
    """The settings of a node; SettingError where they are wrong, OSError where the file cannot be read.

    `warn` is told of what the FILE says without effect; that is wrong, too, where it is `strict`.
    """
    found = PropertiesFile() if file is None else open_properties(file)
    for warning in warnings(found, strict=strict):
        warn(warning)
    given = dict(overrides or {})
    looked_up = look_up(found.broker_settings() | given)
    properties = {name: looked_up.values[name] for name in found.broker_settings() if name not in given}
    if port is not None and "listeners" in properties:
        _move_to_port(properties, port)
    if data is not None:
        properties["log.dirs"] = data
    properties.update((name, looked_up.values[name]) for name in given)
    if "process.roles" not in properties:
        _stand_alone(properties, DEFAULT_PORT if port is None else port)
    try:
        config = BrokerConfig(properties)
        refuse_what_is_missing(config)
        config.looked_up = looked_up.names
        config.secret_files = _secret_files(file, found, looked_up)
    except SettingError as error:
        raise _without_secrets(error, looked_up, found if error.setting not in given else None) from None
    return config


def _secret_files(file: str | None, found: PropertiesFile, looked_up: LookedUp) -> tuple[str, ...]:
    """The FILE where it has secrets, and those that its secrets and the command line's were taken from."""
    own = {name: entry.value for name, entry in found.entries.items()}
    return tuple(files_with_secrets(file, own, looked_up.files))


def _without_secrets(error: SettingError, looked_up: LookedUp, file: PropertiesFile | None) -> SettingError:
    """The error with its place in the file, and without a value that a config provider gave."""
    reason = error.reason
    if error.setting in looked_up.names:
        reason = "the value that its config provider gives is not allowed"
    elif any(looked_up.values[name] in reason for name in looked_up.names):
        reason = f"it does not fit what config providers give for {', '.join(sorted(looked_up.names))}"
    if file is not None and error.setting in file.entries:
        reason = f"{reason} ({file.place(error.setting)})"
    return SettingError(error.setting, reason)


def read_properties_file(path: str) -> dict[str, str]:
    """The broker settings of a .properties file, those from config providers looked up."""
    return look_up(open_properties(path).broker_settings()).values


def is_secured(data: str) -> bool:
    """Whether the nodes in this folder were made with `--secure`."""
    return os.path.exists(os.path.join(data, SECURITY, "ca.pem"))


def controller_port(port: int) -> int:
    """Where the controller of the node on this port listens: 10,000 above, or below where any program's
    outgoing connection may have that port already. A free port stays a free one.
    """
    if port == 0:
        return 0
    first, last = _lent_ports()
    above, below = port + CONTROLLER_PORT_DISTANCE, port - CONTROLLER_PORT_DISTANCE
    possible = [each for each in (above, below) if 1024 <= each <= 65_535]
    return next((each for each in possible if not first <= each <= last), possible[0])


def _lent_ports() -> tuple[int, int]:
    try:
        with open(LENT_PORTS_FILE, encoding="ascii") as file:
            first, last = map(int, file.read().split())
    except (OSError, ValueError):
        return LENT_PORTS
    return first, last


def _stand_alone(properties: dict[str, str], port: int) -> None:
    """Add what a node on its own needs and nobody has set."""
    listeners = properties.get("listeners", f"PLAINTEXT://127.0.0.1:{port}")
    protocols = properties.get("listener.security.protocol.map")
    if f"{_CONTROLLER}://" not in listeners:
        # Nobody else needs to find it, and any port that is guessed may be another program's: a free one.
        properties["listeners"] = f"{listeners},{_CONTROLLER}://127.0.0.1:0"
        properties.setdefault("controller.quorum.voters", f"{_node_id(properties)}@127.0.0.1:0")
        if protocols is not None and f"{_CONTROLLER}:" not in protocols:
            properties["listener.security.protocol.map"] = f"{protocols},{_CONTROLLER}:PLAINTEXT"
        elif protocols is None and ("SSL://" in listeners or "SASL_PLAINTEXT://" in listeners):
            # The quorum of one is on this machine alone, and nobody else talks to it.
            usual = BROKER["listener.security.protocol.map"].default
            properties["listener.security.protocol.map"] = f"{usual},{_CONTROLLER}:PLAINTEXT"
    if "PLAINTEXT://" not in listeners and "security.inter.broker.protocol" not in properties:
        properties.setdefault("inter.broker.listener.name", listeners.partition("://")[0].strip())
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


def _at_port(endpoint: ListenerEndpoint, name: str, port: int) -> str:
    return str(endpoint._replace(port=port) if endpoint.name == name else endpoint)
