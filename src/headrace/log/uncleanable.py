"""Logs that compaction gave up, for people: `.headrace_uncleanable` in a log directory says which, since when
and why.

A node writes it when it gives a log up, and tries all of them again at its next start, when the file goes.
`headrace log describe` shows it. Kafka tells as much by its metrics uncleanable-partitions-count and
uncleanable-bytes, without the reason.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.log.disk import Disk

UNCLEANABLE: Final = ".headrace_uncleanable"
VERSION: Final = 0

ADVICE: Final = (
    "Nothing in it is removed any more, so it grows. Where another replica is sound, stop this node, remove "
    "the partition's folder and start it: its leader sends everything anew. Otherwise look at the damage by "
    "`headrace log dump FILE`, and delete the records up to behind it (kafka-delete-records.sh). "
    "The node tries again at its next start."
)


class GivenUp(NamedTuple):
    """Why a log is not compacted any more."""

    since_ms: int
    why: str


def encode_uncleanable(logs: Mapping[TopicPartition, GivenUp]) -> bytes:
    entries = [
        {"topic": topic, "partition": number, "sinceMs": given_up.since_ms, "why": given_up.why}
        for (topic, number), given_up in sorted(logs.items())
    ]
    return json.dumps({"version": VERSION, "logs": entries}, indent=1).encode()


def read_uncleanable(disk: Disk, folder: str) -> dict[TopicPartition, GivenUp]:
    """What a log directory says; ValueError where the file is not one of ours."""
    try:
        data = disk.read_file(f"{folder}/{UNCLEANABLE}")
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(each["topic"], each["partition"]): GivenUp(each["sinceMs"], each["why"])
            for each in json.loads(data)["logs"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}/{UNCLEANABLE} cannot be read: {error!r}") from None
