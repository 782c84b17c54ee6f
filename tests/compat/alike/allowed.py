"""The differences that are meant, each with its reason. Whatever is not here is a bug of ours.

A row is a pattern of the label, a pattern of the field's path, and why. Both patterns are searched for.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tests.compat.alike.difference import Difference

ANY_TEXT: Final = "<any text>"
"""Stands for whatever words we have."""


class Allowed(NamedTuple):
    name: str
    label: str
    path: str
    reason: str
    values: tuple[Any, Any] | None = None  # what Kafka and we say; None for anything


ALLOWED: Final = (
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
        (None, ANY_TEXT),
    ),
    Allowed(
        "words for none",
        "",
        r"error_message$",
        "as above, where Kafka has an empty text",
        ("", ANY_TEXT),
    ),
    Allowed(
        "words about rights",
        r"^(nobody|onlooker), ",
        r"error_message$",
        "Kafka shows a Java object in place of a sentence; codes are the same",
        (ANY_TEXT, "Cluster authorization failed."),
    ),
    Allowed(
        "words about records",
        r"Produce",
        r"error_message$",
        "the reason for refused records names the first of them and the limit; clients go by code and number",
        (ANY_TEXT, ANY_TEXT),
    ),
    Allowed(
        "not served",
        r"^plain, Sasl",
        "",
        "a listener without SASL says so",
    ),
    Allowed(
        "requests of 4.4",
        r"^key (18|28|42), ApiVersions v",
        r"^\.versions\[1\]$",
        "ApiVersions v5, TxnOffsetCommit v6 and DeleteGroups v3",
    ),
    Allowed(
        "metadata of 4.4",
        r"^ApiVersions v",
        r"^\.supported_features\[\d+\]\.max_version$",
        "metadata.version 4.4-IV0, which share.version 2 builds on, and 4.4-IV1",
        (30, 32),
    ),
    Allowed(
        "share groups of 4.4",
        r"^ApiVersions v",
        r"^\.supported_features\[\d+\]\.max_version$",
        "share.version 2: dead letters",
        (1, 2),
    ),
    Allowed(
        "words about metadata of 4.4",
        r"^(metadata\.version \d+ \d|too far, really), UpdateFeatures",
        r"error_message$",
        "the sentence names the range, which reaches to 32 here",
        (ANY_TEXT, ANY_TEXT),
    ),
    Allowed(
        "share topic",
        r"^key type 2, 'g:AAAAAAA', FindCoordinator",
        r"^\.coordinators\[0\]",
        "the first question waits until __share_group_state is made; Kafka's answer is to ask again",
    ),
    Allowed(
        "no lag",
        r"^stands at 99, DescribeShareGroupOffsets",
        r"\.lag$",
        "a group that was set beyond the end has no lag; Kafka's is below 0",
        (-84, 0),
    ),
    Allowed(
        "epochs of resets",
        r"^made, ShareGroupDescribe",
        r"(group|assignment)_epoch$",
        "each reset makes the group's epoch grow, so that leaders which know the state before are fenced; "
        "what changes nothing does not. A group that never had members has no assignment",
    ),
    Allowed(
        "names in a status",
        r"^(an own number|a chain), StreamsGroupHeartbeat",
        r"status_detail$",
        "missing topics are named in order",
    ),
    Allowed(
        "numbers at once",
        r"^after a changelog that is there, StreamsGroupDescribe",
        r"state_changelog_topics\[0\]\.partitions$",
        "a group that can run at once shows numbers at once, in Kafka from the second heartbeat on",
        ("<default>", 3),
    ),
    Allowed(
        "tasks again",
        r"^(it moved|m1 has not heard|m1 goes on), StreamsGroupHeartbeat",
        r"(active|standby|warmup)_tasks$",
        "who comes with the epoch before or with other tasks has lost an answer: it hears again what it has",
    ),
    Allowed(
        "hangs up",
        r"^kind 0, pattern ., \w+Acls",
        "",
        "Kafka hangs up on filters that it cannot read; ACLs are disabled either way",
    ),
    Allowed(
        "no time",
        r"^(no|negative) time, CreateTopics",
        "",
        "a topic that can be made at once is made, however little time there was",
    ),
    Allowed("blanks", r"^spaces", r"value$", "a value is kept without the blanks around it"),
    Allowed(
        "threads",
        r"^too many threads",
        "",
        "there are no such threads: the setting has no effect, and no limit",
    ),
    Allowed(
        "mistyped",
        r"^an unknown key of a broker",
        "",
        "a setting that no broker has is a mistake; Kafka keeps it for plugins that may know it",
    ),
    Allowed(
        "no such election",
        r"^none, kind 2, ElectLeaders",
        "",
        "an election of no kind is refused, also for no partitions",
    ),
    Allowed(
        "feature twice",
        r"^twice, UpdateFeatures",
        r"results$",
        "a feature that is named twice is answered once",
    ),
    Allowed(
        "silence",
        r"DescribeShareGroupOffsets v",
        r"^$",
        "partitions that are not there, or have no state yet: Kafka does not answer, here their start is -1",
    ),
    Allowed(
        "repeated",
        r"Produce",
        r"log_append_time_ms$",
        "a repetition is told what the first arrival was told; Kafka takes the records' own time for its own",
    ),
    Allowed(
        "negative epochs",
        r"^epoch -2, ListOffsets",
        "",
        "all negative epochs mean none; in Kafka only -1 does, and no client has another",
    ),
    Allowed(
        "ids in sessions",
        r"^(deleted while it waits|deleted, goes on|made anew, goes on), Fetch v18",
        "",
        "who asked for a topic by its id is told that the id is gone; Kafka goes on by the name that it had, "
        "and sends clients of a deleted topic to the leader of its successor",
    ),
    Allowed(
        "log start",
        r"Produce",
        r"log_start_offset$",
        "where the log starts is told with refusals, too",
        ("<default>", 0),
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
        "which partitions",
        r"^(one with an assignment of|one that was assigned nothing|a crowd of|a group of one classic)",
        r"(partitions|^\[0\]\[1\]|partitions\[\d\]\.partitions)(\[\d\])?$",
        "members that have nothing yet are in the order of ids that the broker made; each has its share",
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
        if row.values is not None and not _are(row.values, difference):
            continue
        if re.search(row.label, difference.label) and re.search(row.path, difference.path):
            return row
    return None


def _are(values: tuple[Any, Any], difference: Difference) -> bool:
    kafka, ours = values
    return _is(kafka, difference.kafka) and _is(ours, difference.ours)


def _is(expected: Any, value: Any) -> bool:
    return isinstance(value, str) if expected == ANY_TEXT else bool(expected == value)
