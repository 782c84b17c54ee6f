"""The one place where parts are joined into a node: a broker, a controller, or both (process.roles).

Clock, disk, network, event loop and chance come in as parameters, so that the same node runs on the real
ones and in simulation. Starting: folders, the quorum's member (its listener is open before anything is
decided, for the others need it), the image of the cluster, the logs, what serves on top of them, and last the
registration that lets clients in. Stopping goes the other way. A mere controller has no more than the quorum
and its listener; a mere broker follows the quorum and finds the active controller elsewhere.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.base.clock import Clock
from headrace.base.ids import TopicPartition, new_uuid
from headrace.controller.broker_lifecycle import BrokerLifecycle
from headrace.controller.cluster import Cluster
from headrace.controller.producer_id_blocks import ProducerIdBlocks
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.log.disk import Disk
from headrace.log.log_folder import LogFolder
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.metadata.publisher import everything_in
from headrace.metadata.resources import ResourceType
from headrace.node.control_plane import ControlPlane
from headrace.node.directory_reports import DirectoryReports
from headrace.node.image_following import ImageFollowing
from headrace.node.listeners import Listeners, receive_limits
from headrace.node.log_opening import Say, check_tiering, open_logs
from headrace.node.notices import telling
from headrace.node.replication import Replication
from headrace.node.storage import (
    directory_id_of,
    identity_of,
    mark_in_the_end,
    mark_running,
    open_folders,
)
from headrace.node.transactions import Transactions
from headrace.node.world import World
from headrace.raft.quorum import Quorum
from headrace.replication.cleaning import Cleaning
from headrace.replication.flushing import Flushing
from headrace.replication.full_disks import FullDisks
from headrace.replication.moves import ReplicaMoves
from headrace.replication.replicas import Replicas
from headrace.replication.upkeep import Upkeep
from headrace.server.doubts import Doubts
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.marker_writing import write_markers
from headrace.server.parts import AllowAll, Parts
from headrace.server.replica_selection import selector_of
from headrace.server.waiting import Waiting
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.store import RemoteStore
from headrace.transport.attention import Attention
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory

if TYPE_CHECKING:
    from headrace.node.tiers import Tiers

logger = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long replies that are due may take to leave when the node stops."""

OnFailure = Callable[[Exception], None]


class Node:
    """A broker, a controller, or both in one process. Made by `start_node`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        network: Network,
        rng: random.Random,
        on_failure: OnFailure,
        attention: Attention | None = None,
        remote_store: RemoteStore | None = None,
    ) -> None:
        self._loop = loop
        self._world = World(loop, clock, disk, network, rng, ReceiveMemory(loop, receive_limits(config)))
        self._on_failure = on_failure
        self._is_broker = "broker" in config.roles
        self._lifecycle: BrokerLifecycle | None = None
        self._marking: asyncio.Task[None] | None = None
        self._has_logs = False
        self._coordinates = False
        self._remote_store = remote_store
        self._store, self.cluster_id = open_folders(
            config, disk=disk, clock=clock, rng=rng, on_folder_failed=self._folder_failed
        )
        try:
            self._join(config, attention)
        except BaseException:
            self._store.unlock()
            raise

    def _join(self, config: BrokerConfig, attention: Attention | None) -> None:
        """Make the parts and tell them of each other."""
        loop, world = self._loop, self._world
        self._incarnation_id = new_uuid(world.rng)
        self.image = ClusterImage(self.cluster_id)
        # The node's own settings with the cluster's changes on top; everything below reads these.
        self._cluster = Cluster(self.image, config)
        self.config = self._cluster.config
        self._doubts = Doubts(loop)
        self._control = ControlPlane(
            config,
            self.image,
            world,
            directory_id=directory_id_of(self._store, config.metadata_log_dir),
            incarnation_id=self._incarnation_id,
            endpoints=lambda: self._listeners.controller_endpoints(),
            doubts=self._doubts,
            on_failure=self._on_failure,
        )
        self._directory_reports = DirectoryReports(self._control.active, node_id=config.node_id, loop=loop)
        self._replication = Replication(
            self.config,
            self.image,
            world,
            alter_partition=self._control.active.alter_partition,
            on_leader_lost=self._doubts.suspect,
        )
        self.parts = self._make_parts()
        self.image_following = ImageFollowing(
            self._follow, loop=loop, clock=world.clock, on_failure=self._on_failure
        )
        self._upkeep = Upkeep(loop=loop, store=self._store, flushing=self.parts.flushing, config=self.config)
        self.cleaning = Cleaning(loop=loop, store=self._store, config=self.config, rng=world.rng)
        self.tiers = self._join_remote_tier()
        self._listeners = Listeners(self.parts, self.config, world.network, world.memory, attention)

    def _make_parts(self) -> Parts:
        clock, rng = self._world.clock, self._world.rng
        waiting = Waiting(self._loop)
        flushing = Flushing(loop=self._loop, clock=clock, on_durable=self._durable)
        replicas = Replicas(
            node_id=self.config.node_id,
            store=self._store,
            topic_config=self._cluster.topic_config,
            on_advance=self._advanced,
            on_placed=self._directory_reports.note,
            request_flush=flushing.request,
            around=self._replication.around,
            on_follow=self._replication.follow,
        )
        moves = ReplicaMoves(
            self._store,
            replicas,
            loop=self._loop,
            request_flush=flushing.request,
            bytes_per_second=lambda: self.config.int("replica.alter.log.dirs.io.max.bytes.per.second"),
            on_moved=replicas.report_place,
        )
        replicas.wanted_directory = moves.wanted_directory
        reports = self._directory_reports
        self._full_disks = FullDisks(replicas, self._store, loop=self._loop, report=reports.note)
        groups = GroupCoordinator(
            config=self.config, clock=clock, loop=self._loop, rng=rng, replicas=replicas, image=self.image
        )
        producer_ids = ProducerIdBlocks(
            self._control.active, self.image, node_id=self.config.node_id, loop=self._loop
        )
        self._transactions = Transactions(
            self.config,
            self.image,
            replicas,
            self._world,
            take_producer_id=producer_ids.take,
            write_markers=lambda request: write_markers(self.parts, request),
        )
        return Parts(
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            config=self.config,
            clock=clock,
            loop=self._loop,
            rng=rng,
            image=self.image,
            replicas=replicas,
            logs=self._store,
            flushing=flushing,
            sessions=FetchSessions(rng, slots=self.config.int("max.incremental.fetch.session.cache.slots")),
            waiting=waiting,
            doubts=self._doubts,
            controller=self._control.active,
            own_controller=self._control.own,
            broker_watch=self._control.watch,
            quorum=self._control.quorum,
            producer_ids=producer_ids,
            groups=groups,
            transactions=self._transactions.coordinator,
            txn_partitions=self._transactions.partitions,
            txn_produce=self._transactions.produce,
            moves=moves,
            authorizer=AllowAll(),
            replica_selector=selector_of(self.config),
            leader_throttle=self._replication.leader_throttle,
            fetch_bytes_max=self.config.int("fetch.max.bytes"),
        )

    def _join_remote_tier(self) -> "Tiers | None":
        if self._remote_store is None or not self._is_broker:
            return None
        from headrace.node.tiers import Tiers  # most nodes have none, and start sooner without it

        tiers = Tiers(
            self.config,
            self.image,
            self._control.active,
            self.parts.replicas,
            self._remote_store,
            self._world,
            log_dir=self._store.online_folders()[0].path,
            on_arrival=self.parts.waiting.notify,
        )
        self.parts.remote, self.parts.remote_times = tiers.reading.reader, tiers.reading.times
        self._replication.use_remote_tier(tiers.reading.tails, tiers.reading.start_executor)
        return tiers

    @property
    def quorum(self) -> Quorum:
        return self._control.quorum

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients connect."""
        return self._listeners.addresses()

    # --- starting ---

    async def start(self, say: Say | None) -> None:
        self._listeners.open()
        self._listeners.admit_controllers()
        await telling(self._control.start(self._listeners.advertised_controllers), say, self._why_no_quorum)
        if self._is_broker:
            await self._start_broker(say)

    async def _start_broker(self, say: Say | None) -> None:
        check_tiering(self.config, self.image)
        await open_logs(
            self._store,
            self.image,
            self._cluster.topic_config,
            node_id=self.config.node_id,
            loop=self._loop,
            say=say,
        )
        self._has_logs = True
        self._control.publisher.follow(self.image_following)
        await self.image_following.settle()
        self.parts.groups.start()
        self.parts.transactions.start()
        self._upkeep.start()
        self.cleaning.start()
        await telling(self._register(), say, self._why_not_registered)
        # Registering ends the leaderships of the process before this one: groups are loaded once it is over.
        self._coordinates = True
        self.parts.groups.apply(everything_in(self.image))
        self.parts.transactions.apply(everything_in(self.image))
        self._listeners.admit()
        if self.tiers is not None:
            self.tiers.start()

    def _why_no_quorum(self) -> str:
        config = self.config
        asked = config.list("controller.quorum.voters") or config.list("controller.quorum.bootstrap.servers")
        return (
            f"no leader of the quorum is found yet: are enough controllers of cluster {self.cluster_id} "
            f"running at {', '.join(asked)}?"
        )

    def _why_not_registered(self) -> str:
        reason = None if self._lifecycle is None else self._lifecycle.refusal
        return f"the broker is not registered yet: {reason or 'no controller has answered'}"

    async def _register(self) -> None:
        self._lifecycle = BrokerLifecycle(
            self._control.active,
            identity_of(self.config, self._store, self.cluster_id, self._incarnation_id),
            self.config,
            replayed_to=lambda: self.image_following.replayed_to(self.image),
            loop=self._loop,
            clock=self.parts.clock,
            on_new_epoch=self._begin_again,
        )
        if self._control.own is not None:
            self._control.own.core.own_incarnation_id = self._incarnation_id
        await self._lifecycle.register(self._listeners.advertised())
        if not await mark_running(self._store, self._lifecycle.epoch, self._loop):
            self._mark_later(self._lifecycle.epoch)
        await self._lifecycle.unfence()
        self._begin_epoch(self._lifecycle.epoch)
        self.parts.moves.resume()

    def _begin_again(self, broker_epoch: int) -> None:
        self._mark_later(broker_epoch)
        self._begin_epoch(broker_epoch)

    def _mark_later(self, broker_epoch: int) -> None:
        if self._marking is not None:
            self._marking.cancel()
        self._marking = self._loop.create_task(mark_in_the_end(self._store, broker_epoch, self._loop))

    def _begin_epoch(self, broker_epoch: int) -> None:
        """The broker is registered, for the first time or again."""
        self._directory_reports.begin(broker_epoch)
        self._replication.begin(broker_epoch, self.parts.replicas)

    # --- following ---

    def _follow(self, image: ClusterImage, delta: Delta) -> None:
        """One commit of the metadata log: settings first, then partitions, then what lives in them."""
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self._cluster.follow_settings()
            self.parts.replicas.follow_all_configs()
        own = image.brokers.get(self.config.node_id)
        self.parts.replicas.apply(
            image,
            delta,
            starting=self._lifecycle is None,
            registered=own is not None and own.incarnation_id == self._incarnation_id,
        )
        if self._coordinates:
            self.parts.groups.apply(delta)
            self.parts.transactions.apply(delta)
        if self.tiers is not None:
            self.tiers.follow(delta)
        self._doubts.look_again()

    def _advanced(self, topic_partition: TopicPartition) -> None:
        """Somebody may wait for this partition to grow."""
        self.parts.waiting.notify(topic_partition)
        if topic_partition.topic == self.parts.groups.runtime.topic:
            self.parts.groups.runtime.on_advance(topic_partition)
        elif topic_partition.topic == self.parts.transactions.runtime.topic:
            self.parts.transactions.runtime.on_advance(topic_partition)

    def _durable(self, topic_partition: TopicPartition) -> None:
        """A flush has ended, well or not."""
        partition = self.parts.replicas.get(topic_partition)
        if partition is not None:
            self._replication.durable(partition)

    def _folder_failed(self, folder: LogFolder) -> None:
        """Also called from the threads that open and close the logs, when nobody is to be told."""
        logger.error("log directory %s is offline: %s", folder.path, folder.failure)
        if not self._has_logs:
            return
        if self._lifecycle is not None and folder.meta is not None:
            self._lifecycle.report_failed_directory(folder.meta.directory_id)
        for topic_partition in folder.logs:
            self._advanced(topic_partition)  # who waits for one of them must not wait any longer
            # Nor may leaders be asked any further: who is asked by a follower takes it for one in sync.
            self._durable(topic_partition)
        if folder.failure is not None and not self._store.online_folders():
            self._on_failure(folder.failure)

    # --- stopping ---

    async def stop(self) -> None:
        """Hand over while clients are still served, answer who waits, close the logs, leave the mark of a
        clean stop.

        Clients hear from this node itself that others lead now: one whose connection just ended would have to
        find out.
        """
        if self._lifecycle is not None:
            await self._lifecycle.shut_down()
        await self._control.see_others_off()
        self._has_logs = False
        self._coordinates = False
        self.parts.waiting.close()
        self._doubts.close()
        if self.tiers is not None:
            await self.tiers.stop()
        self.parts.groups.stop()
        self._transactions.stop()
        await self._listeners.drain_clients(DRAIN_S)
        self._stop_replicas()
        self._control.stop_controllers()
        await self._control.stop_quorum()
        self.image_following.stop()
        await self._listeners.drain(DRAIN_S)
        await self.cleaning.stop()
        await self.parts.flushing.settle()
        epoch = -1 if self._lifecycle is None else self._lifecycle.epoch
        await self._loop.run_in_executor(None, self._store.close, epoch)

    def _stop_replicas(self) -> None:
        self._replication.stop()
        self.parts.moves.stop()
        self._directory_reports.stop()
        self._full_disks.stop()
        if self._marking is not None:
            self._marking.cancel()
        self._upkeep.stop()

    def abandon(self) -> None:
        """A start that failed: let go of ports, timers and folders, write nothing."""
        self._listeners.close()
        self.parts.groups.stop()
        self._transactions.stop()
        self._stop_replicas()
        self.cleaning.abandon()
        if self.tiers is not None:
            self.tiers.abandon()
        self._control.abandon()
        self.image_following.stop()
        self._store.unlock()


async def start_node(
    config: BrokerConfig,
    *,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    disk: Disk,
    network: Network,
    rng: random.Random,
    on_progress: Say | None = None,
    on_failure: OnFailure | None = None,
    attention: Attention | None = None,
    remote_store: RemoteStore | None = None,
) -> Node:
    """A node that serves clients. `on_failure` is told of a fault after which it can only be stopped.
    Segments of tiered topics go to the `remote_store`.
    """
    node = Node(
        config,
        loop=loop,
        clock=clock,
        disk=disk,
        network=network,
        rng=rng,
        on_failure=on_failure or (lambda error: logger.critical("the node failed: %s", error)),
        attention=attention,
        remote_store=remote_store,
    )
    try:
        await node.start(on_progress)
    except BaseException:
        node.abandon()
        raise
    return node
