"""How connections of each listener are made: one channel builder for each, out of the node's settings.

The settings of a listener are those with `listener.name.NAME.` before them, else those without. Stores of TLS
are replaced while the node runs: by settings that change (`follow_settings`), and when their files do, which
are read again now and then (`watch`). What cannot take over is told, and the former stores serve on.
"""

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from headrace.base.clock import Clock
from headrace.node.secret_files import ExposedFiles
from headrace.security.stores import ReadFile
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError, Value
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder

if TYPE_CHECKING:
    from headrace.security.certificate_expiry import CertificateExpiry
    from headrace.security.ssl_channel_builder import SslChannelBuilder
    from headrace.security.ssl_settings import SslSettings

logger = logging.getLogger(__name__)

LOOK_S: Final = 10.0
"""Between two looks at the files of stores."""


class ChannelBuilders:
    """The builders of a node's listeners, and of those it connects to, made when they are first needed."""

    def __init__(self, config: BrokerConfig, *, read_file: ReadFile, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._read_file = read_file
        self._builders: dict[str, ChannelBuilder] = {}
        self._ssl_builders: dict[str, SslChannelBuilder] = {}
        self._expiries: dict[str, CertificateExpiry] = {}
        self._faults: dict[str, str] = {}  # what was told of a listener's files, to be told once
        self._watching: asyncio.TimerHandle | None = None
        self._exposed = ExposedFiles()

    def of(self, listener: str) -> ChannelBuilder:
        """The builder of a listener; SettingError where its settings or files are wrong."""
        found = self._builders.get(listener)
        if found is None:
            found = self._builders[listener] = self._build(listener)
        return found

    def _build(self, listener: str) -> ChannelBuilder:
        # Most nodes have neither TLS nor SASL, and start sooner without them.
        protocol = self._config.security_protocols.get(listener, "PLAINTEXT")
        below = self._ssl(listener) if protocol.endswith("SSL") else PLAINTEXT
        if not protocol.startswith("SASL_"):
            return below
        from headrace.node.sasl_listeners import login_of_node
        from headrace.security.sasl_channel_builder import SaslChannelBuilder

        login = login_of_node(self._config, listener, self._rng)
        return below if login is None else SaslChannelBuilder(below, *login, self._rng)

    def _ssl(self, listener: str) -> ChannelBuilder:
        from headrace.security.ssl_channel_builder import SslChannelBuilder

        serves = any(each.name == listener for each in self._config.listeners)
        builder = SslChannelBuilder(ssl_settings(self._config, listener), self._read_file, serves=serves)
        self._ssl_builders[listener] = builder
        return builder

    def of_https(self, listener: str) -> ChannelBuilder:
        """The builder of a listener that is none of Kafka's, and always has TLS."""
        from headrace.security.ssl_channel_builder import SslChannelBuilder

        settings = ssl_settings(self._config, listener)
        builder = SslChannelBuilder(settings, self._read_file, serves=True)
        self._ssl_builders[listener] = builder
        return builder

    # While the node runs

    def check(self, config: BrokerConfig) -> None:
        """SettingError where stores could not be replaced as these settings ask."""
        for listener, builder in self._ssl_builders.items():
            builder.check(ssl_settings(config, listener), trusts_own=self._is_between_nodes(listener))

    def follow_settings(self, config: BrokerConfig) -> None:
        """Settings changed, or are known as a whole for the first time."""
        self._config = config
        for listener in self._ssl_builders:
            self._reconfigure(listener)
        self._tell_exposed()

    def watch(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """From now on files are looked at now and then, and certificates that end soon are told of."""
        if not self._ssl_builders:
            return
        self.follow_settings(config)
        self._tell_expiry(clock.now_ms())
        self._watching = loop.call_later(LOOK_S, self.watch, config, loop, clock)

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def _reconfigure(self, listener: str) -> None:
        builder = self._ssl_builders[listener]
        try:
            is_other = builder.reconfigure(
                ssl_settings(self._config, listener),
                trusts_own=self._is_between_nodes(listener),
                in_use=self._watching is not None,
            )
        except SettingError as error:
            if self._faults.get(listener) != str(error):
                self._faults[listener] = str(error)
                logger.error("listener %s serves on with its former stores: %s", listener, error)
            return
        self._faults.pop(listener, None)
        if is_other:
            logger.info("listener %s serves newcomers with the new stores", listener)
            if listener in self._expiries:
                self._expiries[listener].tell_anew()

    def _tell_exposed(self) -> None:
        for builder in self._ssl_builders.values():
            for exposed in self._exposed.among(filter(None, [builder.settings.keystore_location])):
                logger.warning("%s", exposed)

    def _is_between_nodes(self, listener: str) -> bool:
        return listener in (self._config.inter_broker_listener_name, *self._config.controller_listener_names)

    def certificates_end_ms(self) -> dict[str, int]:
        """When the first certificate of each listener with TLS ends, in milliseconds since the epoch."""
        from headrace.security.certificate_expiry import ends_ms

        return {
            listener: min(map(ends_ms, builder.engines.key_store.chain))
            for listener, builder in self._ssl_builders.items()
            if builder.engines.key_store is not None
        }

    def _tell_expiry(self, now_ms: int) -> None:
        from headrace.security.certificate_expiry import CertificateExpiry

        for listener, builder in self._ssl_builders.items():
            if builder.engines.key_store is not None:
                expiry = self._expiries.setdefault(listener, CertificateExpiry(listener))
                expiry.tell(builder.engines.key_store.chain, now_ms)


def ssl_settings(config: BrokerConfig, listener: str) -> "SslSettings":
    """The settings of TLS that hold for a listener."""
    from headrace.security.ssl_settings import SslSettings

    return SslSettings.read(lambda name: listener_value(config, listener, name), listener_prefix(listener))


def listener_prefix(listener: str) -> str:
    """What stands before a setting for this listener alone."""
    return f"listener.name.{listener.lower()}."


def listener_value(config: BrokerConfig, listener: str, name: str) -> Value:
    """A setting as it holds for a listener."""
    own = config.get(listener_prefix(listener) + name)
    return config.get(name) if own is None else own
