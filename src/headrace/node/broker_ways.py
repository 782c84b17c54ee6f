"""Ways from this broker to the others, made when they are first needed: one connection to each, for one
purpose. Requests on a connection are answered in order, so what may have to wait keeps to its own.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from headrace.base.clock import Clock
from headrace.metadata.image import ClusterImage
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.network import Network
from headrace.transport.peer import Peer, Read
from headrace.transport.receive_memory import ReceiveMemory


class BrokerWays:
    """Brokers are found by the listener between brokers that they have registered."""

    def __init__(
        self,
        purpose: str,
        config: BrokerConfig,
        image: ClusterImage,
        *,
        network: Network,
        memory: ReceiveMemory,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._purpose = purpose
        self._config = config
        self._image = image
        self._network = network
        self._memory = memory
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._peers: dict[int, Peer] = {}

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

    def new_peer(self, broker_id: int, on_lost: Callable[[str], None] | None = None) -> Peer:
        """A connection of its own, for the caller to close; `on_lost` hears of its end."""
        return Peer(
            self._network,
            self._loop,
            self._clock,
            resolve=lambda: self._address_of(broker_id),
            client_id=f"broker-{self._config.node_id}-{self._purpose}",
            memory=self._memory,
            rng=self._rng,
            on_lost=on_lost,
        )

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self._image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self._config.inter_broker_listener_name) if broker else None
        return None if endpoint is None else (endpoint.host, endpoint.port)
