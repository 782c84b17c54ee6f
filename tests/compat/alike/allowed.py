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


_UNSERVED: Final = "36|38|39|40|41|48|49|50|51|76|77|78|79|83|84|85|86|87|88|89|90|91|92"

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
        "not served",
        rf"^(key ({_UNSERVED}), ApiVersions|plain, )",
        "",
        "quotas, SCRAM users, delegation tokens, share and streams groups: there are none, and no client is "
        "told that there were",
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
        "two-phase commit",
        r"^key 22, ApiVersions",
        r"versions",
        "InitProducerId v6 is served and told of; in Kafka it is not settled yet (KIP-939)",
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
