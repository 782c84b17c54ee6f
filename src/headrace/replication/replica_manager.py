"""All partitions with a replica on this node, kept equal to the metadata log.

The table has two keys because requests name topics by name (older versions) or by id. A request that names
an id this node does not know gets UNKNOWN_TOPIC_ID, and one that names a topic created again under the same
name INCONSISTENT_TOPIC_ID: a deleted topic's clients never write into its successor. A partition that only
other nodes hold is NOT_LEADER_OR_FOLLOWER, one that nobody holds UNKNOWN_TOPIC_OR_PARTITION.

A log is made where the cluster says it lies, or in the directory with the fewest, which is then told to the
controller (KIP-858): when a directory fails, the controller must know which replicas went with it. A log
that may lie in a directory that is offline is never created again elsewhere: an empty log that leads would be
the end of all its records.
"""

import logging
from collections.abc import Callable, Iterator, Mapping

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.directory_id import LOST, is_reserved
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.replication.follower_log import fetch_missing
from headrace.replication.leader_state import ReplicaContext
from headrace.replication.partition import Partition
from headrace.replication.state_changes import StateChanges
from headrace.settings.topic import TopicConfig
from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicStats

logger = logging.getLogger(__name__)

OnPlaced = Callable[[TopicId, int, bytes], None]
"""A replica, by its topic's id and its number, lies in another directory than the cluster believes."""

OnFollow = Callable[[Partition], None]
"""A partition has another leader, epoch or place than before, or (nobody leads it) is not here any more."""


class ReplicaManager:
    """The partitions of this node. `topic_config` gives a topic's settings as they are now."""

    def __init__(
        self,
        *,
        node_id: int,
        store: LogManager,
        topic_config: Callable[[str], TopicConfig],
        on_advance: Callable[[TopicPartition], None],
        on_placed: OnPlaced = lambda topic_id, index, directory_id: None,
        request_flush: Callable[[UnifiedLog], None] = UnifiedLog.want_flush,
        context: ReplicaContext | None = None,
        on_follow: OnFollow = lambda partition: None,
        wanted_directory: Callable[[TopicPartition], bytes | None] = lambda topic_partition: None,
        on_unmade: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self._on_unmade = on_unmade
        self._node_id = node_id
        self._store = store
        self._topic_config = topic_config
        self._on_advance = on_advance
        self._on_placed = on_placed
        self._request_flush = request_flush
        self.context = context or ReplicaContext()
        self._on_follow = on_follow
        # Where a replica that is about to be made was asked to be, by AlterReplicaLogDirs.
        self._wanted_directory = wanted_directory
        self._withheld: set[Partition] = set()
        # By TopicPartition; a plain tuple finds the same, and is made in a third of the time.
        self._partitions: dict[tuple[str, int], Partition] = {}
        # All topics of the cluster, by name.
        self._topics: Mapping[str, TopicImage] = {}
        self.state_changes = StateChanges(node_id)
        self.topic_stats = BrokerTopicStats()
        # Led by the process before this one, as far as the metadata log tells yet.
        self._led_before: dict[tuple[TopicId, int], None] = {}
        # Whose logs have lost records.
        self._missing: dict[Partition, None] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def find(self, topic: str, partition: int, topic_id: TopicId = NO_TOPIC_ID) -> Partition:
        """The replica here, whoever leads; ApiError where there is none."""
        found = self._partitions.get((topic, partition))
        if found is None:
            raise self._no_replica(topic, partition)
        if topic_id != NO_TOPIC_ID and topic_id != found.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return found

    def _no_replica(self, topic: str, partition: int) -> ApiError:
        """Why there is none here. A client that asks for a partition which others hold has an old picture:
        it shall look for the leader, not believe that its topic is gone.
        """
        known = self._topics.get(topic)
        held_elsewhere = known is not None and partition in known.partitions
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER if held_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    def apply(
        self, image: MetadataImage, delta: MetadataDelta, *, starting: bool = False, registered: bool = True
    ) -> None:
        """Follow one commit of the metadata log: first what went, then what came or changed.

        While the node is `starting`, partitions are old: one without a log may have it in a directory that is
        offline. Until this process is `registered` in the image, it leads nothing: the epochs are those of
        the process before, whose log may have been longer. Would one of them begin again at another offset,
        this replica and its next leader could not find out where they part.
        """
        self._topics = image.topics_by_name
        for topic in delta.topics_deleted:
            for index in topic.partitions:
                self._drop(topic, index)
        for topic_id in delta.topics_changed:
            topic_image = image.topics_by_id.get(topic_id)
            if topic_image is not None:
                for index in sorted(delta.partitions_changed(topic_id)):
                    if self._node_id in topic_image.partitions[index].replicas:
                        self._follow_partition(topic_image, index, starting, registered)
                    else:
                        self._drop(topic_image, index)
        for name in delta.topic_configs_changed:
            self._follow_config(name)
        if registered and self._led_before:
            self._lead_as_before(image)
        if registered and self._missing:
            self._fetch_missing(image)

    def _lead_as_before(self, image: MetadataImage) -> None:
        """A registration may leave this node its partitions, in the epoch of before."""
        led_before, self._led_before = self._led_before, {}
        for topic_id, index in led_before:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and topic.partitions[index].leader == self._node_id:
                self._follow_partition(topic, index, starting=False, registered=True)

    def maybe_shrink_isr(self) -> None:
        """Of all partitions led here: whose followers lag for too long."""
        now_ms = self._store.clock.monotonic_ms()
        for partition in self._partitions.values():
            if partition.leader_state is not None:
                partition.maybe_shrink_isr(now_ms)

    def follow_all_configs(self) -> None:
        """After a change of broker settings that topics inherit from."""
        for name in {topic for topic, _ in self._partitions}:
            self._follow_config(name)

    def _follow_config(self, name: str) -> None:
        config = self._topic_config(name)
        for (topic, _), partition in self._partitions.items():
            if topic == name and partition.log is not None:
                partition.log.update_config(config)

    def _drop(self, topic: TopicImage, index: int) -> None:
        """The topic is deleted, or this replica of it moved to another node."""
        topic_partition = TopicPartition(topic.name, index)
        partition = self._partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic.id:
            return
        del self._partitions[topic_partition]
        self.topic_stats.leave(topic.name)
        self.state_changes.note_dropped(topic_partition)
        partition.leave()
        self._on_follow(partition)
        if partition.log is not None:
            try:
                self._store.delete(topic_partition)
            except ApiError as error:
                # Its directory is offline by now. When it comes back, nobody will ask for the log.
                logger.error("the log of %s cannot be deleted: %s", topic_partition, error)
        self._on_advance(topic_partition)

    def _follow_partition(self, topic: TopicImage, index: int, starting: bool, registered: bool) -> None:
        image = topic.partitions[index]
        topic_partition = TopicPartition(topic.name, index)
        former = partition = self._partitions.get(topic_partition)
        is_unmade = False
        if partition is not None and self._may_be_made_now(partition, image):
            partition.leave()
            self._on_follow(partition)
            partition = None
        if partition is None:
            partition = Partition(
                topic_partition,
                topic.id,
                self._open_log(topic_partition, topic.id, image, starting),
                node_id=self._node_id,
                on_advance=self._on_advance,
                request_flush=self._request_flush,
                context=self.context,
                metrics=self.topic_stats.join(topic.name) if former is None else former.metrics,
            )
            self._partitions[topic_partition] = partition
            is_unmade = partition.log is None and self._has_place(image, starting)
            partition.hold_what_is_not_synced()
        if registered or image.leader != self._node_id:
            before = partition.leader_id, partition.leader_epoch
            partition.follow_metadata(image, self._store.clock.monotonic_ms())
            self.state_changes.note(partition, *before)
        else:
            self._led_before[topic.id, index] = None
        if partition.log is not None and partition.log.missing_from is not None:
            self._missing[partition] = None
        self._on_follow(partition)
        self._report_place(partition, image.directory_of(self._node_id))
        if is_unmade:
            self._on_unmade(partition)

    def _has_place(self, image: PartitionImage, starting: bool) -> bool:
        """Whether a directory is online where a log may be made: then only room was missing."""
        return self._where_to_make(image, starting) is not LOST and bool(self._store.live_log_dirs())

    def make_again(self, partition: Partition) -> bool:
        """There may be room now for a log that could not be made; False where there is not."""
        where = partition.topic_partition
        topic = self._topics.get(where.topic)
        if self._partitions.get(where) is not partition or topic is None or topic.id != partition.topic_id:
            return True
        partition.leave()
        self._on_follow(partition)
        del self._partitions[where]
        self.topic_stats.leave(where.topic)
        self._follow_partition(topic, where.partition, starting=False, registered=True)
        return self._partitions[where].log is not None

    def _fetch_missing(self, image: MetadataImage) -> None:
        """Records that a log has lost are fetched again as soon as there is a leader that has them and nobody
        counts on this replica; while others are in sync, this one steps back for it."""
        for partition in list(self._missing):
            log, topic = partition.log, image.topics_by_id.get(partition.topic_id)
            if log is None or log.missing_from is None or log.failure is not None or topic is None:
                del self._missing[partition]
                continue
            now = topic.partitions[partition.topic_partition.partition]
            if self._node_id in now.isr:
                log.storage.on_missing(log)
            elif now.leader >= 0:
                try:
                    fetch_missing(partition, now_ms=self._store.clock.now_ms())
                except ApiError as error:
                    logger.error("%s: the log cannot be cut: %s", partition.topic_partition, error)

    def _may_be_made_now(self, partition: Partition, image: PartitionImage) -> bool:
        """Whether a log whose directory is gone may begin again, since nobody counts on it now."""
        if partition.log is not None or is_reserved(image.directory_of(self._node_id) or LOST):
            return False
        return self._where_to_make(image, starting=False) is None

    def report_place(self, partition: Partition) -> None:
        """A replica was moved to another directory."""
        self._report_place(partition, None)

    def withhold_place(self, partition: Partition) -> None:
        """Do not tell where a replica lies: its disk is full, and it told that it lies nowhere."""
        self._withheld.add(partition)

    def release_place(self, partition: Partition) -> None:
        """Where it lies may be told again."""
        self._withheld.discard(partition)

    def _report_place(self, partition: Partition, believed: bytes | None) -> None:
        if partition in self._withheld:
            return
        folder = self._store.folder_of(partition.topic_partition)
        if folder is not None and folder.meta is not None and folder.meta.directory_id != believed:
            index = partition.topic_partition.partition
            self._on_placed(partition.topic_id, index, folder.meta.directory_id)

    def _open_log(
        self, topic_partition: TopicPartition, topic_id: TopicId, image: PartitionImage, starting: bool
    ) -> UnifiedLog | None:
        """The log on disk, made where it is missing; None where no directory can hold it."""
        found = self._store.get(topic_partition)
        if found is not None:
            return found
        directory_id = self._where_to_make(image, starting) or self._wanted_directory(topic_partition)
        try:
            if directory_id is LOST:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "it may lie in a directory that is offline or gone"
                )
            config = self._topic_config(topic_partition.topic)
            return self._store.create(topic_partition, topic_id, config, directory_id=directory_id)
        except ApiError as error:
            logger.error("%s has no log: %s", topic_partition, error)
            return None

    def _where_to_make(self, image: PartitionImage, starting: bool) -> bytes | None:
        """The directory that the cluster names, None for any, LOST where the log may lie in a failed one."""
        named = image.directory_of(self._node_id)
        online = self._store.live_log_dirs()
        some_failed = len(online) < len(self._store.log_dirs)
        if named is None or is_reserved(named):
            return LOST if starting and some_failed else None
        if any(folder.meta is not None and folder.meta.directory_id == named for folder in online):
            return named
        # With all of them online, the named one was replaced by an empty disk, or taken out of log.dirs. Who
        # counts as one that has all must not come back with nothing: the controller hears of it first.
        counts = self._node_id in image.isr or self._node_id in image.elr
        return LOST if some_failed or counts else None
