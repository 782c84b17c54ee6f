"""The ways to the other members of the quorum: where each listens, and a connection to it when it is needed.

Where a voter listens is said by the settings, or else by the log; where the leader listens, by its own
announcement and by whoever answers a request that was not for it. A node that knows nothing yet asks the
addresses of controller.quorum.bootstrap.servers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from headrace.base.clock import Clock
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.raft.driver import RaftDriver
from headrace.raft.messages import Message, VoteReply, VoteRequest
from headrace.raft.wire_words import Endpoints, only_partition, request_of, vote_given
from headrace.transport.network import Network
from headrace.transport.peer import Address, Peer
from headrace.transport.receive_memory import ReceiveMemory

logger = logging.getLogger(__name__)


class Channels:
    """Peers by node id, and by address where no id is known. `endpoints` are this node's own."""

    def __init__(
        self,
        driver: RaftDriver,
        *,
        cluster_id: str,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        memory: ReceiveMemory,
        rng: Random,
        listeners: Sequence[str],
        bootstrap: Sequence[Address],
        configured: Mapping[int, Address],
        endpoints: Callable[[], Endpoints],
        request_ms: int,
    ) -> None:
        self._driver = driver
        self.cluster_id = cluster_id
        self._listeners = listeners
        self._bootstrap = bootstrap
        self._configured = configured
        self._endpoints = endpoints
        self.request_ms = request_ms
        self._learned: dict[int, Address] = {}
        self._peers: dict[int | Address, Peer] = {}

        def new_peer(resolve: Callable[[], Address | None]) -> Peer:
            return Peer(
                network,
                loop,
                clock,
                resolve=resolve,
                client_id=f"raft-{driver.core.node_id}",
                memory=memory,
                rng=rng,
                setup_ms=request_ms,
            )

        self.new_peer: Callable[[Callable[[], Address | None]], Peer] = new_peer

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    # -- where ---------------------------------------------------------------------------------------------

    def learn(self, nodes: Iterable[Any]) -> None:
        """Somebody said where nodes listen (NodeEndpoints of a response)."""
        for node in nodes:
            if node.port > 0:
                self._learned[node.node_id] = (node.host, node.port)

    def learn_leader(self, node_id: int, endpoints: Iterable[Any]) -> None:
        """A leader says where it listens, by the names of its listeners."""
        by_name = {each.name: (each.host, each.port) for each in endpoints}
        address = _by_listener(by_name, self._listeners)
        if address is not None:
            self._learned[node_id] = address

    def address_of(self, node_id: int) -> Address | None:
        voters = self._driver.log.voters
        voter = None if voters is None else voters.by_id.get(node_id)
        known = None if voter is None else _by_listener(voter.endpoints, self._listeners)
        return self._learned.get(node_id) or self._configured.get(node_id) or known

    def public_address_of(self, node_id: int) -> Address | None:
        """What others are told; for this node its own listener."""
        if node_id == self._driver.core.node_id:
            return _by_listener(self._endpoints(), self._listeners)
        return self.address_of(node_id)

    def to_node(self, node_id: int) -> Peer:
        if node_id not in self._peers:
            self._peers[node_id] = self.new_peer(lambda: self.address_of(node_id))
        return self._peers[node_id]

    def to_anyone(self, attempt: int) -> Peer | None:
        """Somebody who may know the leader; another one with each attempt, the last known leader first."""
        core = self._driver.core
        known = [core.leader_id] if self.address_of(core.leader_id) else []
        voters = [voter for voter in sorted(core.voters) if voter not in (core.node_id, *known)]
        ways: list[int | Address] = [*known, *(v for v in voters if self.address_of(v)), *self._bootstrap]
        if not ways:
            return None
        chosen = ways[attempt % len(ways)]
        if isinstance(chosen, int):
            return self.to_node(chosen)
        if chosen not in self._peers:
            self._peers[chosen] = self.new_peer(lambda: chosen)
        return self._peers[chosen]

    # -- what the core says ----------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Send a message of the core, and give it the answer."""
        request = request_of(
            message,
            cluster_id=self.cluster_id,
            directories=self._driver.core.voters,
            endpoints=self._endpoints(),
        )
        asked = self.to_node(message.to).send(request, timeout_ms=self.request_ms)
        asked.add_done_callback(lambda done: self._answered(message, done))

    def _answered(self, message: Message, done: "asyncio.Future[Any]") -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or not self._driver.running:
            return
        if error is not None:
            logger.debug("node %s did not answer %s: %s", message.to, type(message).__name__, error)
            if isinstance(error, ConnectionRefusedError) and isinstance(message, VoteRequest):
                # Nobody is there to vote, which decides an election as well as a vote against it.
                refusal = VoteReply(
                    message.candidate_id, message.to, message.epoch, False, pre_vote=message.pre_vote
                )
                self._driver.do(self._driver.core.step(refusal, self._driver.now_ms()))
            return
        response = done.result()
        if response.error_code:
            logger.warning(
                "node %s refuses %s with error %s", message.to, type(message).__name__, response.error_code
            )
            return
        self.learn(response.node_endpoints)
        try:
            said = only_partition(response.topics)
        except (ApiError, InvalidBytesError) as error:
            logger.warning("node %s answered of something else: %s", message.to, error)
            return
        driver = self._driver
        if isinstance(message, VoteRequest):
            driver.do(driver.core.step(vote_given(message, said), driver.now_ms()))
        else:
            driver.do(driver.core.learn(said.leader_epoch, said.leader_id, driver.now_ms()))


def _by_listener(endpoints: Endpoints, names: Sequence[str]) -> Address | None:
    """The address of the first listener that this node would use, or of the only one there is."""
    for name in names:
        if name in endpoints:
            return endpoints[name]
    return next(iter(endpoints.values())) if len(endpoints) == 1 else None
