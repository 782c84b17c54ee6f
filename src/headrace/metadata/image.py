"""The cluster's picture.

`MetadataImage` is changed by one thing only: replaying records of the metadata log, in order. The same code
runs live, at start-up and in a follower, so equal logs make equal images. Every aspect has a file of its
own; this one joins them and sends each record to its place.

Records between a BeginTransactionRecord and its end are held back and replayed together at the end, or
dropped at an abort (KIP-868), so nobody sees half a change that was too large for one batch.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_LEADER, TopicId
from headrace.metadata.brokers import BrokerRegistration, ClusterImage, ControllerRegistration
from headrace.metadata.config_resource import ConfigKey, ResourceType
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.features import KRAFT_VERSION, METADATA_VERSION
from headrace.metadata.security import SecurityTables
from headrace.metadata.topics import PartitionImage, TopicImage, TopicsImage
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.metadata_records import ConfigRecord

MetadataRecord: TypeAlias = Any
"""One of the classes in `wire.schemas.metadata_records`."""

Configs = dict[ConfigKey, dict[str, str]]
"""Settings kept in the metadata log, of topics, brokers, groups and client metrics: overrides only."""


class MetadataImage:
    """Topics, brokers, settings, features, producer ids and security entries, as of `offset` (-1: nothing
    yet). `indexed` is for a controller, which asks what each broker holds. An image that is told the same
    log as another may be made `like` it: what is equal is then in memory once.
    """

    def __init__(
        self, cluster_id: str = "", *, indexed: bool = False, like: "MetadataImage | None" = None
    ) -> None:
        self.cluster_id = cluster_id
        self.controller_id = NO_LEADER
        self.offset = -1
        self.epoch = 0
        self.timestamp_ms = -1
        self.kraft_version = 0
        self.topics: TopicsImage = TopicsImage(indexed=indexed, like=None if like is None else like.topics)
        self.topics_by_name: dict[str, TopicImage] = self.topics.by_name
        self.topics_by_id: dict[TopicId, TopicImage] = self.topics.by_id
        self.nodes = ClusterImage()
        self.brokers: dict[int, BrokerRegistration] = self.nodes.brokers
        self.controllers: dict[int, ControllerRegistration] = self.nodes.controllers
        self.configs: Configs = {}
        self.features: dict[str, int] = {}
        self.producer_ids: wire.ProducerIdsRecord | None = None
        self.security = SecurityTables()
        self._held: list[MetadataRecord] | None = None
        self._replays = self._replay_table()

    @property
    def next_producer_id(self) -> int:
        """The first producer id that no broker was given yet."""
        return 0 if self.producer_ids is None else self.producer_ids.next_producer_id

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 before the bootstrap records were replayed."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def in_transaction(self) -> bool:
        """Whether records are held back: the image is then older than `offset` says and must not be
        snapshotted.
        """
        return self._held is not None

    def finalized_features(self) -> dict[str, int]:
        """What ApiVersions tells: the levels in force, with the quorum's own, which the log keeps in
        control records.
        """
        return self.features | ({KRAFT_VERSION: self.kraft_version} if self.kraft_version else {})

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics_by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    def config_of(self, resource_type: int, name: str) -> dict[str, str]:
        """The overrides of a resource: not to be changed by the caller."""
        return self.configs.get(ConfigKey(resource_type, name), {})

    def topic_config_of(self, name: str) -> dict[str, str]:
        return self.config_of(ResourceType.TOPIC, name)

    def replay(self, record: MetadataRecord, delta: MetadataDelta | None = None) -> None:
        """Take one record in; what it changed is noted in `delta`."""
        if self._held is not None and type(record) not in _ENDS_OF_TRANSACTION:
            self._held.append(record)
            return
        try:
            replay = self._replays[type(record)]
        except KeyError:
            raise InvalidBytesError(
                f"{type(record).__name__} is not a metadata record this node knows"
            ) from None
        try:
            replay(record, MetadataDelta() if delta is None else delta)
        except KeyError as error:
            raise InvalidBytesError(
                f"{record} refers to {error}, which the metadata log does not have"
            ) from error

    def replay_all(self, records: Iterable[MetadataRecord]) -> MetadataDelta:
        """Take several records in, and tell what they changed together."""
        delta = MetadataDelta()
        for record in records:
            self.replay(record, delta)
        return delta

    def mark(self, *, offset: int, epoch: int, timestamp_ms: int) -> None:
        """Note how far the log has been replayed."""
        self.offset = offset
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms

    def clear(self) -> None:
        """Forget everything the log said; tables that others hold on to are emptied, not replaced."""
        self.topics.clear()
        for table in self._tables():
            table.clear()
        self.producer_ids = None
        self._held = None

    def _tables(self) -> tuple[dict[Any, Any], ...]:
        """All but those of topics."""
        return (
            *(self.brokers, self.controllers, self.configs, self.features),
            *(self.security.acls, self.security.scram, self.security.quotas, self.security.tokens),
        )

    def take_over(self, other: "MetadataImage") -> None:
        """Become what another image says, which nobody uses any more; the tables stay the same objects."""
        self.clear()
        self.topics.take_over(other.topics)
        for table, filled in zip(self._tables(), other._tables(), strict=True):
            table.update(filled)
        self.producer_ids = other.producer_ids
        self._held = other._held

    def copy(self, *, indexed: bool = False) -> "MetadataImage":
        """A picture of now that later replays do not touch. Cheap: what never changes is shared."""
        twin = MetadataImage(self.cluster_id, indexed=indexed)
        twin.controller_id, twin.kraft_version = self.controller_id, self.kraft_version
        twin.mark(offset=self.offset, epoch=self.epoch, timestamp_ms=self.timestamp_ms)
        twin.topics = self.topics.copy(indexed=indexed)
        twin.topics_by_name, twin.topics_by_id = twin.topics.by_name, twin.topics.by_id
        twin.brokers.update(self.brokers)
        twin.controllers.update(self.controllers)
        twin.configs.update((key, dict(values)) for key, values in self.configs.items())
        twin.features.update(self.features)
        twin.producer_ids = self.producer_ids
        twin.security = self.security.copy()
        twin._held = None if self._held is None else list(self._held)
        twin._replays = twin._replay_table()
        return twin

    def _replay_table(self) -> dict[type, Callable[[Any, MetadataDelta], None]]:
        topics, nodes, security = self.topics, self.nodes, self.security
        return {
            wire.TopicRecord: topics.replay_topic,
            wire.PartitionRecord: topics.replay_partition,
            wire.PartitionChangeRecord: topics.replay_partition_change,
            wire.RemoveTopicRecord: self._replay_remove_topic,
            wire.ClearElrRecord: topics.replay_clear_elr,
            wire.RegisterBrokerRecord: nodes.replay_register_broker,
            wire.UnregisterBrokerRecord: nodes.replay_unregister_broker,
            wire.BrokerRegistrationChangeRecord: nodes.replay_registration_change,
            wire.FenceBrokerRecord: nodes.replay_fence,
            wire.UnfenceBrokerRecord: nodes.replay_unfence,
            wire.RegisterControllerRecord: nodes.replay_register_controller,
            wire.ConfigRecord: self._replay_config,
            wire.FeatureLevelRecord: self._replay_feature,
            wire.ProducerIdsRecord: self._replay_producer_ids,
            wire.AccessControlEntryRecord: security.replay_acl,
            wire.RemoveAccessControlEntryRecord: security.replay_remove_acl,
            wire.UserScramCredentialRecord: security.replay_scram,
            wire.RemoveUserScramCredentialRecord: security.replay_remove_scram,
            wire.ClientQuotaRecord: security.replay_quota,
            wire.DelegationTokenRecord: security.replay_token,
            wire.RemoveDelegationTokenRecord: security.replay_remove_token,
            wire.BeginTransactionRecord: self._replay_begin,
            wire.EndTransactionRecord: self._replay_end,
            wire.AbortTransactionRecord: self._replay_abort,
            wire.NoOpRecord: _pass_over,
            wire.ZkMigrationStateRecord: _pass_over,
        }

    def _replay_remove_topic(self, record: wire.RemoveTopicRecord, delta: MetadataDelta) -> None:
        name = self.topics.by_id[TopicId(record.topic_id)].name
        self.topics.replay_remove_topic(record, delta)
        drop_topic_configs(self.configs, name)

    def _replay_config(self, record: wire.ConfigRecord, delta: MetadataDelta) -> None:
        replay_config(self.configs, record, delta)

    def _replay_feature(self, record: wire.FeatureLevelRecord, delta: MetadataDelta) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        delta.features_changed.add(record.name)

    def _replay_producer_ids(self, record: wire.ProducerIdsRecord, delta: MetadataDelta) -> None:
        self.producer_ids = record
        delta.producer_ids_changed = True

    def _replay_begin(self, _record: wire.BeginTransactionRecord, _delta: MetadataDelta) -> None:
        self._held = []

    def _replay_end(self, _record: wire.EndTransactionRecord, delta: MetadataDelta) -> None:
        held, self._held = self._held, None
        if held is None:
            raise InvalidBytesError("the metadata log ends a transaction that it did not begin")
        for record in held:
            self.replay(record, delta)

    def _replay_abort(self, _record: wire.AbortTransactionRecord, _delta: MetadataDelta) -> None:
        if self._held is None:
            raise InvalidBytesError("the metadata log aborts a transaction that it did not begin")
        self._held = None


_ENDS_OF_TRANSACTION = frozenset({wire.EndTransactionRecord, wire.AbortTransactionRecord})


def _pass_over(_record: MetadataRecord, _delta: MetadataDelta) -> None:
    """For records that say nothing about the cluster any more, or never did."""


def replay_config(configs: Configs, record: ConfigRecord, delta: MetadataDelta) -> None:
    """Set or, where the value is null, remove one setting; a resource without settings leaves the table."""
    key = ConfigKey(record.resource_type, record.resource_name)
    if record.value is not None:
        configs.setdefault(key, {})[record.name] = record.value
    elif key in configs:
        configs[key].pop(record.name, None)
        if not configs[key]:
            del configs[key]
    delta.configs_changed.add(key)


def drop_topic_configs(configs: Configs, topic: str) -> None:
    """A removed topic takes its settings with it; the log has no record of their own for that."""
    configs.pop(ConfigKey(ResourceType.TOPIC, topic), None)
