"""The controller's mind: one image, one decision at a time, and the records of each replayed before the next.

The image here is ahead of what brokers see: a decision rests on all that were decided before it, committed
or not. That is safe because replies wait for the commit, and a controller whose writing fails never decides
again: what it thought is thrown away with it.
"""

from collections.abc import Sequence

from headrace.base.ids import TopicId
from headrace.controller.activation import activate
from headrace.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from headrace.controller.cluster_state import ClusterState, DiskRoom
from headrace.controller.controller_result import ControllerResult
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.settings.broker_config import BrokerConfig
from headrace.wire.schemas.metadata_records import PartitionChangeRecord


class ControllerCore:
    """What decisions are made on: `cluster` is the state of the log, `sessions` is who is alive.
    `committed` is the image that follows the same log, but what is committed only. A broker in this process
    registers with the `incarnation_id`."""

    def __init__(
        self,
        cluster_id: str,
        config: BrokerConfig,
        *,
        committed: MetadataImage | None = None,
        incarnation_id: bytes = b"",
        room: DiskRoom = dict,
    ) -> None:
        self._config = config
        self._room = room
        self.node_id = config.node_id
        self._incarnation_id = incarnation_id
        self.sessions = BrokerHeartbeatManager(config.int("broker.session.timeout.ms"))
        self.image = MetadataImage(cluster_id, indexed=True, like=committed)
        self.cluster = ClusterState(self.image, config, room)
        self.unclean_elections = 0

    def empty_image(self) -> MetadataImage:
        """To be filled with a snapshot's records, for `start_over`."""
        return MetadataImage(self.image.cluster_id, indexed=True, like=self.image)

    def start_over(self, image: MetadataImage, kraft_version: int) -> None:
        """Forget everything, and begin with this."""
        image.kraft_version, image.controller_id = kraft_version, self.image.controller_id
        self.image = image
        self.cluster = ClusterState(image, self._config, self._room)

    def restore(self, committed: MetadataImage) -> None:
        """Forget what was decided and never committed: begin again with what is."""
        self.image = committed.copy(indexed=True)
        self.cluster = ClusterState(self.image, self._config, self._room)

    def replay(self, records: Sequence[MetadataRecord]) -> None:
        """Change the image as these records say."""
        self.unclean_elections += sum(
            isinstance(each, PartitionChangeRecord) and self._is_unclean(each) for each in records
        )
        delta = self.image.replay_all(records)
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self.cluster.follow_settings()

    def _is_unclean(self, change: PartitionChangeRecord) -> bool:
        """Whether a leader is chosen that may lack committed records."""
        topic = self.image.topics_by_id.get(TopicId(change.topic_id))
        partition = None if topic is None else topic.partitions.get(change.partition_id)
        if partition is None or change.leader < 0 or change.leader == partition.leader:
            return False
        return change.leader not in partition.isr and change.leader not in partition.elr

    def activate(self, bootstrap: Sequence[MetadataRecord], now_ms: int) -> ControllerResult[None]:
        """Become active. Every unfenced broker gets a session, but for one that ran on this very node before
        this process did: that died, and its successor must not wait for it."""
        self.sessions = BrokerHeartbeatManager(self.sessions.timeout_ms)
        for broker in self.image.brokers.values():
            is_own = broker.id == self.node_id and broker.incarnation_id != self._incarnation_id
            if not broker.fenced and not is_own:
                self.sessions.begin(broker.id, now_ms)
        return activate(self.cluster, bootstrap)
