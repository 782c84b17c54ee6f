"""All records of a topic, read to its end by a client that knows nothing of Spark."""

import time

from headrace.clients import Admin, Consumer, ConsumerRecord

MARKERS_S = 60


def await_markers(bootstrap_servers: str) -> None:
    """Until what was decided can be seen: brokers answer EndTxn first, and write the markers then. Apache
    Kafka's readers wait for some milliseconds, on a busy machine for longer.
    """
    deadline = time.monotonic() + MARKERS_S
    with Admin(bootstrap_servers=bootstrap_servers) as admin:

        def decided() -> set[str]:
            listed = admin.list_transactions(states=("PrepareCommit", "PrepareAbort"))
            return {each.transactional_id for each in listed}

        waiting = decided()
        while waiting:
            assert time.monotonic() < deadline, f"no markers after {MARKERS_S} s: {sorted(waiting)}"
            time.sleep(0.02)
            waiting &= decided()


def whole_topic(bootstrap_servers: str, topic: str) -> list[ConsumerRecord]:
    """What a reader of committed records sees of all that is decided by now, by partition and offset."""
    await_markers(bootstrap_servers)
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
