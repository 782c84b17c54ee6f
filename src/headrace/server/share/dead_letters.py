"""Dead letters (KIP-1191): what is written to another topic of a record that a share group could not process.

A letter says in its headers where the record is, who gave up and why. Kafka's headers keep Kafka's names and
are texts. The record itself goes with it, headers first, where the group asks for that
(`errors.deadletterqueue.copy.record.enable`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.records.batch import Record

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
MEMBER: Final = "headrace.dlq.member"
"""Who had the record last; Kafka does not tell."""
TIMESTAMP: Final = "headrace.dlq.timestamp"
"""The record's own time in milliseconds: the letter's is when it was written."""

REJECTED: Final = "Offset rejected by client."
USED_UP: Final = "Offset delivery count exceeded the threshold."
"""Kafka's words."""

# What a record takes in a batch beside its fields: lengths, time and offset.
OVERHEAD_BYTES: Final = 32


class DeadLetterCause(NamedTuple):
    """Why some records of a share partition are given up."""

    topic: str
    partition: int
    group_id: str
    delivery_count: int
    was_rejected: bool
    member_id: str


def letter_of(record: Record, cause: DeadLetterCause, *, now_ms: int, copies: bool) -> Record:
    """The letter about one record."""
    headers = [
        (TOPIC, cause.topic.encode()),
        (PARTITION, b"%d" % cause.partition),
        (OFFSET, b"%d" % record.offset),
        (GROUP, cause.group_id.encode()),
        (DELIVERY_COUNT, b"%d" % cause.delivery_count),
        (MESSAGE, (REJECTED if cause.was_rejected else USED_UP).encode()),
    ]
    if cause.member_id:
        headers.append((MEMBER, cause.member_id.encode()))
    if record.timestamp >= 0:
        headers.append((TIMESTAMP, b"%d" % record.timestamp))
    if not copies:
        return Record(timestamp=now_ms, headers=tuple(headers))
    return Record(timestamp=now_ms, key=record.key, value=record.value, headers=(*record.headers, *headers))


def that_fit(letters: Iterable[Record], bytes_max: int) -> list[Record]:
    """The first letters, as many as go into one batch, and one at least."""
    taken: list[Record] = []
    size = 0
    for letter in letters:
        size += OVERHEAD_BYTES + len(letter.key or b"") + len(letter.value or b"")
        size += sum(len(name) + len(value or b"") + 4 for name, value in letter.headers)
        if taken and size > bytes_max:
            break
        taken.append(letter)
    return taken
