"""A user's program for mypy, which `test_exports` runs on it; nothing calls it.

What is wrong on purpose has a `type: ignore`, which would itself be an error if mypy did not see the mistake.
"""

from typing import assert_type

import headrace


def use(admin: headrace.Admin, consumer: headrace.Consumer, producer: headrace.Producer) -> None:
    assert_type(admin.list_topics(), list[headrace.TopicListing])
    assert_type(admin.create_topic("orders", partitions=6), headrace.TopicListing)
    assert_type(consumer.committed([]), dict[headrace.TopicPartition, headrace.OffsetAndMetadata])
    assert_type(consumer.group_metadata(), headrace.ConsumerGroupMetadata)
    assert_type(producer.prepare_transaction(), headrace.PreparedTxnState)
    for record in consumer:
        assert_type(record, headrace.ConsumerRecord)
    admin.create_topic("orders", partitions="six")  # type: ignore[arg-type]
    admin.create_topic("orders", places=6)  # type: ignore[call-arg]
    consumer.seek(headrace.TopicPartition("orders", 0))  # type: ignore[call-arg]
    producer.complete_transaction("1:2")  # type: ignore[arg-type]
