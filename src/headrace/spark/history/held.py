"""Which offsets of each partition a table holds, as its commits say it.

A batch of a load covers a range of each partition. Joined to what the table held before, that makes one range
of each: batches follow one another without a gap or an overlap. An overlap would put records twice into the
table and is refused. A gap is what a load leaves that went on over lost records (failOnDataLoss=false), or
that was run with a filter in between: it is kept, as the offset from which on the table is complete, and told
to whoever reads across it.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.base.ids import TopicPartition, uuid_bytes
from headrace.spark.loads.tables import LoadError
from headrace.spark.ranges import OffsetRange

log = logging.getLogger(__name__)


class HeldRange(NamedTuple):
    """Offsets of one partition that are in a table, `end` not included."""

    first: int
    end: int
    complete_from: int
    """`first`, or behind it where a load has passed over records."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a table holds of each partition, and of which topics: a topic made again has another id."""

    ranges: Mapping[TopicPartition, HeldRange] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    """Numbers made of topic ids, see `id_number`; of topics whose id is known."""
    is_committed: bool = False
    """Whether records of aborted transactions were left out."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """What one batch of a load covers."""

    ranges: Sequence[OffsetRange]
    ids: Mapping[str, str] = field(default_factory=dict)
    is_committed: bool = False


HELD_PROPERTY: Final = "headrace.held"
"""Of formats whose commits keep texts."""


def holdings_text(held: Holdings, before: str | None) -> str:
    """What the table holds, all that is new put into all that was said before."""
    topics: dict[str, Any] = {} if before is None else json.loads(before)["topics"]
    for each, own in held.ranges.items():
        topic = topics.setdefault(each.topic, {"id": held.ids.get(each.topic), "partitions": {}})
        topic["partitions"][str(each.partition)] = list(own)
    return json.dumps({"committed": held.is_committed, "topics": topics})


def holdings_from_text(text: str | None, partitions: Sequence[TopicPartition]) -> Holdings:
    """Of these partitions."""
    if text is None:
        return Holdings()
    found = json.loads(text)
    topics = found["topics"]
    ranges = {
        each: HeldRange(*own)
        for each in partitions
        if (own := topics.get(each.topic, {}).get("partitions", {}).get(str(each.partition))) is not None
    }
    ids = {topic: own["id"] for topic, own in topics.items() if own["id"] is not None}
    return Holdings(
        ranges, {each.topic: ids[each.topic] for each in ranges if each.topic in ids}, found["committed"]
    )


def id_number(topic_id: str) -> int:
    """A topic's id as a number of 63 bits, for where commits keep numbers only: of a UUID's random half."""
    return int.from_bytes(uuid_bytes(topic_id)[8:]) >> 1


def followed_by(before: Holdings, batch: BatchOffsets, place: str) -> Holdings:
    """What the table holds with the batch: of its partitions only, which is what its commit has to say.

    LoadError where the batch does not belong behind what is there.
    """
    ids = {name: id_number(text) for name, text in batch.ids.items()}
    if before.ranges and before.is_committed != batch.is_committed:
        raise LoadError(
            f"{place} was loaded with isolation level {_isolation(before)}, and this load has another: ask "
            "for the same with --option kafka.isolation.level=…, or load into another folder"
        )
    ranges = {}
    for each in batch.ranges:
        name = each.topic_partition
        if before.ids.get(each.topic, ids.get(each.topic)) != ids.get(each.topic):
            raise LoadError(
                f"{place} has the history of another topic {each.topic!r}, which was deleted: load this one "
                "into another folder"
            )
        held = before.ranges.get(name, HeldRange(each.start, each.start, each.start))
        if each.start < held.end:
            raise LoadError(
                f"{place} holds offsets {held.first} to {held.end} of {name} already, and this load begins "
                f"at {each.start}: go on with the checkpoint of the load that wrote them, or load into "
                "another folder"
            )
        complete_from = held.complete_from
        if each.start > held.end:
            log.warning(
                "%s: the offsets %d to %d of %s were not loaded: its history is complete from %d on only",
                *(place, held.end, each.start, name, each.start),
            )
            complete_from = each.start
        ranges[name] = HeldRange(held.first, each.end, complete_from)
    return Holdings(
        ranges, {each.topic: ids[each.topic] for each in ranges if each.topic in ids}, batch.is_committed
    )


def _isolation(held: Holdings) -> str:
    return "read_committed" if held.is_committed else "read_uncommitted"
