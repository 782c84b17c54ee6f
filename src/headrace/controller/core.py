"""The controller's mind: one image, one decision at a time, and the records of each replayed before the next.

The image here is ahead of what brokers see: a decision rests on all that were decided before it, committed
or not. That is safe because replies wait for the commit, and a controller whose writing fails never decides
again: what it thought is thrown away with it.
"""

from collections.abc import Sequence

from headrace.controller.activation import activate
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision
from headrace.controller.sessions import Sessions
from headrace.metadata.image import ClusterImage, MetadataRecord
from headrace.metadata.resources import ResourceType
from headrace.settings.broker_config import BrokerConfig


class ControllerCore:
    """What decisions are made on: `cluster` is the state of the log, `sessions` is who is alive.
    `committed` is the image that follows the same log, but what is committed only."""

    def __init__(
        self, cluster_id: str, config: BrokerConfig, *, committed: ClusterImage | None = None
    ) -> None:
        self._config = config
        self.node_id = config.node_id
        self.own_incarnation_id = b""
        """Of the broker in this process; none while it has not registered."""
        self.sessions = Sessions(config.int("broker.session.timeout.ms"))
        self.image = ClusterImage(cluster_id, indexed=True, like=committed)
        self.cluster = Cluster(self.image, config)

    def empty_image(self) -> ClusterImage:
        """To be filled with a snapshot's records, for `start_over`."""
        return ClusterImage(self.image.cluster_id, indexed=True, like=self.image)

    def start_over(self, image: ClusterImage, kraft_version: int) -> None:
        """Forget everything, and begin with this."""
        image.kraft_version, image.controller_id = kraft_version, self.image.controller_id
        self.image = image
        self.cluster = Cluster(image, self._config)

    def restore(self, committed: ClusterImage) -> None:
        """Forget what was decided and never committed: begin again with what is."""
        self.image = committed.copy(indexed=True)
        self.cluster = Cluster(self.image, self._config)

    def replay(self, records: Sequence[MetadataRecord]) -> None:
        """Change the image as these records say."""
        delta = self.image.replay_all(records)
        if any(key.resource_type == ResourceType.BROKER for key in delta.configs_changed):
            self.cluster.follow_settings()

    def activate(self, bootstrap: Sequence[MetadataRecord], now_ms: int) -> Decision[None]:
        """Become active. Every unfenced broker gets a session, but for one that ran on this very node before
        this process did: that died, and its successor must not wait for it."""
        self.sessions = Sessions(self.sessions.timeout_ms)
        for broker in self.image.brokers.values():
            is_own = broker.id == self.node_id and broker.incarnation_id != self.own_incarnation_id
            if not broker.fenced and not is_own:
                self.sessions.begin(broker.id, now_ms)
        return activate(self.cluster, bootstrap)
