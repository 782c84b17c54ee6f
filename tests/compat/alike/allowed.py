"""The differences that are meant, each with its reason. Whatever is not here is a bug of ours.

A row is a pattern of the label, a pattern of the field's path, and why. Both patterns are searched for.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tests.compat.alike.difference import Difference


class Allowed(NamedTuple):
    name: str
    label: str
    path: str
    reason: str
    values: tuple[Any, Any] | None = None  # what Kafka and we say; None for anything


ALLOWED: Final = (
    Allowed(
        "share groups", r"^key type 2, .*FindCoordinator", "", "there is no coordinator for share groups"
    ),
    Allowed(
        "order", "", r"\(order\)$", "Kafka's order is by hash or by coordinator; clients go by names and ids"
    ),
    Allowed(
        "no partitions",
        r"^(no partitions|nothing), .*OffsetCommit",
        r"^.topics$",
        "a topic that is asked for is answered",
    ),
    Allowed(
        "stumbles", "", r"\(stumbles\)$", "where Kafka falls over a request, headrace says what is wrong"
    ),
    Allowed(
        "words",
        "",
        r"error_message$",
        "errors say what was wrong also where Kafka is silent",
        (None, "<words>"),
    ),
    Allowed(
        "repeated",
        r"Produce",
        r"log_append_time_ms$",
        "a repetition is told what the first arrival was told; Kafka takes the records' own time for its own",
    ),
    Allowed(
        "marker again",
        r"^a past coordinator, WriteTxnMarkers v2",
        r"error_code$",
        "a marker that is written is written, whoever asks for it again",
    ),
    Allowed(
        "no producer",
        r"a batch of nobody's transaction, Produce",
        "",
        "Kafka appends transactional records that have no producer id",
    ),
    Allowed(
        "last offset",
        r"^offsets(, nothing)?, (OffsetDelete|DeleteGroups)",
        r"error_code$",
        "a group that is only offsets ends with the last of them; Kafka finds out some minutes later",
    ),
)


def reason_for(difference: Difference, table: Iterable[Allowed] = ALLOWED) -> Allowed | None:
    """The row that allows it."""
    for row in table:
        if row.values is not None and row.values != (difference.kafka, difference.ours):
            continue
        if re.search(row.label, difference.label) and re.search(row.path, difference.path):
            return row
    return None
