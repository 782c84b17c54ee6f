"""Share groups, joined for one node: the share coordinator, the way to the others, and the leader of share
partitions.
"""

import asyncio
import logging
from collections.abc import Callable

from headrace.base.internal_topics import SHARE_STATE_TOPIC
from headrace.controller.drivers.controller import Controller
from headrace.coordinators.drivers.persister import Persister
from headrace.coordinators.drivers.share_coordinator import ShareCoordinator
from headrace.coordinators.group.share.share_group_config import ShareGroupConfigManager
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.replication.replica_manager import ReplicaManager
from headrace.server.automatic_topics import automatic_topic
from headrace.server.broker_clients import BrokerClients
from headrace.server.environment import NodeEnvironment
from headrace.server.purgatory import Purgatory
from headrace.server.share.dead_letter_queue import DeadLetterQueue
from headrace.server.share.partition_metadata_client import PartitionMetadataClient
from headrace.server.share.share_partition_manager import SharePartitionManager
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_MS = 30_000


class ShareGroupParts:
    """One node's share in share groups."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        replicas: ReplicaManager,
        world: NodeEnvironment,
        *,
        controller: Controller,
        purgatory: Purgatory,
    ) -> None:
        self._config = config
        self._controller = controller
        self._making: list[Callable[[], None]] = []
        self._ways = BrokerClients("share-state", config, image, world)
        self.end_offsets = PartitionMetadataClient(
            node_id=config.node_id, image=image, replicas=replicas, send=self._ways.send
        )
        self.configs = ShareGroupConfigManager(config, image)
        self.coordinator = ShareCoordinator(
            config=config, clock=world.clock, loop=world.loop, replicas=replicas, image=image
        )
        self.persister = Persister(
            self.coordinator,
            node_id=config.node_id,
            image=image,
            loop=world.loop,
            send=self._ways.send,
            make_topic=self._make_topic,
        )
        self._dead_letters = DeadLetterQueue(
            config, image, world, controller=controller, configs=self.configs
        )
        self.manager = SharePartitionManager(
            persister=self.persister,
            dead_letters=self._dead_letters,
            configs=self.configs,
            sessions_max=config.int("group.share.max.share.sessions"),
            clock=world.clock,
            loop=world.loop,
            rng=world.rng,
            purgatory=purgatory,
        )

    def apply(self, delta: MetadataDelta) -> None:
        """Follow one commit of the metadata log, after the replicas did."""
        self.coordinator.apply(delta)
        self.manager.drop_not_led()

    def stop(self) -> None:
        self.manager.stop()
        self._dead_letters.stop()
        self.persister.stop()
        self.coordinator.stop()
        self._ways.stop()

    def _make_topic(self, done: Callable[[], None]) -> None:
        """Have the topic made; who asks meanwhile waits for the same."""
        self._making.append(done)
        if len(self._making) > 1:
            return

        def made(asked: "asyncio.Future[CreateTopicsResponse]") -> None:
            error = None if asked.cancelled() else asked.exception()
            if error is not None:
                logger.warning("%s cannot be made yet: %s", SHARE_STATE_TOPIC, error)
            else:
                for topic in () if asked.cancelled() else asked.result().topics:
                    if topic.error_code:
                        logger.warning("%s cannot be made yet: %s", topic.name, topic.error_message)
            waiting, self._making = self._making, []
            for each in waiting:
                each()

        creation = CreateTopicsRequest([automatic_topic(self._config, SHARE_STATE_TOPIC)], CREATE_TIMEOUT_MS)
        self._controller.ask(creation).add_done_callback(made)
