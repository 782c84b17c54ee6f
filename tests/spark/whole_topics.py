"""All records of a topic, read to its end by a client that knows nothing of Spark."""

from headrace.clients import Consumer, ConsumerRecord


def whole_topic(bootstrap_servers: str, topic: str) -> list[ConsumerRecord]:
    """What a reader of committed records sees now, by partition and offset."""
    with Consumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(10)
    return sorted(found, key=lambda each: (each.partition, each.offset))
