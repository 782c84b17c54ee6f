"""What decisions read: the image of the cluster, and the settings in force in it."""

from collections.abc import Callable, Mapping

from headrace.metadata.brokers_to_isrs import BrokersToIsrs
from headrace.metadata.config_resource import CLUSTER_DEFAULT, ResourceType
from headrace.metadata.directory_id import MIGRATING, UNASSIGNED, is_online
from headrace.metadata.features import ELR_VERSION
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig, overrides_in_force, resolve_topic_config

DiskRoom = Callable[[], Mapping[int, int]]
"""How many new partitions brokers have room for on their disks, as far as that is known here."""


class ClusterState:
    """The image through the controller's eyes. `config` is the controller's own, with the cluster's changes
    on top.
    """

    def __init__(self, image: MetadataImage, config: BrokerConfig, room: DiskRoom = dict) -> None:
        self.image = image
        self.room = room
        self.config = config.with_dynamic(broker={}, default={})
        self._resolved: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        self.follow_settings()

    def follow_settings(self) -> None:
        """Take on broker settings that changed in the image."""
        own = self.image.config_of(ResourceType.BROKER, str(self.config.int("node.id")))
        default = self.image.config_of(*CLUSTER_DEFAULT)
        self.config.set_dynamic(broker=own, default=default)
        self._resolved.clear()

    def topic_config(self, name: str) -> TopicConfig:
        """A topic's settings in force. Equal overrides share one result: most topics have none."""
        overrides = overrides_in_force(name, self.image.topic_config_of(name))
        key = frozenset(overrides.items())
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = resolve_topic_config(self.config, overrides)
        return found

    @property
    def holdings(self) -> BrokersToIsrs:
        """What each broker holds."""
        holdings = self.image.topics.holdings
        assert holdings is not None, "a controller's image is indexed"
        return holdings

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.get(ELR_VERSION, 0) > 0

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker is there to lead and to be in sync."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_directory(
        self, partition: PartitionImage, broker_id: int, moved_to: bytes | None = None
    ) -> bool:
        """Whether the broker can serve its replica, from where it lies or from where it was moved to."""
        broker = self.image.brokers.get(broker_id)
        directory = partition.directory_of(broker_id) if moved_to is None else moved_to
        return broker is not None and (directory is None or is_online(directory, broker.directories))

    def default_directory(self, broker_id: int) -> bytes:
        """Where a new replica on that broker is said to be: its only directory, or not known yet."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        if not broker.directories:
            return MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED

    def min_insync_replicas(self, topic: TopicImage) -> int:
        """What counts as enough: never more than there are replicas."""
        wanted = self.topic_config(topic.name).min_insync_replicas
        first = topic.partitions.get(0)
        return wanted if first is None else min(wanted, len(first.replicas))
