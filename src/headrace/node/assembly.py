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
from headrace.controller.cluster_state import ClusterState
from headrace.controller.drivers.broker_lifecycle_manager import BrokerLifecycleManager
from headrace.controller.drivers.producer_id_manager import ProducerIdManager
from headrace.log.compaction.drivers.log_cleaner import LogCleaner
from headrace.log.disk import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.storage import OPEN_FILES_MAX
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.features import METADATA_VERSION
from headrace.metadata.image import MetadataImage
from headrace.metadata.metadata_loader import everything_in
from headrace.metadata.security import ACLS, QUOTAS
from headrace.node.announcements import tell_who_starts
from headrace.node.assignments_manager import AssignmentsManager
from headrace.node.audit_file import new_audit_trail
from headrace.node.broker_metadata_publisher import BrokerMetadataPublisher
from headrace.node.channel_builders import ChannelBuilders
from headrace.node.control_plane import ControlPlane
from headrace.node.coordinators import Coordinators
from headrace.node.listeners import Listeners, receive_limits
from headrace.node.replication import Replication
from headrace.node.startup import Say, check_tiering, open_logs, telling
from headrace.node.storage import (
    directory_id_of,
    identity_of,
    mark_in_the_end,
    mark_running,
    open_folders,
)
from headrace.raft.drivers.raft_manager import RaftManager
from headrace.replication.drivers.full_disks import FullDisks
from headrace.replication.drivers.log_flusher import LogFlusher
from headrace.replication.drivers.log_manager_tasks import LogManagerTasks
from headrace.replication.drivers.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from headrace.replication.replica_manager import ReplicaManager
from headrace.security.standard_authorizer import StandardAuthorizer
from headrace.server.authorizer import authorizer_of
from headrace.server.broker_state import BrokerState
from headrace.server.client_metrics_manager import ClientMetricsManager
from headrace.server.environment import NodeEnvironment
from headrace.server.fetch_sessions import FetchSessionCache
from headrace.server.forwarding import ForwardedOnce
from headrace.server.large_batches import LargeBatches
from headrace.server.marker_writing import write_markers
from headrace.server.parts import Parts
from headrace.server.purgatory import Purgatory
from headrace.server.quotas.quota_managers import quota_managers_of
from headrace.server.replica_selection import selector_of
from headrace.server.request_log import RequestLog
from headrace.server.suspected_brokers import SuspectedBrokers
from headrace.settings.broker_config import BrokerConfig
from headrace.telemetry.fault_log import FaultLog
from headrace.tiered.remote_storage import RemoteStorageManager
from headrace.transport.attention import Attention
from headrace.transport.descriptors import Descriptors
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory

if TYPE_CHECKING:
    from headrace.node.metrics.metrics_listener import MetricsListener, ProcessGatherer
    from headrace.node.metrics.otlp_exporter import OtlpExporter
    from headrace.remote_log.remote_log_manager import RemoteLogManager
    from headrace.remote_log.remote_reading import RemoteReading

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
        remote_store: RemoteStorageManager | None = None,
        descriptors: Descriptors | None = None,
        process: "ProcessGatherer | None" = None,
    ) -> None:
        self._loop = loop
        self._channel_builders = ChannelBuilders(config, read_file=disk.read_file, rng=rng)
        self._world = NodeEnvironment(
            loop,
            clock,
            disk,
            network,
            rng,
            ReceiveMemory(loop, receive_limits(config)),
            self._channel_builders.of,
        )
        self._on_failure = on_failure
        self._is_broker = "broker" in config.roles
        self._lifecycle: BrokerLifecycleManager | None = None
        self._marking: asyncio.Task[None] | None = None
        self._has_logs = False
        self._coordinates = False
        self._remote_store = remote_store
        self._began_ms = clock.monotonic_ms()
        self._process = process
        self.state = BrokerState.STARTING
        self.metrics: MetricsListener | None = None
        self._exporter: OtlpExporter | None = None
        self._store, self.cluster_id = open_folders(
            config,
            disk=disk,
            clock=clock,
            rng=rng,
            on_log_dir_failure=self._folder_failed,
            on_disk_full=lambda log: self._full_disks.note(log),
            on_missing_records=lambda log: self._full_disks.note_missing(log),
            open_files_max=OPEN_FILES_MAX if descriptors is None else descriptors.open_files_max,
        )
        if descriptors is not None:
            descriptors.open_files = lambda: self._store.open_files.held
        tell_who_starts(config, self.cluster_id, self._store)
        try:
            self._join(config, attention, descriptors)
        except BaseException:
            self._store.unlock()
            raise

    def _join(
        self, config: BrokerConfig, attention: Attention | None, descriptors: Descriptors | None
    ) -> None:
        """Make the parts and tell them of each other."""
        loop, world = self._loop, self._world
        self._incarnation_id = new_uuid(world.rng)
        self.image = MetadataImage(self.cluster_id)
        # The node's own settings with the cluster's changes on top; everything below reads these.
        self._cluster = ClusterState(self.image, config)
        self.config = self._store.config = self._cluster.config
        self._suspected_brokers = SuspectedBrokers(
            loop, lambda broker_id: self._control.ask_broker(broker_id)
        )
        self._control = ControlPlane(
            config,
            self.image,
            world,
            directory_id=directory_id_of(self._store, config.metadata_log_dir),
            incarnation_id=self._incarnation_id,
            endpoints=lambda: self._listeners.controller_endpoints(),
            suspected_brokers=self._suspected_brokers,
            room=lambda: {config.node_id: self._store.room()} if self._is_broker else {},
            on_failure=self._on_failure,
        )
        self._assignments_manager = AssignmentsManager(
            self._control.active, node_id=config.node_id, loop=loop
        )
        remote = self._open_remote_reading()
        self._replication = Replication(
            self.config,
            self.image,
            world,
            alter_partition=self._control.active.ask,
            on_leader_lost=self._suspected_brokers.suspect,
            remote=remote,
        )
        self.parts = self._make_parts(remote)
        self.metadata_publisher = BrokerMetadataPublisher(
            self._follow,
            loop=loop,
            clock=world.clock,
            on_failure=self._on_failure,
            on_followed=lambda: self.parts.replica_manager.state_changes.tell(),
        )
        self._log_manager_tasks = LogManagerTasks(
            loop=loop, log_manager=self._store, log_flusher=self.parts.log_flusher, config=self.config
        )
        self.log_cleaner = LogCleaner(loop=loop, log_manager=self._store, config=self.config, rng=world.rng)
        self.remote_log_manager = self._make_remote_log_manager(remote)
        self._listeners = Listeners(self.parts, self.config, world, attention, descriptors)

    def _make_parts(self, remote: "RemoteReading | None") -> Parts:
        world, own_id, note_place = self._world, self.config.node_id, self._assignments_manager.note
        log_flusher = LogFlusher(loop=self._loop, clock=world.clock, on_durable=self._durable)
        replicas = ReplicaManager(
            node_id=own_id,
            store=self._store,
            topic_config=self._cluster.topic_config,
            on_advance=self._advanced,
            on_placed=note_place,
            request_flush=log_flusher.request,
            context=self._replication.context,
            on_follow=self._replication.follow,
            wanted_directory=lambda where: replica_alter_log_dirs_manager.wanted_directory(where),
            on_unmade=lambda partition: self._full_disks.note_unmade(partition),
        )
        replica_alter_log_dirs_manager = ReplicaAlterLogDirsManager(
            self._store,
            replicas,
            loop=self._loop,
            request_flush=log_flusher.request,
            bytes_per_second=lambda: self.config.int("replica.alter.log.dirs.io.max.bytes.per.second"),
            on_moved=replicas.report_place,
        )
        self._full_disks = FullDisks(replicas, self._store, loop=self._loop, report=note_place)
        producer_ids = ProducerIdManager(self._control.active, self.image, node_id=own_id, loop=self._loop)
        purgatory = Purgatory(self._loop)
        self._coordinators = coordinators = self._make_coordinators(replicas, producer_ids, purgatory)
        return Parts(
            node_id=own_id,
            cluster_id=self.cluster_id,
            config=self.config,
            clock=world.clock,
            loop=self._loop,
            rng=world.rng,
            image=self.image,
            replica_manager=replicas,
            log_manager=self._store,
            log_flusher=log_flusher,
            sessions=_fetch_session_cache(self.config, world.rng),
            purgatory=purgatory,
            large_batches=LargeBatches(self._loop),
            suspected_brokers=self._suspected_brokers,
            controller=self._control.active,
            own_controller=self._control.own,
            broker_watch=self._control.watch,
            quorum=self._control.quorum,
            producer_ids=producer_ids,
            groups=coordinators.groups,
            transactions=coordinators.transactions.coordinator,
            share_groups=coordinators.share,
            txn_partitions=coordinators.transactions.partitions,
            txn_produce=coordinators.transactions.produce,
            replica_alter_log_dirs_manager=replica_alter_log_dirs_manager,
            client_metrics=ClientMetricsManager(self.config, self._loop, world.rng),
            request_log=RequestLog(self._loop, slow_ms=self.config.int("headrace.slow.request.ms")),
            audit=new_audit_trail(self.config, world, self.image, self._control.active),
            authorizer=authorizer_of(self.config),
            forwarded_once=ForwardedOnce(),
            quotas=quota_managers_of(self.config, world.clock, self._loop),
            faults=FaultLog(self._loop.time, logger),
            replica_selector=selector_of(self.config),
            leader_replication_quota=self._replication.leader_replication_quota,
            remote_log_reader=None if remote is None else remote.reader,
            remote_log_offset_reader=None if remote is None else remote.offset_reader,
            check_stores=self._channel_builders.check,
            fetch_bytes_max=self.config.int("fetch.max.bytes"),
        )

    def _make_coordinators(
        self, replicas: ReplicaManager, producer_ids: ProducerIdManager, purgatory: Purgatory
    ) -> Coordinators:
        return Coordinators(
            self.config,
            self.image,
            replicas,
            self._world,
            controller=self._control.active,
            purgatory=purgatory,
            take_producer_id=producer_ids.take,
            write_markers=lambda request: write_markers(self.parts, request),
        )

    def _open_remote_reading(self) -> "RemoteReading | None":
        if self._remote_store is None or not self._is_broker:
            return None
        # Most nodes have none, and start sooner without it.
        from headrace.remote_log.remote_reading import RemoteReading

        return RemoteReading(
            self.config,
            self._remote_store,
            disk=self._world.disk,
            log_dir=self._store.live_log_dirs()[0].path,
            loop=self._loop,
            on_arrival=lambda partition: self.parts.purgatory.notify(partition),
        )

    def _make_remote_log_manager(self, reading: "RemoteReading | None") -> "RemoteLogManager | None":
        if reading is None:
            return None
        from headrace.remote_log.remote_log_manager import RemoteLogManager

        return RemoteLogManager(
            self.config,
            self.image,
            self._control.active,
            self.parts.replica_manager,
            reading,
            self._world,
        )

    @property
    def quorum(self) -> RaftManager:
        return self._control.quorum

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients connect."""
        return self._listeners.addresses()

    # --- starting ---

    async def start(self, say: Say | None) -> None:
        self._listeners.open()
        self._open_metrics()
        self._listeners.admit_controllers(early=True)
        await telling(self._control.start(self._listeners.advertised_controllers), say, self._why_no_quorum)
        self._control.metadata_loader.follow(self._follow_acls)
        self._listeners.admit_controllers(early=False)
        if self._is_broker:
            await self._start_broker(say)
        else:
            self._control.metadata_loader.follow(self._follow_settings)
        self._channel_builders.watch(self.config, self._loop, self._world.clock)
        self.state = BrokerState.RUNNING
        took_ms = self._world.clock.monotonic_ms() - self._began_ms
        logger.info("ready after %d ms, with %d partitions", took_ms, len(self.parts.replica_manager))

    def _open_metrics(self) -> None:
        """Where it is wanted; probes are to hear of a start that takes long."""
        if self.config.str("headrace.metrics.listener"):
            # Loading it takes a tenth of a second, and most tests have none.
            from headrace.node.metrics.metrics_listener import open_metrics

            self.metrics = open_metrics(
                self, self._listeners, self._channel_builders, self._world, self._process
            )
        if self._is_broker and self.config.str("headrace.client.metrics.otlp.endpoint"):
            from headrace.node.metrics.otlp_exporter import otlp_exporter_of

            self._exporter = otlp_exporter_of(self.config, self.cluster_id, self._loop)
            self.parts.client_metrics.exporter = self._exporter

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
        self._control.metadata_loader.follow(self.metadata_publisher)
        await self.metadata_publisher.settle()
        self._coordinators.start()
        self._log_manager_tasks.start()
        self.log_cleaner.start()
        await telling(self._register(), say, self._why_not_registered)
        # Registering ends the leaderships of the process before this one: groups are loaded once it is over.
        self._coordinates = True
        self._coordinators.apply(everything_in(self.image))
        self._listeners.admit()
        if self.remote_log_manager is not None:
            self.remote_log_manager.start()

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
        self._lifecycle = BrokerLifecycleManager(
            self._control.active,
            identity_of(self.config, self._store, self.cluster_id, self._incarnation_id),
            self.config,
            replayed_to=lambda: self.metadata_publisher.replayed_to(self.image),
            loop=self._loop,
            clock=self.parts.clock,
            cordoned_directories=self._store.cordoned_directories,
        )
        await self._lifecycle.register(self._listeners.advertised())
        if not await mark_running(self._store, self._lifecycle.epoch, self._loop):
            self._mark_later(self._lifecycle.epoch)
        await self._lifecycle.unfence()
        self._assignments_manager.begin(self._lifecycle.epoch)
        self._replication.begin(self._lifecycle.epoch, self.parts.replica_manager)
        self.parts.replica_alter_log_dirs_manager.resume()

    def _mark_later(self, broker_epoch: int) -> None:
        self._marking = self._loop.create_task(mark_in_the_end(self._store, broker_epoch, self._loop))

    # --- following ---

    def _follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """One commit of the metadata log: settings first, then partitions, then what lives in them."""
        self._follow_settings(image, delta)
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self.parts.replica_manager.follow_all_configs()
            if self._lifecycle is not None:
                self._lifecycle.follow_settings()
        own = image.brokers.get(self.config.node_id)
        self.parts.replica_manager.apply(
            image,
            delta,
            starting=self._lifecycle is None,
            registered=own is not None and own.incarnation_id == self._incarnation_id,
        )
        if self._coordinates:
            self._coordinators.apply(delta)
        if self.remote_log_manager is not None:
            self.remote_log_manager.follow(delta)
        self._suspected_brokers.look_again()

    def _follow_settings(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take on settings and quotas that changed: all that a node without the broker's role follows."""
        if QUOTAS in delta.security_changed:
            self._listeners.follow_quotas(image.security)
        self.parts.client_metrics.follow(image.configs, delta.configs_changed)
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self._cluster.follow_settings()
            self._listeners.follow_settings()
            self._channel_builders.follow_settings(self.config)

    def _follow_acls(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Before anyone is answered by the new image. The first call says that all ACLs are known."""
        authorizer = self.parts.authorizer
        if isinstance(authorizer, StandardAuthorizer) and (
            not authorizer.is_loaded
            or ACLS in delta.security_changed
            or METADATA_VERSION in delta.features_changed
        ):
            authorizer.follow(image.security.acls, metadata_version=image.metadata_version)

    def _advanced(self, topic_partition: TopicPartition) -> None:
        """Somebody may wait for this partition to grow."""
        self.parts.purgatory.notify(topic_partition)
        self._coordinators.advanced(topic_partition)

    def _durable(self, topic_partition: TopicPartition) -> None:
        """A flush has ended, well or not."""
        partition = self.parts.replica_manager.get(topic_partition)
        if partition is not None:
            self._replication.durable(partition)

    def _folder_failed(self, folder: LogDirectory) -> None:
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
        if folder.failure is not None and not self._store.live_log_dirs():
            self._on_failure(folder.failure)

    # --- stopping ---

    async def stop(self) -> None:
        """Hand over while clients are still served, answer who waits, close the logs, leave the mark of a
        clean stop.

        Clients hear from this node itself that others lead now: one whose connection just ended would have to
        find out.
        """
        began_ms = self._world.clock.monotonic_ms()
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        logger.info("stopping: partitions that are led here are handed over")
        self.parts.replica_manager.state_changes.is_stopping = True
        if self._lifecycle is not None:
            await self._lifecycle.shut_down()
        await self._control.see_others_off()
        self._has_logs = False
        self._coordinates = False
        self.parts.purgatory.close()
        self._suspected_brokers.close()
        if self.remote_log_manager is not None:
            await self.remote_log_manager.stop()
        self._coordinators.stop()
        await self._listeners.drain_clients(DRAIN_S)
        self._stop_replicas()
        self._control.stop_controllers()
        await self._control.stop_quorum()
        self.metadata_publisher.stop()
        await self._listeners.drain(DRAIN_S)
        self._close_metrics()
        if self.parts.audit is not None and self.parts.audit.writer is not None:
            await self.parts.audit.writer.close()
        self.parts.large_batches.close()
        await self.log_cleaner.stop()
        await self.parts.log_flusher.wait_idle()
        epoch = -1 if self._lifecycle is None else self._lifecycle.epoch
        await self._loop.run_in_executor(None, self._store.close, epoch)
        took_ms = self._world.clock.monotonic_ms() - began_ms
        logger.info("stopped after %d ms, the logs are closed", took_ms)

    def _stop_replicas(self) -> None:
        self._replication.stop()
        self.parts.replica_alter_log_dirs_manager.stop()
        self._assignments_manager.stop()
        self._channel_builders.stop()
        self._full_disks.stop()
        if self._marking is not None:
            self._marking.cancel()
        self._log_manager_tasks.stop()
        self.parts.request_log.stop()

    def _close_metrics(self) -> None:
        if self.metrics is not None:
            self.metrics.close()
        if self._exporter is not None:
            self._exporter.close()

    def abandon(self) -> None:
        """A start that failed: let go of ports, timers and folders, write nothing."""
        self._listeners.close()
        self._close_metrics()
        self._coordinators.stop()
        self._stop_replicas()
        self.log_cleaner.abandon()
        if self.remote_log_manager is not None:
            self.remote_log_manager.abandon()
        self._control.abandon()
        self.metadata_publisher.stop()
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
    remote_store: RemoteStorageManager | None = None,
    descriptors: Descriptors | None = None,
    process: "ProcessGatherer | None" = None,
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
        descriptors=descriptors,
        process=process,
    )
    try:
        await node.start(on_progress)
    except BaseException:
        node.abandon()
        raise
    return node


def _fetch_session_cache(config: BrokerConfig, rng: random.Random) -> FetchSessionCache:
    return FetchSessionCache(rng, slots=config.int("max.incremental.fetch.session.cache.slots"))
