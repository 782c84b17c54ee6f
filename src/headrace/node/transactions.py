"""Transactions, joined for one node: the coordinator, its markers' ways to other brokers, and the gate that
transactional writes pass.
"""

import asyncio
from collections.abc import Callable

from headrace.coordinators.drivers.transaction_coordinator import TransactionCoordinator
from headrace.coordinators.drivers.transaction_marker_channel_manager import WriteMarkers
from headrace.metadata.image import MetadataImage
from headrace.replication.replica_manager import ReplicaManager
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.server.txn_partitions import TxnPartitions
from headrace.server.txn_produce import TxnProduce
from headrace.settings.broker_config import BrokerConfig


class Transactions:
    """One node's share in transactions."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        replicas: ReplicaManager,
        world: NodeEnvironment,
        *,
        take_producer_id: "Callable[[], int | asyncio.Future[int]]",
        write_markers: WriteMarkers,
    ) -> None:
        self._marker_ways = BrokerClients("txn-markers", config, image, world)
        self._question_ways = BrokerClients("txn-partitions", config, image, world)
        self.coordinator = TransactionCoordinator(
            config=config,
            clock=world.clock,
            loop=world.loop,
            replicas=replicas,
            image=image,
            take_producer_id=take_producer_id,
            write_markers=write_markers,
            send_markers=self._marker_ways.send,
        )
        self.partitions = TxnPartitions(
            self.coordinator, config, loop=world.loop, ask_broker=self._question_ways.send
        )
        self.produce = TxnProduce(self.partitions, world.loop)

    def stop(self) -> None:
        self.coordinator.stop()
        self._marker_ways.stop()
        self._question_ways.stop()
