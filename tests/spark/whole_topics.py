"""All records of a topic, read to its end by a client that knows nothing of Spark."""

from collections.abc import Mapping
from types import MappingProxyType

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, ConsumerRecord, OffsetSpec
from tests.compat.clients.face import eventually

MARKERS_S = 120
PLAIN: Mapping[str, str] = MappingProxyType({})


def await_markers(bootstrap_servers: str, settings: Mapping[str, str] = PLAIN) -> None:
    """Until what was decided can be seen: brokers answer EndTxn first, and write the markers then. Apache
    Kafka's readers wait for some milliseconds, on a busy machine for longer.
    """
    with Admin({**settings, "bootstrap.servers": bootstrap_servers}) as admin:

        def decided() -> set[str]:
            listed = admin.list_transactions(states=("PrepareCommit", "PrepareAbort"))
            return {each.transactional_id for each in listed}

        waiting = decided()
        eventually(
            lambda: not waiting or not waiting & decided(), lambda: f"markers of {sorted(waiting)}", MARKERS_S
        )


def await_markers_on(bootstrap_servers: str, topic: str, settings: Mapping[str, str] = PLAIN) -> None:
    """Until a reader of committed records sees all that is decided in this topic.

    A broker that a busy machine got fenced lists no transaction at all for a moment, so partitions are asked
    too: one that nobody coordinates as ongoing has its markers under way. Nor is that enough, for a marker is
    in the log a moment before it is below the bounds of readers.
    """
    with Admin({**settings, "bootstrap.servers": bootstrap_servers}) as admin:
        (described,) = admin.describe_topics(topic)
        partitions = [TopicPartition(topic, each.number) for each in described.partitions]

        def ends(*, is_committed: bool) -> dict[TopicPartition, int]:
            wanted = dict.fromkeys(partitions, OffsetSpec.LATEST)
            found = admin.list_offsets(wanted, is_committed=is_committed)
            return {each: found[each].offset for each in partitions}

        def undecided() -> list[str]:
            opened = [
                each for each in admin.describe_producers(*partitions) if each.transaction_start_offset >= 0
            ]
            listed = admin.list_transactions(states=("Ongoing",)) if opened else []
            ongoing = {each.producer_id for each in listed}
            if waiting := {each.producer_id for each in opened} - ongoing:
                return [f"markers of producers {sorted(waiting)}"]
            bounds = ends(is_committed=False)
            for each in opened:
                bounds[each.partition] = min(bounds[each.partition], each.transaction_start_offset)
            stable = ends(is_committed=True)
            return [f"{each} up to {end}" for each, end in bounds.items() if stable[each] < end]

        eventually(lambda: not undecided(), lambda: f"{undecided()}", MARKERS_S)


def whole_topic(
    bootstrap_servers: str, topic: str, settings: Mapping[str, str] = PLAIN
) -> list[ConsumerRecord]:
    """What a reader of committed records sees of all that is decided by now, by partition and offset; of a
    secure cluster one who logs in by these settings."""
    await_markers(bootstrap_servers, settings)
    await_markers_on(bootstrap_servers, topic, settings)
    with Consumer(
        {**settings, "bootstrap.servers": bootstrap_servers},
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(10)
    return sorted(found, key=lambda each: (each.partition, each.offset))
