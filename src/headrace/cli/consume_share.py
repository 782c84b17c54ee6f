"""`headrace consume --share`: records of topics as a member of a share group (KIP-932), one a line.

Every record is held for this member until it answers for it, which it does with all records of a poll once
they are printed. However the command ends, what was printed is answered for, and what was not is given back
at once. No more is acquired than is to be printed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.base.ids import TopicPartition
from headrace.cli.output import note
from headrace.clients import AcknowledgeType

if TYPE_CHECKING:
    from headrace.clients import ClientError, ShareConsumer, ShareRecord

ANSWERS: Final = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}
_POLL_MS: Final = 500
_POLL_RECORDS: Final = 500
_JOIN_S: Final = 10.0


def share_settings(max_messages: int | None) -> dict[str, Any]:
    """What a share consumer of this command needs beside its group."""
    return {
        "share_acknowledgement_mode": "explicit",
        "share_acquire_mode": "record_limit",
        "max_poll_records": min(max_messages or _POLL_RECORDS, _POLL_RECORDS),
    }


def consume_shared(
    consumer: "ShareConsumer",
    topics: Sequence[str],
    printer: "Callable[[ShareRecord], None]",
    answer: AcknowledgeType,
    *,
    max_messages: int | None,
    silence_ms: int | None,
) -> None:
    """Print what the group hands out to this member, and answer for it."""
    consumer.on_commit(_note_refusals)
    consumer.subscribe(topics)
    count = 0
    joined_by = time.monotonic() + _JOIN_S
    while max_messages is None or count < max_messages:
        left = None if max_messages is None else min(max_messages - count, _POLL_RECORDS)
        found = consumer.poll((_POLL_MS if silence_ms is None else silence_ms) / 1000, max_records=left)
        # Before the group has given out its partitions silence says nothing.
        is_member = bool(consumer.assignment) or time.monotonic() > joined_by
        if not found and silence_ms is not None and is_member:
            return
        try:
            for record in found:
                printer(record)
                consumer.acknowledge(record, answer)
                count += 1
        finally:
            consumer.commit()


def _note_refusals(outcome: "Mapping[TopicPartition, ClientError | None]") -> None:
    for partition, error in outcome.items():
        if error is not None:
            note(f"{partition}: what was printed is not acknowledged, and comes again: {error}")
