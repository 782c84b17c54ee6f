"""The image is what its log says, and nothing else: replay, deltas, snapshots."""

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId
from headrace.metadata.config_resource import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.metadata.image_writer import snapshot_records
from headrace.wire.schemas import metadata_records as wire

ORDERS = TopicId(b"o" * 16)
CLICKS = TopicId(b"c" * 16)
HERE = b"d" * 16


def state(image: MetadataImage) -> dict[str, object]:
    """All that a snapshot must keep."""
    return {
        "topics": image.topics_by_name,
        "ids": image.topics_by_id,
        "brokers": image.brokers,
        "controllers": image.controllers,
        "configs": image.configs,
        "features": image.features,
        "producer_ids": image.producer_ids,
        "acls": image.security.acls,
        "scram": image.security.scram,
        "quotas": image.security.quotas,
        "tokens": image.security.tokens,
    }


def register(broker_id: int = 1, epoch: int = 5, **more: object) -> wire.RegisterBrokerRecord:
    return wire.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=epoch,
        end_points=[wire.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[
            wire.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
        rack="r1",
        log_dirs=[HERE],
        **more,  # type: ignore[arg-type]
    )


def partition(topic_id: TopicId, index: int = 0) -> wire.PartitionRecord:
    return wire.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[HERE, HERE],
    )


def a_bit_of_everything() -> list[object]:
    return [
        wire.FeatureLevelRecord(name="metadata.version", feature_level=30),
        wire.FeatureLevelRecord(name="group.version", feature_level=1),
        register(),
        register(2, 6),
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1),
        wire.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=6, cordoned_log_dirs=[]),
        wire.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=b"i" * 16,
            end_points=[wire.ControllerEndpoint(name="CONTROLLER", host="h", port=9093)],
            features=[wire.ControllerFeature(name="kraft.version", max_supported_version=1)],
        ),
        wire.TopicRecord(name="orders", topic_id=ORDERS),
        partition(ORDERS),
        partition(ORDERS, 1),
        wire.PartitionChangeRecord(
            partition_id=1,
            topic_id=ORDERS,
            isr=[],
            leader=-1,
            eligible_leader_replicas=[1],
            last_known_elr=[1],
        ),
        wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        wire.ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="7"),
        wire.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
        wire.AccessControlEntryRecord(id=b"a" * 16, resource_name="orders", principal="User:b"),
        wire.UserScramCredentialRecord(name="b", mechanism=1, salt=b"s", iterations=4096),
        wire.ClientQuotaRecord(
            entity=[wire.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            value=1.5,
        ),
        wire.DelegationTokenRecord(owner="User:b", token_id="t"),
    ]


def test_a_snapshot_replays_to_an_equal_image() -> None:
    image = MetadataImage()
    image.replay_all(a_bit_of_everything())
    again = MetadataImage()
    again.replay_all(snapshot_records(image))
    assert state(again) == state(image)
    assert list(snapshot_records(again)) == list(snapshot_records(image))


def test_a_snapshot_tells_when_a_broker_that_is_fenced_was_last_let_in() -> None:
    image = MetadataImage()
    image.replay_all(
        [
            wire.RegisterBrokerRecord(broker_id=1, broker_epoch=5),
            wire.UnfenceBrokerRecord(id=1, epoch=5),
            wire.RegisterBrokerRecord(broker_id=1, broker_epoch=9),
        ]
    )
    again = MetadataImage()
    again.replay_all(snapshot_records(image))
    assert (again.brokers[1].epoch, again.brokers[1].fenced, again.brokers[1].served_epoch) == (9, True, 5)
    assert state(again) == state(image)


def test_a_copy_keeps_its_state_while_the_image_goes_on() -> None:
    image = MetadataImage("c")
    image.replay_all(a_bit_of_everything())
    twin = image.copy()
    before = list(snapshot_records(twin))
    image.replay_all(
        [
            wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2),
            wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="2"),
            wire.TopicRecord(name="clicks", topic_id=CLICKS),
            wire.RemoveAccessControlEntryRecord(id=b"a" * 16),
        ]
    )
    assert list(snapshot_records(twin)) == before
    twin.replay(wire.RemoveTopicRecord(topic_id=ORDERS))
    assert "orders" in image.topics_by_name
    assert twin.cluster_id == "c"


def test_naming_a_leader_bumps_its_epoch_and_any_change_the_partitions_epoch() -> None:
    image = MetadataImage()
    image.replay_all([wire.TopicRecord(name="orders", topic_id=ORDERS), partition(ORDERS)])
    image.replay(wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1]))
    changed = image.partition("orders", 0)
    assert changed is not None
    assert (changed.isr, changed.leader_epoch, changed.partition_epoch) == ((1,), 0, 1)
    image.replay(wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1))
    changed = image.partition("orders", 0)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 1, 2)
    assert changed.directory_of(2) == HERE
    assert changed.directory_of(3) is None


def test_a_delta_tells_what_came_changed_and_went() -> None:
    image = MetadataImage()
    delta = image.replay_all(a_bit_of_everything())
    assert delta.topics_created == {ORDERS}
    assert delta.partitions_changed(ORDERS) == {0, 1}
    assert delta.configs_changed == {ConfigKey(ResourceType.TOPIC, "orders"), CLUSTER_DEFAULT}
    assert delta.topic_configs_changed == {"orders"}
    assert delta.brokers_changed == {1, 2}
    assert delta.features_changed == {"metadata.version", "group.version"}
    assert delta.producer_ids_changed
    assert delta.security_changed == {"acls", "scram", "quotas", "tokens"}

    delta = image.replay_all(
        [wire.RemoveTopicRecord(topic_id=ORDERS), wire.TopicRecord(name="orders", topic_id=CLICKS)]
    )
    assert [topic.id for topic in delta.topics_deleted] == [ORDERS]
    assert list(delta.topics_changed) == [CLICKS]
    assert image.topic_config_of("orders") == {}, "a topic's settings go with it"
    assert not MetadataDelta()
    assert delta


def test_a_transaction_is_seen_whole_or_not_at_all() -> None:
    image = MetadataImage()
    image.replay(wire.BeginTransactionRecord(name="x"))
    assert not image.replay_all([wire.TopicRecord(name="orders", topic_id=ORDERS)])
    assert image.in_transaction
    assert not image.topics_by_name
    delta = image.replay_all([wire.EndTransactionRecord()])
    assert delta.topics_created == {ORDERS}
    image.replay_all(
        [
            wire.BeginTransactionRecord(),
            wire.RemoveTopicRecord(topic_id=ORDERS),
            wire.AbortTransactionRecord(),
        ]
    )
    assert "orders" in image.topics_by_name
    with pytest.raises(InvalidBytesError, match="did not begin"):
        image.replay(wire.EndTransactionRecord())


def test_settings_are_removed_by_null_and_features_by_level_0() -> None:
    image = MetadataImage()
    image.replay_all(a_bit_of_everything())
    image.replay_all(
        [
            wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
            wire.ConfigRecord(resource_type=2, resource_name="none", name="retention.ms", value=None),
            wire.FeatureLevelRecord(name="group.version", feature_level=0),
            wire.ClearElrRecord(topic_name=""),
            wire.NoOpRecord(),
        ]
    )
    assert list(image.configs) == [CLUSTER_DEFAULT]
    assert image.finalized_features() == {"metadata.version": 30}
    image.kraft_version = 1
    assert image.finalized_features() == {"metadata.version": 30, "kraft.version": 1}
    cleared = image.partition("orders", 1)
    assert cleared is not None
    assert cleared.elr == cleared.last_known_elr == ()


def test_brokers_are_fenced_unfenced_and_unregistered_by_epoch() -> None:
    image = MetadataImage()
    image.replay(register())
    assert not image.brokers[1].is_active
    image.replay(wire.UnfenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].is_active
    image.replay(wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1))
    assert not image.brokers[1].is_active
    image.replay(wire.FenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].fenced
    with pytest.raises(InvalidBytesError, match="its epoch is 5"):
        image.replay(wire.UnregisterBrokerRecord(broker_id=1, broker_epoch=4))
    image.replay(wire.UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert not image.brokers


def test_records_about_the_unknown_are_refused_by_name() -> None:
    image = MetadataImage()
    with pytest.raises(InvalidBytesError, match="PartitionRecord"):
        image.replay(partition(ORDERS))
    with pytest.raises(InvalidBytesError, match="object is not a metadata record"):
        image.replay(object())


def test_images_of_one_log_share_what_is_equal() -> None:
    """Also after a change, and within an image: a million partitions are mostly alike."""
    first = MetadataImage("c", indexed=True)
    second = MetadataImage("c", like=first)
    records = [
        wire.TopicRecord(name="orders", topic_id=ORDERS),
        *(
            wire.PartitionRecord(partition_id=index, topic_id=ORDERS, replicas=[1, 2], isr=[1, 2], leader=1)
            for index in (0, 1, 5000)
        ),
        wire.PartitionChangeRecord(partition_id=1, topic_id=ORDERS, isr=[1], leader=1),
    ]
    for image in (first, second):
        image.replay_all(records)
    assert state(first) == state(second)
    ours, theirs = (image.topics_by_name["orders"].partitions for image in (first, second))
    assert ours[0] is ours[5000] is theirs[0] is theirs[5000]
    assert ours[1] is theirs[1]
    assert ours[0].isr is ours[0].replicas is ours[1].replicas
    second.clear()
    assert ours[0].replicas == (1, 2), "what one forgets the other keeps"
