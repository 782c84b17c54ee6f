"""A broker's settings: what its file says, what was changed while it runs, and the values that follow.

Four layers, the first that has a name wins: dynamic for this broker, dynamic for all brokers, the file,
Kafka's default. Every value is parsed when a layer changes and then kept, so that reading one is a dictionary
lookup; what the data path needs is read once at start-up or after a change, never for a request.

A name that is not Kafka's is an error, unless it is meant for a plugin or a single listener (see `names.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.settings.broker import BROKER
from headrace.settings.broker_rules import check_together
from headrace.settings.definition import (
    ConfigSource,
    NoDefault,
    Setting,
    SettingError,
    TypedValues,
    Value,
    parse,
    unknown_setting,
)
from headrace.settings.listeners import ListenerEndpoint, check_ports, parse_endpoints, parse_protocol_map
from headrace.settings.names import is_leftover, is_plugin_setting, listener_setting

PLUGIN_PREFIXES: Final = (
    "remote.log.metadata.manager.impl.prefix",
    "remote.log.storage.manager.impl.prefix",
)
"""Settings that say how a file names those of its remote store."""

_SASL_OR_TLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULTS: Final[Mapping[str, Value]] = {name: setting.default_value for name, setting in BROKER.items()}


def parse_broker_setting(name: str, text: str) -> Value:
    """One broker setting's value, for any name that a broker takes; SettingError otherwise."""
    setting = broker_setting(name)
    if setting is not None:
        try:
            return parse(setting, text)
        except SettingError as error:
            # By the name for one listener, where it is one.
            told = error.for_clients.replace(f" {setting.name}:", f" {name}:")
            raise SettingError(name, error.reason, told) from None
    if is_leftover(name) or is_plugin_setting(name):
        return text
    raise unknown_setting(name, BROKER, "broker")


def broker_setting(name: str) -> Setting | None:
    """What is known of a broker setting, also of one for a single listener; None for a plugin's."""
    return BROKER.get(name) or BROKER.get(listener_setting(name))


class BrokerConfig(TypedValues):
    """All settings of one broker: those of its file, and on top what `set_dynamic` brings while it runs."""

    def __init__(self, properties: Mapping[str, str], *, check: bool = True) -> None:
        """SettingError where the properties are wrong; `check=False` asks only that each one is right."""
        self.static: dict[str, str] = _with_both_ids(properties)
        self.looked_up: frozenset[str] = frozenset()
        """Settings of the file whose values came from config providers: they are in no log line."""
        self.secret_files: tuple[str, ...] = ()
        """The file itself, where it has secrets, and those of config providers that have."""
        self.dynamic_broker: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        self._static_values = self._parse_file()
        self._refresh()
        if check:
            self._require(setting for setting in BROKER.values() if isinstance(setting.default, NoDefault))
            check_together(self)

    def _parse_file(self) -> dict[str, Value]:
        """The file's values. It may say with which prefixes it names the settings of its remote store."""
        prefixes = tuple(filter(None, map(self.static.get, PLUGIN_PREFIXES)))
        return {
            name: text
            if name.startswith(prefixes) and broker_setting(name) is None
            else parse_broker_setting(name, text)
            for name, text in self.static.items()
        }

    # Where values come from

    def source(self, name: str) -> ConfigSource:
        """Which layer the value of this very name comes from."""
        for source, layer in self.layers():
            if name in layer:
                return source
        return ConfigSource.DEFAULT

    def layers(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """What was set, by whom, the strongest first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT, self.dynamic_default),
            (ConfigSource.STATIC, self.static),
        )

    # Changes

    def set_dynamic(self, *, broker: Mapping[str, str], default: Mapping[str, str]) -> frozenset[str]:
        """Put a running cluster's changes on top of the file; returns the names whose value is another now.

        They were checked before they were written down. One that this version cannot read any more must not
        stop a broker, so it counts as not set.
        """
        before = self._values
        self.dynamic_broker = _readable(broker)
        self.dynamic_default = _readable(default)
        self._refresh()
        names = before.keys() | self._values.keys()
        return frozenset(name for name in names if before.get(name) != self._values.get(name))

    def with_dynamic(self, *, broker: Mapping[str, str], default: Mapping[str, str]) -> "BrokerConfig":
        """A copy as it would be after such a change."""
        copy = BrokerConfig(self.static, check=False)
        copy.set_dynamic(broker=broker, default=default)
        return copy

    def _refresh(self) -> None:
        values = {**_DEFAULTS, **self._static_values}
        for layer in (self.dynamic_default, self.dynamic_broker):
            values.update((name, parse_broker_setting(name, text)) for name, text in layer.items())
        self._values = values

    def _require(self, settings: Iterable[Setting]) -> None:
        for setting in settings:
            if self._values[setting.name] is None:
                raise SettingError(setting.name, f"must be set. {setting.doc}")

    # Who the node is and where it listens

    @property
    def node_id(self) -> int:
        return self.int("node.id")

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(self.list("process.roles"))

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Folders of the logs."""
        return self.list("log.dirs") or self.list("log.dir")

    @property
    def metadata_log_dir(self) -> str:
        """Folder of the metadata log."""
        return self.str("metadata.log.dir") or self.log_dirs[0]

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.list("controller.listener.names"))

    @property
    def security_protocols(self) -> dict[str, str]:
        """Listener names and their protocols; the controller's need no entry while nothing is secured."""
        protocols = parse_protocol_map(self.str("listener.security.protocol.map"))
        if self.source("listener.security.protocol.map") is ConfigSource.DEFAULT:
            names = {item.partition("://")[0].upper() for item in self.list("listeners")}
            if not names.union(self.controller_listener_names).intersection(_SASL_OR_TLS):
                protocols.update(dict.fromkeys(self.controller_listener_names, "PLAINTEXT"))
        return protocols

    @property
    def listeners(self) -> tuple[ListenerEndpoint, ...]:
        """Everything the node listens on."""
        endpoints = parse_endpoints("listeners", self.list("listeners"), self.security_protocols)
        check_ports(endpoints)
        return endpoints

    @property
    def broker_listeners(self) -> tuple[ListenerEndpoint, ...]:
        """The listeners for clients and other brokers."""
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[ListenerEndpoint, ...]:
        """The listeners for the quorum; empty on a node that is no controller."""
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    @property
    def advertised_listeners(self) -> tuple[ListenerEndpoint, ...]:
        """What clients are told, without the controller's; hosts are as configured, empty ones included."""
        items = self.list("advertised.listeners")
        if not items:
            return self.broker_listeners
        endpoints = parse_endpoints("advertised.listeners", items, self.security_protocols)
        return tuple(each for each in endpoints if each.name not in self.controller_listener_names)

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        name = self.str("inter.broker.listener.name")
        return name.upper() if name else self.str("security.inter.broker.protocol")


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """node.id and broker.id are one number; either may be given."""
    static = dict(properties)
    if "broker.id" in static and "node.id" not in static:
        static["node.id"] = static["broker.id"]
    elif "node.id" in static:
        static.setdefault("broker.id", static["node.id"])
    return static


def _readable(layer: Mapping[str, str]) -> dict[str, str]:
    readable = {}
    for name, text in layer.items():
        try:
            parse_broker_setting(name, text)
        except SettingError:
            continue
        readable[name] = text
    return readable
