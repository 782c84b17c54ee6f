"""RemoteLogManager: a broker's part in the remote log, as in Kafka.

It joins the tasks of tiered partitions (`tasks`), the metadata of remote segments (`metadata_manager`), and
the clean-up after deleted topics and of the index cache. Reading (`remote_reading`) exists before it, for the
server and the replica fetchers use that without it.

Only a broker with `remote.log.storage.system.enable` has one. What blocks on the store runs in threads of its
own, so that a slow store keeps nothing else waiting. How many there are is counted by who gives them work,
for the settings can change while the node runs.
"""

from concurrent.futures import ThreadPoolExecutor

from headrace.base.ids import TopicPartition
from headrace.controller.drivers.controller import Controller
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.remote_log.deleted_topics import DeletedTopics
from headrace.remote_log.expiration import OrphanSweep
from headrace.remote_log.metadata_manager import TopicBasedRemoteLogMetadataManager
from headrace.remote_log.remote_reading import THREADS_MAX, IndexUpkeep, RemoteReading
from headrace.remote_log.steps import Publisher, StepRunner
from headrace.remote_log.tasks import RemoteLogTasks
from headrace.replication.replica_manager import ReplicaManager
from headrace.server.environment import NodeEnvironment
from headrace.settings.broker_config import BrokerConfig


class RemoteLogManager:
    """Started once the broker is registered; `follow` tells it of every change of the cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        controller: Controller,
        replicas: ReplicaManager,
        reading: RemoteReading,
        world: NodeEnvironment,
    ) -> None:
        self.reading = reading
        self.logs = reading.logs
        self._image = image
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remote-log")
        self._metadata = TopicBasedRemoteLogMetadataManager(
            config,
            image,
            controller,
            self.logs,
            world,
            held=lambda: self.tasks.held(),
            on_change=lambda partition: self.tasks.note(partition),
        )
        runner = StepRunner(
            self._metadata,
            reading.store,
            Publisher(config.node_id, world.clock.now_ms),
            loop=world.loop,
            bytes_per_second=lambda: config.int("remote.log.manager.copy.max.bytes.per.second"),
            executor=self._executor,
        )
        self.runner = runner
        sweep = OrphanSweep(runner)

        def interval_s() -> float:
            return config.int("remote.log.manager.task.interval.ms") / 1000

        self.tasks = RemoteLogTasks(
            runner, sweep, replicas=replicas, config=config, loop=world.loop, rng=world.rng
        )
        self._deleted = DeletedTopics(
            self._metadata,
            runner,
            sweep,
            image,
            controller,
            loop=world.loop,
            interval_s=interval_s,
        )
        self._index_upkeep = IndexUpkeep(
            reading.indexes,
            self.logs,
            held=self.tasks.held,
            loop=world.loop,
            executor=self._executor,
            interval_s=interval_s,
        )

    def start(self) -> None:
        self._metadata.start()
        self.tasks.start()
        self._deleted.start()
        self._index_upkeep.start()

    def follow(self, delta: MetadataDelta) -> None:
        """The cluster has changed."""
        are_topics_new = delta.topics_deleted or delta.topics_changed or delta.topic_configs_changed
        if are_topics_new:
            self._metadata.look_soon()
        for topic_id, numbers in delta.topics_changed.items():
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                for number in numbers:
                    self.tasks.note_leader(TopicPartition(topic.name, number))
        if delta.topic_configs_changed:
            self.tasks.look_soon()
        if are_topics_new:
            self._deleted.note()
        if delta.topics_deleted or delta.configs_changed:
            self._index_upkeep.note()

    async def stop(self) -> None:
        """Give up what is under way, and return once no thread works on it any more."""
        self._halt()
        await self.tasks.stop()
        await self._deleted.stop()
        self._executor.shutdown(wait=False)
        self.reading.store.close()

    def abandon(self) -> None:
        """A start that failed: nothing is under way."""
        self._halt()
        self._executor.shutdown(wait=False)

    def _halt(self) -> None:
        self._index_upkeep.stop()
        self.reading.close()
        self.tasks.abandon()
        self._deleted.abandon()
        self._metadata.stop()
