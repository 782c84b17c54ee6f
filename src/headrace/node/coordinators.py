"""The coordinators of one node, joined: of groups, of transactions and of share groups' state.

They live in partitions that the node leads, so they follow the metadata log after the replicas did, and hear
of every high watermark that moves.
"""

import asyncio
from collections.abc import Callable

from headrace.base.ids import TopicPartition
from headrace.controller.drivers.controller import Controller
from headrace.coordinators.drivers.group_coordinator import GroupCoordinator
from headrace.coordinators.drivers.transaction_marker_channel_manager import WriteMarkers
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.node.transactions import Transactions
from headrace.replication.replica_manager import ReplicaManager
from headrace.server.environment import NodeEnvironment
from headrace.server.purgatory import Purgatory
from headrace.server.share.share_group_parts import ShareGroupParts
from headrace.settings.broker_config import BrokerConfig


class Coordinators:
    """What a node coordinates."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        replicas: ReplicaManager,
        world: NodeEnvironment,
        *,
        controller: Controller,
        purgatory: Purgatory,
        take_producer_id: "Callable[[], int | asyncio.Future[int]]",
        write_markers: WriteMarkers,
    ) -> None:
        self.transactions = Transactions(
            config, image, replicas, world, take_producer_id=take_producer_id, write_markers=write_markers
        )
        self.share = ShareGroupParts(
            config, image, replicas, world, controller=controller, purgatory=purgatory
        )
        self.groups = GroupCoordinator(
            config=config,
            clock=world.clock,
            loop=world.loop,
            rng=world.rng,
            replicas=replicas,
            image=image,
            share_configs=self.share.configs,
            share_persister=self.share.persister,
        )
        self._runtimes = {
            runtime.topic: runtime.on_high_watermark_updated
            for runtime in (
                self.groups.runtime,
                self.transactions.coordinator.runtime,
                self.share.coordinator.runtime,
            )
        }

    def start(self) -> None:
        """Begin the periodic upkeep."""
        self.groups.start()
        self.transactions.coordinator.start()
        self.share.coordinator.start()

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one commit of the metadata log."""
        self.groups.apply(delta)
        self.transactions.coordinator.apply(delta)
        self.share.apply(delta)

    def advanced(self, topic_partition: TopicPartition) -> None:
        """A partition's high watermark may have moved."""
        updated = self._runtimes.get(topic_partition.topic)
        if updated is not None:
            updated(topic_partition)

    def stop(self) -> None:
        """Coordinate nothing any more."""
        self.groups.stop()
        self.transactions.stop()
        self.share.stop()
