"""Transactions, joined for one node: the coordinator, its markers' ways to other brokers, and the gate that
transactional writes pass.
"""

import asyncio
import random
from collections.abc import Callable

from headrace.base.clock import Clock
from headrace.coordinators.txn.coordinator import TxnCoordinator
from headrace.coordinators.txn.markers import WriteMarkers
from headrace.metadata.image import ClusterImage
from headrace.node.broker_ways import BrokerWays
from headrace.replication.replicas import Replicas
from headrace.server.txn_partitions import TxnPartitions
from headrace.server.txn_produce import TxnProduce
from headrace.settings.broker_config import BrokerConfig
from headrace.transport.network import Network
from headrace.transport.receive_memory import ReceiveMemory


class Transactions:
    """One node's share in transactions."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        replicas: Replicas,
        *,
        take_producer_id: "Callable[[], int | asyncio.Future[int]]",
        write_markers: WriteMarkers,
        network: Network,
        memory: ReceiveMemory,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        def ways(purpose: str) -> BrokerWays:
            return BrokerWays(
                purpose, config, image, network=network, memory=memory, loop=loop, clock=clock, rng=rng
            )

        self._marker_ways, self._question_ways = ways("txn-markers"), ways("txn-partitions")
        self.coordinator = TxnCoordinator(
            config=config,
            clock=clock,
            loop=loop,
            replicas=replicas,
            image=image,
            take_producer_id=take_producer_id,
            write_markers=write_markers,
            send_markers=self._marker_ways.send,
        )
        self.partitions = TxnPartitions(
            self.coordinator, config, loop=loop, ask_broker=self._question_ways.send
        )
        self.produce = TxnProduce(self.partitions, loop)

    def stop(self) -> None:
        self.coordinator.stop()
        self._marker_ways.stop()
        self._question_ways.stop()
