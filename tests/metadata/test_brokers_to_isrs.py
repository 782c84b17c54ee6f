"""What a broker holds, kept as records come, is what a walk over all partitions finds."""

import random

from headrace.base.ids import TopicId
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage
from headrace.wire.schemas import metadata_records as wire

BROKERS = range(1, 7)


def _walked(image: MetadataImage, broker: int) -> list[tuple[str, int, PartitionImage]]:
    return [
        (topic.name, index, partition)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if broker in partition.replicas or broker in partition.elr
    ]


def _check(image: MetadataImage) -> None:
    holdings = image.topics.holdings
    assert holdings is not None
    for broker in BROKERS:
        held = [(topic.name, index, partition) for topic, index, partition in holdings.of_broker(broker)]
        assert sorted(held) == sorted(_walked(image, broker))
    leaderless = {(topic.name, index) for topic, index, _ in holdings.without_leader()}
    assert leaderless == {
        (topic.name, index)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if partition.leader < 0
    }


def _some_record(image: MetadataImage, rng: random.Random, number: int) -> object:
    topics = list(image.topics_by_id.values())
    replicas = rng.sample(BROKERS, 3)
    what = rng.random()
    if not topics or what < 0.1:
        return wire.TopicRecord(name=f"t{number}", topic_id=rng.randbytes(16))
    topic = rng.choice(topics)
    if what < 0.15:
        return wire.RemoveTopicRecord(topic_id=topic.id)
    if what < 0.4 or not topic.partitions:
        return wire.PartitionRecord(
            partition_id=len(topic.partitions),
            topic_id=topic.id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
        )
    return wire.PartitionChangeRecord(
        partition_id=rng.choice(list(topic.partitions)),
        topic_id=topic.id,
        replicas=rng.choice((None, replicas)),
        leader=rng.choice((-2, -1, replicas[0])),
        eligible_leader_replicas=rng.choice((None, [], [rng.choice(BROKERS)])),
    )


def test_any_history_leaves_the_index_equal_to_a_walk() -> None:
    for seed in range(8):
        rng = random.Random(seed)
        image = MetadataImage(indexed=True)
        for number in range(300):
            image.replay(_some_record(image, rng, number))
            if number % 7 == 0:
                _check(image)
        _check(image)
        _check(image.copy(indexed=True))
        image.clear()
        _check(image)


def test_a_copy_shares_partitions_until_either_changes() -> None:
    image = MetadataImage()
    topic_id = TopicId(b"t" * 16)
    image.replay(wire.TopicRecord(name="t", topic_id=topic_id))
    for index in range(3):
        image.replay(
            wire.PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1)
        )
    twin = image.copy()
    before = dict(image.topics_by_id[topic_id].partitions)
    assert twin.topics_by_id[topic_id].partitions is image.topics_by_id[topic_id].partitions
    image.replay(wire.PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=2))
    assert twin.topics_by_id[topic_id].partitions == before
    twin.replay(wire.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
    assert image.topics_by_id[topic_id].partitions[0].isr == (1, 2)


def test_equal_lists_are_one_object() -> None:
    image = MetadataImage()
    image.replay(wire.TopicRecord(name="t", topic_id=b"t" * 16))
    for index in range(2):
        record = wire.PartitionRecord(partition_id=index, topic_id=b"t" * 16, replicas=[1, 2], isr=[1, 2])
        image.replay(record)
    first, second = image.topics_by_name["t"].partitions.values()
    assert first.replicas is second.replicas is first.isr
