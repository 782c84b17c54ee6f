"""Followers of the image are told of everything once, then of what changes, and of a snapshot that replaces
it all.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.base.ids import TopicId
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.metadata.image_writer import record_version
from headrace.metadata.metadata_loader import MetadataLoader, everything_in
from headrace.raft.drivers.raft_client import Commit
from headrace.raft.snapshots import Snapshot, SnapshotId
from headrace.wire.schemas import metadata_records as wire

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def topic(name: str, topic_id: TopicId) -> list[Any]:
    return [
        wire.TopicRecord(name=name, topic_id=topic_id),
        wire.PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1),
        wire.ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="1"),
    ]


def commit(offset: int, *records: Any) -> Commit:
    return Commit(offset, offset, 1, 1000 + offset, records, size=10)


@dataclass
class Seen:
    deltas: list[MetadataDelta] = field(default_factory=list)

    def __call__(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.deltas.append(delta)


def test_a_follower_hears_of_everything_and_then_of_changes() -> None:
    metadata_loader = MetadataLoader(MetadataImage())
    metadata_loader.handle_commit(commit(1, *topic("a", A)))
    seen = Seen()
    metadata_loader.follow(seen)
    assert seen.deltas[0].topics_created == {A}
    assert seen.deltas[0].partitions_changed(A) == {0}
    assert seen.deltas[0].topic_configs_changed == {"a"}
    metadata_loader.handle_commit(commit(2, wire.NoOpRecord()))
    assert len(seen.deltas) == 1, "nothing happened"
    assert (metadata_loader.image.offset, metadata_loader.image.timestamp_ms) == (2, 1002)
    metadata_loader.handle_commit(commit(3, *topic("b", B)))
    assert seen.deltas[1].topics_created == {B}
    metadata_loader.handle_leader_change(7, 2)
    assert metadata_loader.image.controller_id == 7


def test_a_snapshot_replaces_everything_in_the_same_tables() -> None:
    image = MetadataImage()
    metadata_loader = MetadataLoader(image)
    seen = Seen()
    metadata_loader.follow(seen)
    names = image.topics_by_name
    metadata_loader.handle_commit(
        commit(
            *(1, *topic("a", A), wire.FeatureLevelRecord(name="x", feature_level=1)),
            wire.ClientQuotaRecord([wire.EntityData("user", None)], "producer_byte_rate", 5.0),
        )
    )
    snapshot = Snapshot(SnapshotId(10, 3), 5000, kraft_version=1)
    for record in topic("b", B):
        metadata_loader.prepare(snapshot, [record])
        assert list(names) == ["a"], "the old image serves until the new one is whole"
    metadata_loader.handle_load_snapshot(snapshot)
    delta = seen.deltas[-1]
    assert [gone.name for gone in delta.topics_deleted] == ["a"]
    assert delta.topics_created == {B}
    assert delta.topic_configs_changed == {"a", "b"}
    assert delta.features_changed == {"x"}
    assert delta.security_changed == {"quotas"}, "there are none any more"
    assert list(names) == ["b"], "whoever held on to the table sees the new content"
    assert (image.offset, image.epoch, image.kraft_version) == (9, 3, 1)
    assert image.topics.collides_with("a_") is None


def test_everything_in_an_image_counts_as_changed_for_a_newcomer() -> None:
    image = MetadataImage()
    assert not everything_in(image)
    image.replay_all(
        [
            wire.ProducerIdsRecord(next_producer_id=5),
            wire.AccessControlEntryRecord(id=b"i" * 16),
            wire.FeatureLevelRecord(name="x", feature_level=1),
        ]
    )
    delta = everything_in(image)
    assert delta.producer_ids_changed
    assert delta.security_changed == {"acls"}
    assert delta.features_changed == {"x"}


def test_records_are_written_in_versions_that_the_cluster_agreed_on() -> None:
    register, partition, change = (
        wire.RegisterBrokerRecord(),
        wire.PartitionRecord(),
        wire.PartitionChangeRecord(),
    )
    levels = {7: (1, 0, 0), 8: (2, 0, 0), 17: (3, 1, 1), 29: (3, 1, 1), 30: (4, 1, 1)}
    for level, versions in levels.items():
        features = {"metadata.version": level}
        assert tuple(record_version(r, features) for r in (register, partition, change)) == versions
    elr = {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    assert record_version(partition, elr) == record_version(change, elr) == 2
    changes = [
        (wire.BrokerRegistrationChangeRecord(fenced=1), 0),
        (wire.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 1),
        (wire.BrokerRegistrationChangeRecord(log_dirs=[b"d" * 16]), 2),
        (wire.BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), 3),
        (wire.TopicRecord(), 0),
    ]
    assert [record_version(record, elr) for record, _ in changes] == [version for _, version in changes]
