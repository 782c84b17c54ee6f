"""Where a node listens and what it tells clients: the listener settings, read together.

A listener is NAME://HOST:PORT. The name chooses its security protocol through listener.security.protocol.map
and says who it is for: the controller's (controller.listener.names), the brokers' among themselves
(inter.broker.listener.name), or any client's. What Kafka refuses is refused here, with the setting to change.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.settings.definition import SettingError

_LISTENER: Final = re.compile(r"([^:/]*)://(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]]*)):(-?[0-9]+)")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


class ListenerEndpoint(NamedTuple):
    """One listener. An empty host is every address to listen on, and the machine's name to advertise."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Listener names and their security protocols out of listener.security.protocol.map."""
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        name, separator, protocol = pair.rpartition(":")
        if not separator or protocol.strip().upper() not in PROTOCOLS:
            raise SettingError(setting, f"{pair!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_endpoints(
    setting: str, items: Iterable[str], protocols: Mapping[str, str]
) -> tuple[ListenerEndpoint, ...]:
    """The listeners in a setting's items; SettingError for a bad form, a strange name or a repeated one."""
    endpoints: dict[str, ListenerEndpoint] = {}
    for item in items:
        match = _LISTENER.fullmatch(item.strip())
        if match is None or not -1 <= int(match[4]) <= 65535:
            raise SettingError(setting, f"{item!r} is not NAME://HOST:PORT with a port from 0 to 65535")
        name = match[1].upper()
        if name not in protocols:
            what = f"{item!r} has no security protocol: add {name or 'NAME'}:PLAINTEXT to"
            raise SettingError(setting, f"{what} listener.security.protocol.map")
        if name in endpoints:
            raise SettingError(setting, f"listener {name} is there twice")
        endpoints[name] = ListenerEndpoint(name, match[2] or match[3] or "", int(match[4]), protocols[name])
    return tuple(endpoints.values())


def check_ports(endpoints: Iterable[ListenerEndpoint]) -> None:
    """Two listeners may share a port only as one for IPv4 and one for IPv6."""
    seen: dict[int, ListenerEndpoint] = {}
    for endpoint in endpoints:
        other = seen.setdefault(endpoint.port, endpoint)
        if other is endpoint or endpoint.port <= 0:
            continue
        if (":" in endpoint.host) == (":" in other.host) or "" in (endpoint.host, other.host):
            raise SettingError("listeners", f"{other} and {endpoint} use the same port")
