"""Replication with other nodes, joined for one node: who fetches from whom, over which connections.

`context`, `follow` and `durable` are given to the node's replicas; `begin` is called when the broker's epoch
is known. A leader is found by the listener between brokers that it has registered.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.metadata.image import MetadataImage
from headrace.replication.drivers.alter_partition_manager import AlterPartitionManager, SendAlterPartition
from headrace.replication.drivers.replica_fetcher_manager import ReplicaFetcherManager
from headrace.replication.follower_log import Slices
from headrace.replication.leader_endpoint import Request, Response
from headrace.replication.leader_state import ReplicaContext
from headrace.replication.partition import Partition
from headrace.replication.replica_fetcher import FetchLimits
from headrace.replication.replica_manager import ReplicaManager
from headrace.replication.replication_quotas import FollowerReplicationQuota, LeaderReplicationQuota
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.node_client import NodeClient
from headrace.wire.apis import API
from headrace.wire.framing import read_response
from headrace.wire.notation import schema_of

if TYPE_CHECKING:
    from headrace.remote_log.remote_reading import RemoteReading


class PeerChannel:
    """A fetcher's channel: answers are taken out of the receive buffer, without a copy."""

    def __init__(self, peer: NodeClient) -> None:
        self._peer = peer

    def ask(
        self, request: Request, *, timeout_ms: int, take: Callable[[Response], Slices | None]
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
        image: MetadataImage,
        world: NodeEnvironment,
        *,
        alter_partition: SendAlterPartition,
        on_leader_lost: Callable[[int], None],
        remote: "RemoteReading | None",
    ) -> None:
        """With a `remote` tier followers may start behind what is in its store."""
        self._on_leader_lost = on_leader_lost
        self._image = image
        self._loop = world.loop
        self._ways = BrokerClients("fetcher", config, image, world)
        node_id = config.node_id
        self._alter_partition_manager = AlterPartitionManager(
            alter_partition, node_id=node_id, loop=world.loop
        )
        self._lag_timer: asyncio.TimerHandle | None = None
        self._replicas: ReplicaManager | None = None
        self.context = ReplicaContext(
            config.int("replica.lag.time.max.ms"),
            self._broker_epoch,
            self._alter_partition_manager.submit,
            has_remote_records=lambda: remote is not None and REMOTE_LOG_TOPIC in image.topics_by_name,
        )
        self.leader_replication_quota = LeaderReplicationQuota(
            node_id, lambda: config.int("leader.replication.throttled.rate")
        )
        self._fetcher_manager = ReplicaFetcherManager(
            self._connect,
            node_id=node_id,
            loop=world.loop,
            clock=world.clock,
            limits=_limits(config),
            throttle=FollowerReplicationQuota(
                node_id, lambda: config.int("follower.replication.throttled.rate")
            ),
            timeout_ms=config.int("replica.socket.timeout.ms"),
            tails=None if remote is None else remote.aux_states,
            executor=None if remote is None else remote.start_executor,
        )

    def begin(self, broker_epoch: int, replicas: ReplicaManager) -> None:
        """The broker is registered: fetch, and look after who is in sync."""
        is_first = self._replicas is None
        self._replicas = replicas
        self._alter_partition_manager.begin(broker_epoch)
        self._fetcher_manager.begin(broker_epoch)
        if is_first:
            self._maybe_shrink_isr()

    def stop(self) -> None:
        self._fetcher_manager.stop()
        self._alter_partition_manager.stop()
        if self._lag_timer is not None:
            self._lag_timer.cancel()
            self._lag_timer = None

    def follow(self, partition: Partition) -> None:
        """A partition has another leader or epoch, or is gone."""
        self._fetcher_manager.follow(partition)

    def durable(self, partition: Partition) -> None:
        """A flush of its log has ended."""
        partition.durable()
        self._fetcher_manager.look_again(partition)

    def _maybe_shrink_isr(self) -> None:
        assert self._replicas is not None
        self._replicas.maybe_shrink_isr()
        # As often as Kafka does: who lags is noticed after one and a half times the limit at the latest.
        self._lag_timer = self._loop.call_later(self.context.lag_ms_max / 2000, self._maybe_shrink_isr)

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
