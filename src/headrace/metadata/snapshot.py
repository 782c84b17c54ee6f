"""The image as records: replaying them into an empty image makes an equal one.

The order is Kafka's: features first, for the rest is read by their rules; nodes before topics, topics
before settings. Metadata records only: the header, voters and footer around them are raft's.
"""

from collections.abc import Iterator

from headrace.metadata.brokers import register_broker_records, register_controller_record
from headrace.metadata.features import METADATA_VERSION
from headrace.metadata.image import ClusterImage, MetadataRecord
from headrace.metadata.topics import record_of
from headrace.wire.schemas.metadata_records import ConfigRecord, FeatureLevelRecord, TopicRecord


def snapshot_records(image: ClusterImage) -> Iterator[MetadataRecord]:
    """All of the image, one record at a time; the image must not change meanwhile (see
    `ClusterImage.copy`).
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


def _features(image: ClusterImage) -> Iterator[MetadataRecord]:
    """metadata.version leads: a reader must know it before any other record."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
