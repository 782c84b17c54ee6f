"""All partitions with a replica on this node, kept equal to the metadata log.

The table has two keys because requests name topics by name (older versions) or by id. A request that names
an id this node does not know gets UNKNOWN_TOPIC_ID, and one that names a topic made anew under the same
name INCONSISTENT_TOPIC_ID: a deleted topic's clients never write into its successor.
"""

import logging
from collections.abc import Callable, Iterator

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.replication.partition import Partition
from headrace.settings.topic import TopicConfig

logger = logging.getLogger(__name__)


class Replicas:
    """The partitions of this node. `topic_config` gives a topic's settings as they are now."""

    def __init__(
        self,
        *,
        node_id: int,
        store: LogStore,
        topic_config: Callable[[str], TopicConfig],
        on_advance: Callable[[TopicPartition], None],
    ) -> None:
        self._node_id = node_id
        self._store = store
        self._topic_config = topic_config
        self._on_advance = on_advance
        self._partitions: dict[TopicPartition, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def find(self, topic: str, partition: int, topic_id: TopicId = NO_TOPIC_ID) -> Partition:
        """The replica here, whoever leads; ApiError where there is none."""
        found = self._partitions.get(TopicPartition(topic, partition))
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_id != NO_TOPIC_ID and topic_id != found.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return found

    def apply(self, image: ClusterImage, delta: Delta) -> None:
        """Follow one commit of the metadata log: first what went, then what came or changed."""
        for topic in delta.topics_deleted:
            self._drop_topic(topic)
        for topic_id in delta.topics_changed:
            topic_image = image.topics_by_id.get(topic_id)
            if topic_image is not None:
                self._follow_topic(topic_image, delta.partitions_changed(topic_id))
        for name in delta.topic_configs_changed:
            self._follow_config(name)

    def follow_all_configs(self) -> None:
        """After a change of broker settings that topics inherit from."""
        for name in {topic_partition.topic for topic_partition in self._partitions}:
            self._follow_config(name)

    def _follow_config(self, name: str) -> None:
        config = self._topic_config(name)
        for topic_partition, partition in self._partitions.items():
            if topic_partition.topic == name and partition.log is not None:
                partition.log.config = config

    def _drop_topic(self, topic: TopicImage) -> None:
        for index in topic.partitions:
            topic_partition = TopicPartition(topic.name, index)
            partition = self._partitions.get(topic_partition)
            if partition is None or partition.topic_id != topic.id:
                continue
            del self._partitions[topic_partition]
            if partition.log is not None:
                self._store.delete(topic_partition)
            self._on_advance(topic_partition)

    def _follow_topic(self, topic: TopicImage, indexes: set[int]) -> None:
        for index in sorted(indexes):
            partition_image = topic.partitions[index]
            if self._node_id in partition_image.replicas:
                self._follow_partition(topic, index, partition_image)

    def _follow_partition(self, topic: TopicImage, index: int, image: PartitionImage) -> None:
        topic_partition = TopicPartition(topic.name, index)
        partition = self._partitions.get(topic_partition)
        if partition is None:
            partition = Partition(
                topic_partition,
                topic.id,
                self._open_log(topic_partition, topic.id),
                node_id=self._node_id,
                on_advance=self._on_advance,
            )
            self._partitions[topic_partition] = partition
        partition.follow_metadata(image)

    def _open_log(self, topic_partition: TopicPartition, topic_id: TopicId) -> PartitionLog | None:
        """The log on disk, made where it is missing; None where no directory can hold it."""
        found = self._store.get(topic_partition)
        if found is not None:
            return found
        try:
            return self._store.create(topic_partition, topic_id, self._topic_config(topic_partition.topic))
        except ApiError as error:
            logger.error("cannot make the log of %s: %s", topic_partition, error)
            return None
