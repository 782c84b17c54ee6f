"""A node's listeners: which addresses it opens, who is behind each, and what clients are told of them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.metadata.brokers import Endpoint
from headrace.metadata.client_quotas import CONNECTION_CREATION_RATE, quotas_of
from headrace.metadata.security import SecurityTables
from headrace.server.api_table import CONTROLLER, ApiTable, broker_rows
from headrace.server.context import Peer, SaslExchange
from headrace.server.dispatch import Dispatcher, end_login
from headrace.server.environment import NodeEnvironment
from headrace.server.parts import Parts
from headrace.server.produce_lane import ProduceLane
from headrace.server.quotas.quota_managers import quota_windows
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.broker_rules import parse_connection_overrides
from headrace.settings.definition import ConfigSource, SettingError
from headrace.settings.listeners import PROTOCOLS, ListenerEndpoint
from headrace.transport.attention import Attention
from headrace.transport.connection import Connection, OnClose
from headrace.transport.connection_quotas import AcceptThrottles, ConnectionQuotas
from headrace.transport.descriptors import Descriptors
from headrace.transport.limits import (
    ConnectionLimits,
    ConnectionQuotaLimits,
    ListenerQuotaLimits,
    ReceiveLimits,
)
from headrace.transport.listener import Listener
from headrace.transport.serving_turns import ServingTurns

if TYPE_CHECKING:
    from headrace.node.sasl_listeners import SaslListeners
    from headrace.server.sasl_server_authenticator import SaslListener

logger = logging.getLogger(__name__)

# Kafka's 50 overflows when clients come all at once, and the kernel then lets them wait for seconds.
BACKLOG: Final = 1024
UNLIMITED: Final = 2**31 - 1
DESCRIPTORS_LOOK_S: Final = 1.0
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


class Listeners:
    """Every listener of the node, opened together and closed together."""

    def __init__(
        self,
        parts: Parts,
        config: BrokerConfig,
        world: NodeEnvironment,
        attention: Attention | None,
        descriptors: Descriptors | None = None,
    ) -> None:
        self._config = config
        self._parts = parts
        self._open: dict[str, tuple[ListenerEndpoint, Listener]] = {}
        self._early = early_start_listeners(config)
        self._brokers = Dispatcher(parts, ApiTable(broker_rows(config)))
        self._controllers = Dispatcher(_of_controller(parts), ApiTable(CONTROLLER), has_quotas=False)
        self._on_controller_close = None if parts.broker_watch is None else parts.broker_watch.closed
        self._produce_lane = ProduceLane(parts)
        self._client_quotas = parts.quotas
        self._attention = attention
        self._loop = parts.loop
        self._faults = parts.faults
        self._serving = ServingTurns(
            parts.loop,
            parts.clock.monotonic_ns,
            slow_ns=parts.request_log.slow_ms * 1_000_000,
            on_slow=parts.request_log.tell_long_turn,
        )
        self._network = world.network
        self._read_file = world.disk.read_file
        self._logins: list[SaslListeners] = []
        self._sasl: dict[str, SaslListener] = {}
        self._memory = world.memory
        self._channel_builder = world.channel_builder
        limits = connection_quota_limits(config)
        self._quotas = ConnectionQuotas(
            limits,
            now_s=parts.loop.time,
            protected=config.inter_broker_listener_name,
            windows=quota_windows(config),
            descriptors=descriptors,
        )
        # Counted apart: clients and the quorum take no place from each other.
        self._controller_quotas = ConnectionQuotas(
            limits, now_s=parts.loop.time, descriptors=descriptors, giving_way=self._quotas
        )
        self._descriptors = descriptors
        self._watch: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Open all ports; newcomers wait until `admit`. OSError where one is taken."""
        for_controllers = {endpoint.name for endpoint in self._config.controller_listeners}
        try:
            for endpoint in self._config.listeners:
                self._open_one(
                    endpoint, self._controllers if endpoint.name in for_controllers else self._brokers
                )
        except BaseException:
            self.close()
            raise

    def _open_one(self, endpoint: ListenerEndpoint, dispatcher: Dispatcher) -> None:
        channel_builder = self._channel_builder(endpoint.name)
        is_controller = dispatcher is self._controllers
        listener = Listener(
            self._loop,
            self._network,
            memory=self._memory,
            on_frame=dispatcher.on_frame,
            attention=self._attention,
            serving=self._serving,
            on_frames=None if is_controller else self._produce_lane.take,
            on_open=dispatcher.opener(endpoint.name, self._login_at(endpoint), channel_builder),
            on_close=self._on_close(endpoint, is_controller),
            limits=connection_limits(self._config),
            faults=self._faults,
            name=endpoint.name,
            quotas=self._controller_quotas if is_controller else self._quotas,
            for_cluster=is_controller,
            channel_builder=channel_builder,
            on_refused=lambda host, why: self._tell_stranger(endpoint, host, "TlsHandshake", why),
        )
        backlog = self._config.int("socket.listen.backlog.size")
        if self._config.source("socket.listen.backlog.size") is ConfigSource.DEFAULT:
            backlog = BACKLOG
        try:
            listener.listen(endpoint.host, endpoint.port, backlog=backlog, admit=False)
        except OSError as error:
            error.filename = str(endpoint)
            raise
        self._open[endpoint.name] = (endpoint, listener)
        logger.info("listening at %s, port %d", endpoint, listener.address[1])

    def _login_at(self, endpoint: ListenerEndpoint) -> Callable[[Peer], SaslExchange] | None:
        """What begins the login of each connection; None where nobody has to log in."""
        if not endpoint.protocol.startswith("SASL_"):
            return None
        from headrace.node.sasl_listeners import SaslListeners  # most nodes have none

        parts = self._parts
        sasl = SaslListeners(
            self._config,
            lambda: parts.image,
            loop=parts.loop,
            clock=parts.clock,
            rng=parts.rng,
            read_file=self._read_file,
        )
        self._logins.append(sasl)
        listener = self._sasl[endpoint.name] = sasl.of(
            endpoint,
            lambda host, mechanism: self._tell_stranger(
                endpoint, host, "SaslAuthenticate", f"a login by {mechanism} failed"
            ),
        )
        return listener.new_exchange

    def _tell_stranger(self, endpoint: ListenerEndpoint, host: str, request: str, why: str) -> None:
        if self._parts.audit is not None:
            self._parts.audit.on_stranger(endpoint.name, host, request, why)

    def _on_close(self, endpoint: ListenerEndpoint, is_controller: bool) -> OnClose | None:
        of_controller = self._on_controller_close if is_controller else None
        has_login = endpoint.protocol.startswith("SASL_")

        def on_close(connection: Connection, reason: str) -> None:
            if has_login:
                end_login(connection)
            if isinstance(connection.attached, Peer):
                connection.attached.closed()
            if of_controller is not None:
                of_controller(connection, reason)

        return on_close

    def follow_settings(self) -> None:
        """Settings changed while the node runs: hold to their limits."""
        limits = connection_quota_limits(self._config)
        self._quotas.reconfigure(limits)
        self._controller_quotas.reconfigure(limits)

    def follow_quotas(self, tables: SecurityTables) -> None:
        """Quotas of clients changed: measure what has some now, and nothing else."""
        if self._client_quotas.follow(tables):
            self._brokers.forget_routes()
        self._quotas.address_rates.follow(address_rates(tables))

    def _look_at_descriptors(self) -> None:
        """Files may have taken of the reserve: give it back before they need what is left of it."""
        assert self._descriptors is not None
        missing = self._descriptors.missing
        if missing:
            self._quotas.free_descriptors(missing)
        self._watch = self._loop.call_later(DESCRIPTORS_LOOK_S, self._look_at_descriptors)

    def admit_controllers(self, *, early: bool) -> None:
        """Let the other members of the quorum in: `early`, before the authorizer knows its ACLs, at those of
        early.start.listeners (all, unless that is set), and later at the others."""
        for name in self._config.controller_listener_names:
            if name in self._open and (name in self._early) is early:
                self._open[name][1].admit()

    def admit(self) -> None:
        """Let clients in."""
        if self._descriptors is not None and self._watch is None:
            self._look_at_descriptors()
        for listener in self._of(controllers=False):
            listener.admit()

    async def drain_clients(self, timeout_s: float) -> None:
        """Let no client in, send the replies that are due, close."""
        await asyncio.gather(*(listener.drain(timeout_s) for listener in self._of(controllers=False)))

    async def drain(self, timeout_s: float) -> None:
        """The same for the quorum, which is needed to the last."""
        self._end_logins()
        await asyncio.gather(*(listener.drain(timeout_s) for listener in self._of(controllers=True)))

    def logins(self) -> dict[str, tuple[int, int]]:
        """How many logins have been successful and how many failed, by listener that has SASL."""
        return {name: (each.successful, each.failed) for name, each in self._sasl.items()}

    def connections(self) -> dict[str, int]:
        """How many are open, by listener."""
        return {name: len(listener.connections) for name, (_, listener) in self._open.items()}

    def throttles(self) -> dict[str, AcceptThrottles]:
        """How new connections were held up, by listener."""
        return {name: listener.throttles for name, (_, listener) in self._open.items()}

    @property
    def served_ns(self) -> int:
        """How long the loop has served their requests."""
        return self._serving.served_ns

    def _of(self, *, controllers: bool) -> list[Listener]:
        names = self._config.controller_listener_names
        return [listener for name, (_, listener) in self._open.items() if (name in names) is controllers]

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._end_logins()
        for _, listener in self._open.values():
            listener.close()

    def _end_logins(self) -> None:
        for login in self._logins:
            login.close()

    def addresses(self) -> list[tuple[str, int]]:
        """Where clients connect; of a node that is only a controller, where others and Kafka's tools do."""
        return [(each.host, each.port) for each in self.advertised() or self.advertised_controllers()]

    def advertised(self) -> list[Endpoint]:
        """What others are told: ports as they were picked, a host where none is configured."""
        return [self._registered(endpoint) for endpoint in self._config.advertised_listeners]

    def controller_endpoints(self) -> dict[str, tuple[str, int]]:
        """Where the quorum finds this node, by listener."""
        return {each.name: (each.host, each.port) for each in self.advertised_controllers()}

    def advertised_controllers(self) -> list[Endpoint]:
        return [self._registered(endpoint) for endpoint in self._config.controller_listeners]

    def _registered(self, endpoint: ListenerEndpoint) -> Endpoint:
        port = endpoint.port
        if port == 0:
            port = self._open[endpoint.name][1].address[1]
        host = self._network.own_name() if endpoint.host in EVERY_ADDRESS else endpoint.host
        return Endpoint(endpoint.name, host, port, PROTOCOLS.index(endpoint.protocol))


def _of_controller(parts: Parts) -> Parts:
    """Whoever asks a controller wants this one: requests are not passed on."""
    return parts if parts.own_controller is None else replace(parts, controller=parts.own_controller)


def early_start_listeners(config: BrokerConfig) -> frozenset[str]:
    """The listeners that open before the authorizer has loaded; SettingError for one that there is not."""
    named = config.list("early.start.listeners")
    if not named or not config.str("authorizer.class.name"):
        return frozenset(config.controller_listener_names)
    strangers = set(named) - {endpoint.name for endpoint in config.listeners}
    if strangers:
        raise SettingError(
            "early.start.listeners", f"{min(strangers)} is not among listeners: name some of those"
        )
    return frozenset(named)


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        frame_bytes_max=config.int("socket.request.max.bytes"),
        idle_ms_max=config.int("connections.max.idle.ms"),
    )


def receive_limits(config: BrokerConfig) -> ReceiveLimits:
    queued = config.int("queued.max.request.bytes")
    return ReceiveLimits() if queued <= 0 else ReceiveLimits(unfinished_bytes_max=queued)


def connection_quota_limits(config: BrokerConfig) -> ConnectionQuotaLimits:
    return ConnectionQuotaLimits(
        connections_max=config.int("max.connections"),
        creation_rate_max=config.int("max.connection.creation.rate"),
        per_address_max=config.int("max.connections.per.ip"),
        per_address_overrides=parse_connection_overrides(config.str("max.connections.per.ip.overrides")),
        of_listeners={each.name: _listener_quota_limits(config, each.name) for each in config.listeners},
    )


def address_rates(tables: SecurityTables) -> dict[str | None, float]:
    """How many connections addresses may make in a second; None: those that are not named."""
    return {entity[0][1]: rate for entity, rate in quotas_of(tables, CONNECTION_CREATION_RATE).items()}


def _listener_quota_limits(config: BrokerConfig, listener: str) -> ListenerQuotaLimits:
    """What is set for this listener alone; the broker's own limit is counted over all of them."""

    def limit(name: str) -> int:
        value = config.get(f"listener.name.{listener.lower()}.{name}")
        return value if isinstance(value, int) else UNLIMITED

    return ListenerQuotaLimits(
        connections_max=limit("max.connections"), creation_rate_max=limit("max.connection.creation.rate")
    )
