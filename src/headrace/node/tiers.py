"""The remote tier, joined for one node: the store, what is known of the segments in it, copying and removing.

Only a broker with `remote.log.storage.system.enable` has one. What blocks on the store runs in threads of its
own, so that a slow store keeps nothing else waiting. How many there are is counted by who gives them work,
for the settings can change while the node runs.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headrace.base.ids import TopicPartition
from headrace.controller.requests import ControllerRequests
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.node.deleted_topics import DeletedTopics
from headrace.node.index_upkeep import IndexUpkeep
from headrace.node.remote_metadata import RemoteMetadata
from headrace.node.remote_reading import THREADS_MAX, RemoteReading
from headrace.node.world import World
from headrace.replication.replicas import Replicas
from headrace.replication.tier_rounds import TierRounds
from headrace.replication.tiering import Tiering
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.remote_log import RemoteLogs
from headrace.tiered.remote_segment import TopicIdPartition
from headrace.tiered.steps import Teller
from headrace.tiered.store import RemoteStore


class Tiers:
    """One node's share in the remote tier. `logs` is what is known of remote segments."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        controller: ControllerRequests,
        replicas: Replicas,
        store: RemoteStore,
        world: World,
        *,
        log_dir: str,
        on_arrival: Callable[[TopicPartition], None],
    ) -> None:
        self.store = store
        self._image = image
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remote-log")
        self._metadata = RemoteMetadata(
            config,
            image,
            controller,
            world,
            held=lambda: self.tiering.held(),
            on_change=self._changed,
        )
        replicas.around.has_remote_records = lambda: self._metadata.reading.topic is not None
        rounds = TierRounds(
            self._metadata,
            store,
            Teller(config.node_id, world.clock.now_ms),
            loop=world.loop,
            bytes_per_second=lambda: config.int("remote.log.manager.copy.max.bytes.per.second"),
            executor=self._executor,
        )
        self.tiering = Tiering(rounds, replicas=replicas, config=config, loop=world.loop, rng=world.rng)
        self._deleted = DeletedTopics(
            self._metadata,
            rounds,
            image,
            controller,
            loop=world.loop,
            interval_s=lambda: config.int("remote.log.manager.task.interval.ms") / 1000,
        )
        self.reading = RemoteReading(
            config,
            store,
            self.logs,
            disk=world.disk,
            log_dir=log_dir,
            loop=world.loop,
            on_arrival=on_arrival,
        )
        self._index_upkeep = IndexUpkeep(
            self.reading.indexes,
            self.logs,
            held=self.tiering.held,
            loop=world.loop,
            executor=self._executor,
            interval_s=lambda: config.int("remote.log.manager.task.interval.ms") / 1000,
        )

    @property
    def logs(self) -> RemoteLogs:
        return self._metadata.logs

    def start(self) -> None:
        self._metadata.start()
        self.tiering.start()
        self._deleted.start()
        self._index_upkeep.start()

    def follow(self, delta: Delta) -> None:
        """The cluster has changed."""
        if delta.topics_deleted or delta.topics_changed or delta.topic_configs_changed:
            self._metadata.look_soon()
        for topic_id, numbers in delta.topics_changed.items():
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                for number in numbers:
                    self.tiering.note_leader(TopicPartition(topic.name, number))
        if delta.topic_configs_changed:
            self.tiering.look_soon()
        if delta.topics_deleted or delta.topics_changed or delta.topic_configs_changed:
            self._deleted.note()
        if delta.topics_deleted or delta.configs_changed:
            self._index_upkeep.note()

    async def stop(self) -> None:
        """Give up what is under way, and return once no thread works on it any more."""
        self._halt()
        await self.tiering.stop()
        await self._deleted.stop()
        self._executor.shutdown(wait=False)
        self.store.close()

    def abandon(self) -> None:
        """A start that failed: nothing is under way."""
        self._halt()
        self._executor.shutdown(wait=False)

    def _halt(self) -> None:
        self._index_upkeep.stop()
        self.reading.close()
        self.tiering.abandon()
        self._deleted.abandon()
        self._metadata.stop()

    def _changed(self, partition: TopicIdPartition) -> None:
        self.tiering.note(partition)
