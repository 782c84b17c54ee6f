"""A node's listeners: which addresses it opens, who is behind each, and what clients are told of them."""

import asyncio
from dataclasses import replace
from typing import Final

from headrace.metadata.brokers import Endpoint as RegisteredEndpoint
from headrace.server.api_table import BROKER, CONTROLLER, ApiTable
from headrace.server.dispatch import Dispatcher
from headrace.server.parts import Parts
from headrace.server.produce_lane import ProduceLane
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.listeners import Endpoint
from headrace.settings.sources import Source
from headrace.transport.attention import Attention
from headrace.transport.limits import AdmissionLimits, ConnectionLimits, ReceiveLimits
from headrace.transport.listener import Admission, Listener
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory

PLAINTEXT: Final = "PLAINTEXT"
# Kafka's 50 overflows when clients come all at once, and the kernel then lets them wait for seconds.
BACKLOG: Final = 1024
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


class Listeners:
    """Every listener of the node, opened together and closed together."""

    def __init__(
        self,
        parts: Parts,
        config: BrokerConfig,
        network: Network,
        memory: ReceiveMemory,
        attention: Attention | None,
    ) -> None:
        self._config = config
        self._open: dict[str, tuple[Endpoint, Listener]] = {}
        self._brokers = Dispatcher(parts, ApiTable(BROKER))
        self._controllers = Dispatcher(_of_controller(parts), ApiTable(CONTROLLER))
        self._on_controller_close = None if parts.broker_watch is None else parts.broker_watch.closed
        self._produce_lane = ProduceLane(parts)
        self._attention = attention
        self._loop = parts.loop
        self._network = network
        self._memory = memory
        self._admission = Admission(admission_limits(config))

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

    def _open_one(self, endpoint: Endpoint, dispatcher: Dispatcher) -> None:
        if endpoint.protocol != PLAINTEXT:
            raise SettingError(
                "listeners", f"{endpoint} asks for {endpoint.protocol}; this release serves PLAINTEXT only"
            )
        listener = Listener(
            self._loop,
            self._network,
            memory=self._memory,
            on_frame=dispatcher.on_frame,
            attention=self._attention,
            on_frames=self._produce_lane.take if dispatcher is self._brokers else None,
            on_open=dispatcher.opener(endpoint.name),
            on_close=self._on_controller_close if dispatcher is self._controllers else None,
            limits=connection_limits(self._config),
            admission=self._admission,
            between_brokers=endpoint.name == self._config.inter_broker_listener_name,
        )
        backlog = self._config.int("socket.listen.backlog.size")
        if self._config.source("socket.listen.backlog.size") is Source.DEFAULT:
            backlog = BACKLOG
        try:
            listener.listen(endpoint.host, endpoint.port, backlog=backlog, admit=False)
        except OSError as error:
            error.filename = str(endpoint)
            raise
        self._open[endpoint.name] = (endpoint, listener)

    def admit_controllers(self) -> None:
        """Let the other members of the quorum in."""
        for listener in self._of(controllers=True):
            listener.admit()

    def admit(self) -> None:
        """Let clients in."""
        for listener in self._of(controllers=False):
            listener.admit()

    async def drain_clients(self, timeout_s: float) -> None:
        """Let no client in, send the replies that are due, close."""
        await asyncio.gather(*(listener.drain(timeout_s) for listener in self._of(controllers=False)))

    async def drain(self, timeout_s: float) -> None:
        """The same for the quorum, which is needed to the last."""
        await asyncio.gather(*(listener.drain(timeout_s) for listener in self._of(controllers=True)))

    def _of(self, *, controllers: bool) -> list[Listener]:
        names = self._config.controller_listener_names
        return [listener for name, (_, listener) in self._open.items() if (name in names) is controllers]

    def close(self) -> None:
        for _, listener in self._open.values():
            listener.close()

    def addresses(self) -> list[tuple[str, int]]:
        """Where clients connect; of a node that is only a controller, where others and Kafka's tools do."""
        return [(each.host, each.port) for each in self.advertised() or self.advertised_controllers()]

    def advertised(self) -> list[RegisteredEndpoint]:
        """What others are told: ports as they were picked, a host where none is configured."""
        return [self._registered(endpoint) for endpoint in self._config.advertised_listeners]

    def controller_endpoints(self) -> dict[str, tuple[str, int]]:
        """Where the quorum finds this node, by listener."""
        return {each.name: (each.host, each.port) for each in self.advertised_controllers()}

    def advertised_controllers(self) -> list[RegisteredEndpoint]:
        return [self._registered(endpoint) for endpoint in self._config.controller_listeners]

    def _registered(self, endpoint: Endpoint) -> RegisteredEndpoint:
        port = endpoint.port
        if port == 0:
            port = self._open[endpoint.name][1].address[1]
        host = self._network.own_name() if endpoint.host in EVERY_ADDRESS else endpoint.host
        return RegisteredEndpoint(endpoint.name, host, port)


def _of_controller(parts: Parts) -> Parts:
    """Whoever asks a controller wants this one: requests are not passed on."""
    return parts if parts.own_controller is None else replace(parts, controller=parts.own_controller)


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        frame_bytes_max=config.int("socket.request.max.bytes"),
        idle_ms_max=config.int("connections.max.idle.ms"),
    )


def receive_limits(config: BrokerConfig) -> ReceiveLimits:
    queued = config.int("queued.max.request.bytes")
    return ReceiveLimits() if queued <= 0 else ReceiveLimits(unfinished_bytes_max=queued)


def admission_limits(config: BrokerConfig) -> AdmissionLimits:
    overrides = []
    for entry in filter(None, config.str("max.connections.per.ip.overrides").split(",")):
        address, _, count = entry.rpartition(":")
        overrides.append((address.strip(), int(count)))
    return AdmissionLimits(
        connections_max=config.int("max.connections"),
        per_address_max=config.int("max.connections.per.ip"),
        per_address_overrides=tuple(overrides),
    )
