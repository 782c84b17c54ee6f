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

from headrace.base.clock import Clock
from headrace.base.ids import TopicPartition
from headrace.controller.activation import default_bootstrap
from headrace.controller.active import ActiveController
from headrace.controller.broker_lifecycle import BrokerLifecycle, Identity, controller_registration_request
from headrace.controller.broker_watch import BrokerWatch
from headrace.controller.cluster import Cluster
from headrace.controller.driver import Controller
from headrace.controller.log_entries import entries_of_image
from headrace.controller.producer_id_blocks import ProducerIdBlocks
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.log.disk import Disk
from headrace.log.log_folder import LogFolder
from headrace.log.log_moves import adopt_abandoned
from headrace.log.partition_log import PartitionLog
from headrace.log.recovery import RecoveryProgress
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.metadata.publisher import ImagePublisher, everything_in
from headrace.metadata.resources import ResourceType
from headrace.node.directory_reports import DirectoryReports
from headrace.node.listeners import Listeners, receive_limits
from headrace.node.replication import Replication
from headrace.node.storage import directory_id_of, open_folders
from headrace.node.strays import is_at_home, set_strays_aside
from headrace.node.voter_address import tell_voter_address
from headrace.raft.formatting import read_bootstrap
from headrace.raft.member import open_member
from headrace.raft.quorum import Quorum
from headrace.replication.flushing import Flushing
from headrace.replication.moves import ReplicaMoves
from headrace.replication.replicas import Replicas
from headrace.replication.upkeep import Upkeep
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.parts import AllowAll, Parts
from headrace.server.replica_selection import selector_of
from headrace.server.waiting import Waiting
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.attention import Attention
from headrace.transport.network import Network
from headrace.transport.peer import Peer
from headrace.transport.receive_memory import ReceiveMemory

logger = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long replies that are due may take to leave when the node stops."""

OnFailure = Callable[[Exception], None]
Say = Callable[[str], None]


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
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._is_broker, self._is_controller = (role in config.roles for role in ("broker", "controller"))
        self._stopping = False
        self._lifecycle: BrokerLifecycle | None = None
        self._has_logs = False
        self._coordinates = False
        self._store, self.cluster_id = open_folders(
            config, disk=disk, clock=clock, rng=rng, on_folder_failed=self._folder_failed
        )
        try:
            self._join(config, clock=clock, disk=disk, network=network, rng=rng, attention=attention)
        except BaseException:
            self._store.unlock()
            raise

    def _join(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        network: Network,
        rng: random.Random,
        attention: Attention | None,
    ) -> None:
        """Make the parts and tell them of each other."""
        loop = self._loop
        self._incarnation_id = rng.randbytes(16)
        self.image = ClusterImage(self.cluster_id)
        # The node's own settings with the cluster's changes on top; everything below reads these.
        self._cluster = Cluster(self.image, config)
        self.config = self._cluster.config
        self._raft = open_member(
            config,
            directory_id=directory_id_of(self._store, config.metadata_log_dir),
            disk=disk,
            loop=loop,
            clock=clock,
            rng=rng,
            entries_of_image=lambda: entries_of_image(self.image),
            on_failure=self._on_failure,
        )
        memory = ReceiveMemory(loop, receive_limits(config))
        self.quorum = Quorum(
            self._raft,
            config,
            cluster_id=self.cluster_id,
            network=network,
            loop=loop,
            clock=clock,
            rng=rng,
            memory=memory,
            endpoints=lambda: self._listeners.controller_endpoints(),
        )
        self._publisher = ImagePublisher(self.image)
        self._own_controller = (
            self._make_controller(config, disk, clock, rng) if self._is_controller else None
        )
        self._controller = ActiveController(
            self._raft,
            self._own_controller,
            loop=loop,
            new_peer=self._way_to_controller,
            is_stopping=lambda: self._stopping,
        )
        self._broker_watch: BrokerWatch | None = None
        if self._own_controller is not None:
            self._raft.subscribe(self._own_controller)
            self._broker_watch = BrokerWatch(self._own_controller, loop=loop, network=network, memory=memory)
            self._raft.subscribe(self._broker_watch)
        self._raft.subscribe(self._publisher)
        self._directory_reports = DirectoryReports(self._controller, node_id=config.node_id, loop=loop)
        self._replication = Replication(
            self.config,
            self.image,
            alter_partition=self._controller.alter_partition,
            network=network,
            memory=memory,
            loop=loop,
            clock=clock,
            rng=rng,
        )
        self.parts = self._make_parts(clock, rng)
        self._upkeep = Upkeep(loop=loop, store=self._store, flushing=self.parts.flushing, config=self.config)
        self._listeners = Listeners(self.parts, self.config, network, memory, attention)

    def _make_controller(
        self, config: BrokerConfig, disk: Disk, clock: Clock, rng: random.Random
    ) -> Controller:
        bootstrap = read_bootstrap(disk, config.metadata_log_dir)
        return Controller(
            self._raft,
            config,
            cluster_id=self.cluster_id,
            bootstrap=default_bootstrap() if bootstrap is None else bootstrap.records,
            committed=self.image,
            loop=self._loop,
            clock=clock,
            rng=rng,
        )

    def _way_to_controller(self, node_id: int) -> Peer:
        """Another one than the quorum's own, where long polls hold up what comes after them."""
        return self.quorum.channels.new_peer(lambda: self.quorum.channels.address_of(node_id))

    def _make_parts(self, clock: Clock, rng: random.Random) -> Parts:
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
        groups = GroupCoordinator(
            config=self.config, clock=clock, loop=self._loop, rng=rng, replicas=replicas, image=self.image
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
            controller=self._controller,
            own_controller=self._own_controller,
            broker_watch=self._broker_watch,
            quorum=self.quorum,
            producer_ids=ProducerIdBlocks(
                self._controller, self.image, node_id=self.config.node_id, loop=self._loop
            ),
            groups=groups,
            moves=moves,
            authorizer=AllowAll(),
            replica_selector=selector_of(self.config),
            leader_throttle=self._replication.leader_throttle,
            fetch_bytes_max=self.config.int("fetch.max.bytes"),
        )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients connect."""
        return self._listeners.addresses()

    # --- starting ---

    async def start(self, say: Say | None) -> None:
        self._listeners.open()
        self._listeners.admit_controllers()
        await self.quorum.start()
        if self._own_controller is not None:
            await self._own_controller.settle()
            await self._register_controller()
            await tell_voter_address(self._raft, self._controller, self._listeners.controller_endpoints())
        if self._is_broker:
            await self._start_broker(say)

    async def _start_broker(self, say: Say | None) -> None:
        await self._open_logs(say)
        self._has_logs = True
        self._publisher.follow(self._follow)
        self.parts.groups.start()
        self._upkeep.start()
        await self._register()
        # Registering ends the leaderships of the process before this one: groups are loaded once it is over.
        self._coordinates = True
        self.parts.groups.apply(everything_in(self.image))
        self._listeners.admit()

    async def _open_logs(self, say: Say | None) -> None:
        """Open and where needed recover every log, in a thread: it may take a while."""

        def on_progress(progress: RecoveryProgress) -> None:
            if say is not None:
                self._loop.call_soon_threadsafe(say, _progress_text(progress))

        def is_stray(log: PartitionLog) -> bool:
            return not is_at_home(log, self.image, self.config.node_id)

        def open_all() -> None:
            self._store.open_all(self._cluster.topic_config, on_progress=on_progress, is_stray=is_stray)
            adopt_abandoned(self._store)

        await self._loop.run_in_executor(None, open_all)
        set_strays_aside(self._store, self.image, self.config.node_id)

    async def _register_controller(self) -> None:
        await self._controller.register_controller(
            controller_registration_request(
                node_id=self.config.node_id,
                incarnation_id=self._incarnation_id,
                listeners=self._listeners.advertised_controllers(),
            )
        )

    async def _register(self) -> None:
        folders = [folder.meta for folder in self._store.online_folders() if folder.meta is not None]
        identity = Identity(
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self._incarnation_id,
            directories=tuple(sorted(meta.directory_id for meta in folders)),
            rack=self.config.str("broker.rack") or None,
            previous_epoch=self._store.previous_broker_epoch,
        )
        self._lifecycle = BrokerLifecycle(
            self._controller,
            identity,
            self.config,
            replayed_to=lambda: self.image.offset,
            loop=self._loop,
            clock=self.parts.clock,
        )
        if self._own_controller is not None:
            self._own_controller.core.own_incarnation_id = self._incarnation_id
        await self._lifecycle.register(self._listeners.advertised())
        await self._lifecycle.unfence()
        self._directory_reports.begin(self._lifecycle.epoch)
        self._replication.begin(self._lifecycle.epoch, self.parts.replicas)
        self.parts.moves.resume()

    # --- following ---

    def _follow(self, image: ClusterImage, delta: Delta) -> None:
        """One commit of the metadata log: settings first, then partitions, then what lives in them."""
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self._cluster.follow_settings()
            self.parts.replicas.follow_all_configs()
        self.parts.replicas.apply(image, delta, starting=self._lifecycle is None)
        if self._coordinates:
            self.parts.groups.apply(delta)

    def _advanced(self, topic_partition: TopicPartition) -> None:
        """Somebody may wait for this partition to grow."""
        self.parts.waiting.notify(topic_partition)
        if topic_partition.topic == self.parts.groups.runtime.topic:
            self.parts.groups.runtime.on_advance(topic_partition)

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
        if folder.failure is not None and not self._store.online_folders():
            self._on_failure(folder.failure)

    # --- stopping ---

    async def stop(self) -> None:
        """Answer who waits, hand over, close the logs, leave the mark of a clean stop."""
        self._has_logs = False
        self._coordinates = False
        self.parts.waiting.close()
        self.parts.groups.stop()
        await self._listeners.drain_clients(DRAIN_S)
        if self._lifecycle is not None:
            await self._lifecycle.shut_down()
        self._stopping = True
        self._replication.stop()
        self.parts.moves.stop()
        self._directory_reports.stop()
        self._upkeep.stop()
        self._stop_controllers()
        await self.quorum.stop()
        await self._listeners.drain(DRAIN_S)
        await self.parts.flushing.settle()
        epoch = -1 if self._lifecycle is None else self._lifecycle.epoch
        await self._loop.run_in_executor(None, self._store.close, epoch)

    def _stop_controllers(self) -> None:
        if self._broker_watch is not None:
            self._broker_watch.stop()
        if self._own_controller is not None:
            self._own_controller.stop()
        self._controller.stop()

    def abandon(self) -> None:
        """A start that failed: let go of ports, timers and folders, write nothing."""
        self._stopping = True
        self._listeners.close()
        self.parts.groups.stop()
        self._replication.stop()
        self.parts.moves.stop()
        self._directory_reports.stop()
        self._upkeep.stop()
        self._stop_controllers()
        self.quorum.abandon()
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
) -> Node:
    """A node that serves clients. `on_failure` is told of a fault after which it can only be stopped."""
    node = Node(
        config,
        loop=loop,
        clock=clock,
        disk=disk,
        network=network,
        rng=rng,
        on_failure=on_failure or (lambda error: logger.critical("the node failed: %s", error)),
        attention=attention,
    )
    try:
        await node.start(on_progress)
    except BaseException:
        node.abandon()
        raise
    return node


def _progress_text(progress: RecoveryProgress) -> str:
    text = f"recovering {progress.folder}: segment {progress.segments_done} of {progress.segments_total}"
    return f"{text}, {progress.bytes_cut} damaged bytes cut off" if progress.bytes_cut else text
