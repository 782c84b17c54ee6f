"""Ways from this broker to the others, made when they are first needed: one connection to each, for one
purpose. Requests on a connection are answered in order, so what may have to wait keeps to its own.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from headrace.metadata.image import MetadataImage
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.node_client import NodeClient, Read


class BrokerClients:
    """Brokers are found by the listener between brokers that they have registered."""

    def __init__(
        self, purpose: str, config: BrokerConfig, image: MetadataImage, world: NodeEnvironment
    ) -> None:
        self._purpose = purpose
        self._config = config
        self._image = image
        self._world = world
        self._peers: dict[int, NodeClient] = {}

    def send(self, broker_id: int, request: Any, *, read: Read | None = None) -> "asyncio.Future[Any]":
        """Ask a broker; ConnectionError in the future where it cannot be reached or does not answer. `read`
        makes the result of the reply in place."""
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = self.new_peer(broker_id)
        return peer.send(request, timeout_ms=self._config.int("request.timeout.ms"), read=read)

    def stop(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def new_peer(self, broker_id: int, on_lost: Callable[[str], None] | None = None) -> NodeClient:
        """A connection of its own, for the caller to close; `on_lost` hears of its end."""
        world = self._world
        return NodeClient(
            world.network,
            world.loop,
            world.clock,
            resolve=lambda: self._address_of(broker_id),
            client_id=f"broker-{self._config.node_id}-{self._purpose}",
            memory=world.memory,
            rng=world.rng,
            on_lost=on_lost,
            channel_builder=world.channel_builder(self._config.inter_broker_listener_name),
        )

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self._image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self._config.inter_broker_listener_name) if broker else None
        return None if endpoint is None else (endpoint.host, endpoint.port)
