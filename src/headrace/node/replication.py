"""Replication with other nodes, joined for one node: who fetches from whom, over which connections.

`around`, `follow` and `durable` are given to the node's replicas; `begin` is called when the broker's epoch
is known. A leader is found by the listener between brokers that it has registered.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from headrace.metadata.image import ClusterImage
from headrace.node.broker_ways import BrokerWays
from headrace.node.world import World
from headrace.replication.fetcher import FetchLimits
from headrace.replication.fetching import Fetchers
from headrace.replication.isr_changes import IsrChanges, Send
from headrace.replication.partition import Partition
from headrace.replication.questions import Request, Response
from headrace.replication.replicas import Replicas
from headrace.replication.surroundings import ReplicaSurroundings
from headrace.replication.throttles import FollowerThrottle, LeaderThrottle
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.tails import RemoteTails
from headrace.transport.peer import Peer
from headrace.wire.apis import API
from headrace.wire.framing import read_response
from headrace.wire.notation import schema_of


class PeerChannel:
    """A fetcher's channel: answers are taken out of the receive buffer, without a copy."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def ask(
        self, request: Request, *, timeout_ms: int, take: Callable[[Response], None]
    ) -> "asyncio.Future[None]":
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        response = API[api_key].response
        return self._peer.send(
            request,
            timeout_ms=timeout_ms,
            read=lambda frame, version: take(read_response(response, version, frame)),
        )

    def close(self) -> None:
        self._peer.close()


class Replication:
    """One node's share in replication."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        world: World,
        *,
        alter_partition: Send,
        on_leader_lost: Callable[[int], None],
    ) -> None:
        self._on_leader_lost = on_leader_lost
        self._image = image
        self._loop = world.loop
        self._ways = BrokerWays("fetcher", config, image, world)
        node_id = config.node_id
        self._isr_changes = IsrChanges(alter_partition, node_id=node_id, loop=world.loop)
        self._lag_timer: asyncio.TimerHandle | None = None
        self._replicas: Replicas | None = None
        self.around = ReplicaSurroundings(
            config.int("replica.lag.time.max.ms"), self._broker_epoch, self._isr_changes.note
        )
        self.leader_throttle = LeaderThrottle(
            node_id, lambda: config.int("leader.replication.throttled.rate")
        )
        self._fetchers = Fetchers(
            self._connect,
            node_id=node_id,
            loop=world.loop,
            clock=world.clock,
            limits=_limits(config),
            throttle=FollowerThrottle(node_id, lambda: config.int("follower.replication.throttled.rate")),
            timeout_ms=config.int("replica.socket.timeout.ms"),
        )

    def use_remote_tier(self, tails: RemoteTails, executor: Executor) -> None:
        """Followers may start behind what is in the remote store. Called before anything is followed."""
        self._fetchers.tails, self._fetchers.executor = tails, executor

    def begin(self, broker_epoch: int, replicas: Replicas) -> None:
        """The broker is registered: fetch, and look after who is in sync."""
        is_first = self._replicas is None
        self._replicas = replicas
        self._isr_changes.begin(broker_epoch)
        self._fetchers.begin(broker_epoch)
        if is_first:
            self._look_for_laggards()

    def stop(self) -> None:
        self._fetchers.stop()
        self._isr_changes.stop()
        if self._lag_timer is not None:
            self._lag_timer.cancel()
            self._lag_timer = None

    def follow(self, partition: Partition) -> None:
        """A partition has another leader or epoch, or is gone."""
        self._fetchers.follow(partition)

    def durable(self, partition: Partition) -> None:
        """A flush of its log has ended."""
        partition.durable()
        self._fetchers.look_again(partition)

    def _look_for_laggards(self) -> None:
        assert self._replicas is not None
        self._replicas.look_for_laggards()
        # As often as Kafka does: who lags is noticed after one and a half times the limit at the latest.
        self._lag_timer = self._loop.call_later(self.around.lag_ms_max / 2000, self._look_for_laggards)

    def _broker_epoch(self, broker_id: int) -> int | None:
        broker = self._image.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.is_active else None

    def _connect(self, leader_id: int) -> PeerChannel:
        return PeerChannel(self._ways.new_peer(leader_id, lambda _: self._on_leader_lost(leader_id)))


def _limits(config: BrokerConfig) -> FetchLimits:
    return FetchLimits(
        wait_ms=config.int("replica.fetch.wait.max.ms"),
        min_bytes=config.int("replica.fetch.min.bytes"),
        partition_bytes=config.int("replica.fetch.max.bytes"),
        response_bytes=config.int("replica.fetch.response.max.bytes"),
        pause_ms=config.int("replica.fetch.backoff.ms"),
        starts_behind_tiered=lambda: config.bool("follower.fetch.last.tiered.offset.enable"),
    )
