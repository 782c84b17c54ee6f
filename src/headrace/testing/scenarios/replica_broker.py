"""One broker of the replication scenario: the real replicas, fetchers, in-sync proposals and handlers on a
simulated machine's disk, without sockets and without the rest of a node.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

from headrace.base.ids import TopicId, TopicPartition
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.image import MetadataImage
from headrace.metadata.metadata_loader import everything_in
from headrace.replication.drivers.alter_partition_manager import AlterPartitionManager
from headrace.replication.drivers.log_flusher import LogFlusher
from headrace.replication.drivers.replica_fetcher_manager import ReplicaFetcherManager
from headrace.replication.leader_endpoint import Request, Response
from headrace.replication.leader_state import ReplicaContext
from headrace.replication.partition import Partition
from headrace.replication.replica_fetcher import FetchLimits
from headrace.replication.replica_manager import ReplicaManager
from headrace.server.authorizer import AllowAll
from headrace.server.context import ANONYMOUS, RequestContext
from headrace.server.fetch_sessions import FetchSessionCache
from headrace.server.handlers import fetch, list_offsets, offset_for_leader_epoch, produce
from headrace.server.parts import Parts
from headrace.server.purgatory import Purgatory
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.server.request_log import RequestLog
from headrace.settings.topic import TopicConfig, resolve_topic_config
from headrace.testing.loop import SimulatedLoop
from headrace.testing.machine import Surroundings
from headrace.testing.scenarios.replica_world import (
    CLUSTER_ID,
    CONTROLLER,
    LISTENER,
    Messenger,
    SlowController,
    Wires,
    newest,
    settings,
)
from headrace.wire.notation import schema_of
from headrace.wire.schemas.alter_partition import AlterPartitionRequest

LAG_MS: Final = 300
LIMITS: Final = FetchLimits(wait_ms=100, partition_bytes=2_000, response_bytes=4_000, pause_ms=200)
TIMEOUT_S: Final = 0.4

HANDLERS: Final[dict[int, Any]] = {
    0: produce.handle,
    1: fetch.handle,
    2: list_offsets.handle,
    23: offset_for_leader_epoch.handle,
}


class Broker:
    """One process. `others` gives the running brokers by id."""

    def __init__(
        self,
        node_id: int,
        own: Surroundings,
        *,
        controller: SlowController,
        wires: Wires,
        others: "dict[int, Broker]",
        min_in_sync: int,
        flush_messages: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.own = own
        self.loop: SimulatedLoop = own.loop
        self.controller = controller
        self.others = others
        self.config = settings(node_id, min_in_sync=min_in_sync)
        self._flush_messages = flush_messages
        self.store = LogManager(own.disk, self.config, own.clock, own.rng)
        self.image = MetadataImage(CLUSTER_ID)
        self.messenger = Messenger(wires, node_id, own.loop)
        self.waiting = Purgatory(own.loop)
        self.flushing = LogFlusher(loop=own.loop, clock=own.clock, on_durable=self._durable)
        self.isr_changes = AlterPartitionManager(self._ask_controller, node_id=node_id, loop=own.loop)
        self.fetchers = ReplicaFetcherManager(
            lambda leader: _Way(self, leader), node_id=node_id, loop=own.loop, clock=own.clock, limits=LIMITS
        )
        self.replicas = ReplicaManager(
            node_id=node_id,
            store=self.store,
            topic_config=self.topic_config,
            on_advance=self.waiting.notify,
            request_flush=self.flushing.request,
            context=ReplicaContext(LAG_MS, self._broker_epoch, self.isr_changes.submit),
            on_follow=self.fetchers.follow,
        )
        self.parts = cast(
            Parts,
            SimpleNamespace(
                node_id=node_id,
                clock=own.clock,
                loop=own.loop,
                rng=own.rng,
                image=self.image,
                replica_manager=self.replicas,
                sessions=FetchSessionCache(own.rng, slots=20),
                purgatory=self.waiting,
                authorizer=AllowAll(),
                quotas=QuotaManagers(own.clock, own.loop),
                replica_selector=None,
                leader_replication_quota=None,
                fetch_bytes_max=1_000_000,
                config=self.config,
                request_log=RequestLog(own.loop, slow_ms=60_000),
            ),
        )
        self.epoch = -1
        self._applied = 0
        self._told = 0
        self.on_proposal: Callable[[set[int]], None] = lambda joining: None

    def topic_config(self, topic: str) -> TopicConfig:
        own = {} if self._flush_messages is None else {"flush.messages": str(self._flush_messages)}
        # Small segments, so that logs are cut over their borders too.
        return replace(resolve_topic_config(self.config, own), segment_bytes=3_000)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self, incarnation: bytes) -> None:
        """Open the logs, register, and take on the cluster as it is once that is known of."""
        self.store.lock()
        self.store.identify(CLUSTER_ID, self.node_id, lambda: self.own.rng.randbytes(16))
        self.store.load_logs(self.topic_config)
        meta = self.store.log_dirs[0].meta
        assert meta is not None
        self.epoch = self.controller.register(
            self.node_id, incarnation, meta.directory_id, self.store.previous_broker_epoch
        )
        for records in self.controller.log:
            self.image.replay_all(records)
        self._applied = self._told = len(self.controller.log)
        self.replicas.apply(self.image, everything_in(self.image), starting=True)
        self.fetchers.begin(self.epoch)
        self.isr_changes.begin(self.epoch)
        self.others[self.node_id] = self
        self.loop.call_later(LAG_MS / 2000, self._look_for_laggards)

    def stop(self) -> None:
        """In order: what a controlled shutdown leaves is whole, and says so."""
        self.fetchers.stop()
        self.isr_changes.stop()
        self.others.pop(self.node_id, None)
        self.controller.fence(self.node_id)
        self.store.close(self.epoch)

    def _look_for_laggards(self) -> None:
        self.replicas.maybe_shrink_isr()
        self.loop.call_later(LAG_MS / 2000, self._look_for_laggards)

    def flush_some(self) -> None:
        for log in self.store.logs():
            if self.own.rng.random() < 0.5:
                self.flushing.request(log)

    # -- the cluster -----------------------------------------------------------------------------------------

    def hear_of_commits(self) -> None:
        """The controller wrote something: it is heard of in order, and late."""
        wires, rng = self.messenger.wires, self.own.rng
        while self._told < len(self.controller.log):
            number = self._told
            self._told += 1
            # Some hear of it long before others do, and before what was sent to them earlier.
            delay_s = rng.uniform(0.0005, rng.choice([0.05, 1, 20]) * wires.slowest_s)
            wires.world.scheduler.after(delay_s, partial(self._follow, number + 1), owner=self.loop)

    def _follow(self, upto: int) -> None:
        def follow() -> None:
            while self._applied < upto:
                delta = self.image.replay_all(self.controller.log[self._applied])
                self._applied += 1
                self.replicas.apply(self.image, delta)

        if not self.loop.dead:
            self.loop.call_soon(follow)

    def _broker_epoch(self, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.is_active else None

    def _ask_controller(self, request: AlterPartitionRequest) -> "asyncio.Future[Any]":
        for topic in request.topics:
            for data in topic.partitions:
                known = self.image.topics_by_id[TopicId(topic.topic_id)].partitions[data.partition_index]
                proposed = {each.broker_id for each in data.new_isr_with_epochs}
                self.on_proposal(proposed - set(known.isr))
        return self.messenger.ask(
            CONTROLLER,
            lambda: self.controller.world.driver,
            self.controller.alter_partition,
            request,
            timeout_s=TIMEOUT_S,
        )

    def _durable(self, topic_partition: TopicPartition) -> None:
        partition = self.replicas.get(topic_partition)
        if partition is not None:
            partition.durable()
            self.fetchers.look_again(partition)

    # -- serving ---------------------------------------------------------------------------------------------

    def serve(self, request: Any) -> Any:
        key = schema_of(type(request)).api_key
        assert key is not None
        peer = SimpleNamespace(principal=ANONYMOUS, host="here", listener=LISTENER)
        context = RequestContext(key, newest(request), 0, None, cast(Any, peer), self.parts)
        return HANDLERS[key](context, request)

    def partition(self, where: TopicPartition) -> Partition | None:
        return self.replicas.get(where)

    def log(self, where: TopicPartition) -> UnifiedLog | None:
        partition = self.replicas.get(where)
        return None if partition is None else partition.log


class _Way:
    """A fetcher's channel to another broker."""

    def __init__(self, broker: Broker, leader_id: int) -> None:
        self._broker = broker
        self._leader_id = leader_id

    def ask(self, request: Request, *, timeout_ms: int, take: Any) -> "asyncio.Future[None]":
        def there() -> SimulatedLoop | None:
            other = self._broker.others.get(self._leader_id)
            return None if other is None else other.loop

        def serve(request: Any) -> Response:
            other = self._broker.others[self._leader_id]
            return cast(Response, other.serve(request))

        return self._broker.messenger.ask(
            self._leader_id, there, serve, request, timeout_s=TIMEOUT_S, take=take
        )

    def close(self) -> None:
        pass
