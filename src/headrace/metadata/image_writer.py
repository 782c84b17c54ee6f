"""The image as records, and the version each record is written in: replaying them into an empty image makes
an equal one (Kafka's ImageWriter).

The order is Kafka's: features first, for the rest is read by their rules; nodes before topics, topics
before settings. Metadata records only: the header, voters and footer around them are raft's.

A record is read in any version we know. It is written in the version that the whole cluster is known to
read, and where Kafka picks the least version that can hold a record's content we pick the same, so that
equal decisions make equal logs.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.metadata.brokers import register_broker_records, register_controller_record
from headrace.metadata.features import CORDONS_FROM, ELR_VERSION, METADATA_VERSION
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.metadata.topics import record_of
from headrace.wire.record_frames import ApiMessageAndVersion
from headrace.wire.schemas.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

DIRECTORIES_FROM: Final = 17
"""3.7-IV2: replicas are assigned to directories (KIP-858)."""


ZK_FLAG_FROM: Final = 8
"""3.4-IV0: registrations carry the flag of brokers that migrated from ZooKeeper."""

OF_PARTITIONS: Final = frozenset({PartitionRecord, PartitionChangeRecord})
"""Records that come by the hundred thousand; their version depends on nothing but the levels."""


def record_version(record: MetadataRecord, features: dict[str, int]) -> int:
    """The version to write `record` in. Kinds of record that only ever had one version answer 0."""
    level = features.get(METADATA_VERSION, 0)
    if type(record) in OF_PARTITIONS:
        if features.get(ELR_VERSION, 0):
            return 2
        return 1 if level >= DIRECTORIES_FROM else 0
    if isinstance(record, RegisterBrokerRecord):
        if level >= CORDONS_FROM:
            return 4
        return 3 if level >= DIRECTORIES_FROM else 2 if level >= ZK_FLAG_FROM else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    return 0


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """All of the image, one record at a time; the image must not change meanwhile (see
    `MetadataImage.copy`).
    """
    assert not image.in_transaction, "half a transaction cannot be told in a snapshot"
    yield from _features(image)
    for broker in image.brokers.values():
        yield from register_broker_records(broker)
    for controller in image.controllers.values():
        yield register_controller_record(controller)
    for topic in image.topics_by_name.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield record_of(topic.id, index, partition)
    for key, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=key.resource_type, resource_name=key.name, name=name, value=value
            )
    security = image.security
    yield from security.quotas.values()
    if image.producer_ids is not None:
        yield image.producer_ids
    yield from security.acls.values()
    yield from security.scram.values()
    yield from security.tokens.values()


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    """metadata.version leads: a reader must know it before any other record."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def versioned(records: Iterable[MetadataRecord], features: dict[str, int]) -> Iterator[ApiMessageAndVersion]:
    """Each record in the version that holds at its place: a change of a level counts for what follows it."""
    levels = dict(features)
    of_partitions = record_version(PartitionRecord(), levels)
    for record in records:
        kind = type(record)
        if kind in OF_PARTITIONS:
            yield ApiMessageAndVersion(record, of_partitions)
            continue
        if kind is FeatureLevelRecord:
            levels[record.name] = record.feature_level
            of_partitions = record_version(PartitionRecord(), levels)
        yield ApiMessageAndVersion(record, record_version(record, levels))


def entries_of_image(image: MetadataImage) -> Iterator[ApiMessageAndVersion] | None:
    """A snapshot of an image as it is now; None in the middle of a metadata transaction."""
    if image.in_transaction:
        return None
    frozen = image.copy()
    return versioned(snapshot_records(frozen), frozen.features)
