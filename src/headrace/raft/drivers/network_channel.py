"""The way to the other members of the quorum: where each listens, a connection to it when it is needed, and
the
core's messages as requests of the wire. Kafka's KafkaNetworkChannel.

Where a voter listens is said by the settings, or else by the log; where the leader listens, by its own
announcement and by whoever answers a request that was not for it. A node that knows nothing yet asks the
addresses of controller.quorum.bootstrap.servers.

Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54) all speak of one partition, `__cluster_metadata-0`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_LEADER
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import (
    NO_DIRECTORY,
    EpochBegan,
    EpochEnded,
    LogEnd,
    Message,
    VoteReply,
    VoteRequest,
)
from headrace.raft.sane_epochs import epoch_max
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.counted_network import CountedNetwork
from headrace.transport.network import Network
from headrace.transport.node_client import Address, NodeClient
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas import begin_quorum_epoch, end_quorum_epoch, vote

logger = logging.getLogger(__name__)

Endpoints = Mapping[str, tuple[str, int]]


class NetworkChannel:
    """Peers by node id, and by address where no id is known. `endpoints` are this node's own."""

    def __init__(
        self,
        client: KafkaRaftClient,
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
        channel_builder: ChannelBuilder = PLAINTEXT,
    ) -> None:
        self._client = client
        self.cluster_id = cluster_id
        self._listeners = listeners
        self._bootstrap = bootstrap
        self._configured = configured
        self._endpoints = endpoints
        self.request_ms = request_ms
        self._learned: dict[int, Address] = {}
        self._unbelievable = LimitedLog(loop.time, logger, logging.WARNING)
        self._peers: dict[int | Address, NodeClient] = {}
        # For metrics: since the start of this process.
        self.traffic = traffic = CountedNetwork(network)
        self.requests = 0
        self.responses = 0

        def new_peer(resolve: Callable[[], Address | None]) -> NodeClient:
            return _CountedClient(
                self,
                traffic,
                loop,
                clock,
                resolve=resolve,
                client_id=f"raft-{client.core.node_id}",
                memory=memory,
                rng=rng,
                setup_ms=request_ms,
                channel_builder=channel_builder,
            )

        self.new_peer: Callable[[Callable[[], Address | None]], NodeClient] = new_peer

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

    def forget_learned(self, node_id: int) -> None:
        """Nobody is where a node was said to listen: the settings or the log may know better."""
        self._learned.pop(node_id, None)

    def address_of(self, node_id: int) -> Address | None:
        voters = self._client.log.voters
        voter = None if voters is None else voters.by_id.get(node_id)
        known = None if voter is None else _by_listener(voter.endpoints, self._listeners)
        return self._learned.get(node_id) or self._configured.get(node_id) or known

    def public_address_of(self, node_id: int) -> Address | None:
        """What others are told; for this node its own listener."""
        if node_id == self._client.core.node_id:
            return _by_listener(self._endpoints(), self._listeners)
        return self.address_of(node_id)

    def to_node(self, node_id: int) -> NodeClient:
        if node_id not in self._peers:
            self._peers[node_id] = self.new_peer(lambda: self.address_of(node_id))
        return self._peers[node_id]

    def to_anyone(self, attempt: int) -> NodeClient | None:
        """Somebody who may know the leader; another one with each attempt, the last known leader first."""
        core = self._client.core
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
            directories=self._client.core.voters,
            endpoints=self._endpoints(),
        )
        asked = self.to_node(message.to).send(request, timeout_ms=self.request_ms)
        asked.add_done_callback(lambda done: self._answered(message, done))

    def _answered(self, message: Message, done: "asyncio.Future[Any]") -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or not self._client.running:
            return
        if error is not None:
            logger.debug("node %s did not answer %s: %s", message.to, type(message).__name__, error)
            self.forget_learned(message.to)
            if isinstance(error, ConnectionRefusedError) and isinstance(message, VoteRequest):
                # Nobody is there to vote, which decides an election as well as a vote against it.
                refusal = VoteReply(
                    message.candidate_id, message.to, message.epoch, False, pre_vote=message.pre_vote
                )
                self._client.do(self._client.core.step(refusal, self._client.now_ms()))
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
        client = self._client
        if said.leader_epoch > epoch_max(client.core.log_end.epoch):
            self._unbelievable.write(
                "node %s says that the quorum is in epoch %d, where elections cannot have led from epoch %d: "
                "that node is ignored until its quorum-state file is mended, as a start of it does",
                *(message.to, said.leader_epoch, client.core.epoch),
            )
        if isinstance(message, VoteRequest):
            client.do(client.core.step(vote_given(message, said), client.now_ms()))
        else:
            client.do(
                client.core.learn(said.leader_epoch, said.leader_id, client.now_ms(), sender=message.to)
            )


class _CountedClient(NodeClient):
    """A member of the quorum, asked on behalf of a channel that counts."""

    def __init__(self, channel: NetworkChannel, *where: Any, **how: Any) -> None:
        super().__init__(*where, **how)
        self._channel = channel

    def send(self, *request: Any, **how: Any) -> "asyncio.Future[Any]":
        self._channel.requests += 1
        answer = super().send(*request, **how)
        answer.add_done_callback(self._note_answer)
        return answer

    def _note_answer(self, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and done.exception() is None:
            self._channel.responses += 1


def _by_listener(endpoints: Endpoints, names: Sequence[str]) -> Address | None:
    """The address of the first listener that this node would use, or of the only one there is."""
    for name in names:
        if name in endpoints:
            return endpoints[name]
    return next(iter(endpoints.values())) if len(endpoints) == 1 else None


def request_of(
    message: Message, *, cluster_id: str, directories: Mapping[int, bytes], endpoints: Endpoints
) -> Any:
    """The request that carries a message; `endpoints` are the sender's own."""
    if isinstance(message, VoteRequest):
        asked = vote.RequestPartitionData(
            replica_epoch=message.epoch,
            replica_id=message.candidate_id,
            replica_directory_id=message.candidate_directory_id,
            voter_directory_id=directories.get(message.to, NO_DIRECTORY),
            last_offset_epoch=message.log_end.epoch,
            last_offset=message.log_end.offset,
            pre_vote=message.pre_vote,
        )
        return vote.VoteRequest(cluster_id, message.to, [vote.RequestTopicData(METADATA_TOPIC, [asked])])
    if isinstance(message, EpochBegan):
        began = begin_quorum_epoch.RequestPartitionData(
            voter_directory_id=directories.get(message.to, NO_DIRECTORY),
            leader_id=message.leader_id,
            leader_epoch=message.epoch,
        )
        return begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster_id,
            message.to,
            [begin_quorum_epoch.RequestTopicData(METADATA_TOPIC, [began])],
            [begin_quorum_epoch.LeaderEndpoint(name, *where) for name, where in endpoints.items()],
        )
    assert isinstance(message, EpochEnded), message
    ended = end_quorum_epoch.RequestPartitionData(
        leader_id=message.leader_id,
        leader_epoch=message.epoch,
        preferred_successors=list(message.successors),
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(each, directories.get(each, NO_DIRECTORY))
            for each in message.successors
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id,
        [end_quorum_epoch.RequestTopicData(METADATA_TOPIC, [ended])],
        [end_quorum_epoch.LeaderEndpoint(name, *where) for name, where in endpoints.items()],
    )


def only_partition(topics: Iterable[Any]) -> Any:
    """What a request or response says of the metadata log; INVALID_REQUEST where it speaks of others."""
    found = [(topic.topic_name, part) for topic in topics for part in topic.partitions]
    if len(found) != 1 or found[0][0] != METADATA_TOPIC or found[0][1].partition_index != 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the quorum has one log, {METADATA_TOPIC}-0")
    return found[0][1]


def vote_asked(node_id: int, asked: vote.RequestPartitionData) -> VoteRequest:
    return VoteRequest(
        node_id,
        asked.replica_epoch,
        asked.replica_id,
        asked.replica_directory_id,
        LogEnd(asked.last_offset_epoch, asked.last_offset),
        asked.pre_vote,
    )


def vote_given(request: VoteRequest, answered: vote.ResponsePartitionData) -> VoteReply:
    return VoteReply(
        request.candidate_id,
        request.to,
        answered.leader_epoch,
        answered.vote_granted and not answered.error_code,
        answered.leader_id if answered.leader_id >= 0 else NO_LEADER,
        request.pre_vote,
    )


def epoch_ended(node_id: int, asked: end_quorum_epoch.RequestPartitionData) -> EpochEnded:
    successors = [each.candidate_id for each in asked.preferred_candidates] or asked.preferred_successors
    return EpochEnded(node_id, asked.leader_epoch, asked.leader_id, tuple(successors))
