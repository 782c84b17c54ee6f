"""Where a group's offsets shall go: what options and files say of it, and what becomes of it.

Nothing here asks a cluster. A target is wished for, then clipped to what the partition holds, so that a reset
never leaves a group where its consumers would stumble at once.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TextIO

import click

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError

_UNIT_MS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_SHORT: Final = re.compile(r"(?:\d+[wdhms])+", re.IGNORECASE)
_ISO: Final = re.compile(
    r"P(?!$)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?!$)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


class Change(NamedTuple):
    """One partition's part of a reset. `wanted` differs from `to` where it was out of range."""

    partition: TopicPartition
    current: int | None
    to: int
    wanted: int

    @property
    def is_clipped(self) -> bool:
        return self.wanted != self.to


def parse_topics(items: Iterable[str]) -> dict[str, set[int] | None]:
    """TOPIC or TOPIC:0,1,2 items; None stands for all partitions of a topic."""
    chosen: dict[str, set[int] | None] = {}
    for item in items:
        topic, separator, numbers = item.partition(":")
        parts = numbers.split(",") if separator else []
        if not topic or not all(part.strip().isdecimal() for part in parts):
            message = f"{item!r} is neither TOPIC nor TOPIC:PARTITION,PARTITION…"
            raise click.BadParameter(message, param_hint="'--topic'")
        known = chosen.setdefault(topic, set())
        if not separator or known is None:
            chosen[topic] = None
        else:
            known.update(int(part) for part in parts)
    return chosen


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration or of its short form: P1DT12H, 90m, 1h30m."""
    if _SHORT.fullmatch(text):
        pairs = re.findall(r"(\d+)([wdhms])", text.lower())
        return sum(int(count) * _UNIT_MS[unit] for count, unit in pairs)
    found = _ISO.fullmatch(text)
    if found is None:
        message = f"{text!r} is no duration, as 90m, 2h, 3d or, in ISO 8601, P1DT12H30M."
        raise click.BadParameter(message, param_hint="'--by-duration'")
    return sum(round(float(count) * _UNIT_MS[unit]) for unit, count in found.groupdict().items() if count)


def read_offsets(file: TextIO) -> dict[TopicPartition, int]:
    """Lines of topic,partition,offset, as --export prints them."""
    offsets: dict[TopicPartition, int] = {}
    for row in csv.reader(file):
        # What spreadsheets leave behind: spaces, and lines with nothing in them.
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != 3 or not cells[0] or not all(cell.isdecimal() for cell in cells[1:]):
            line = ",".join(row)
            raise ClientError(f"{file.name}: {line!r} is not topic,partition,offset, as --export prints it")
        partition = TopicPartition(cells[0], int(cells[1]))
        if partition in offsets:
            raise ClientError(f"{file.name}: there is more than one line for {partition}; leave one")
        offsets[partition] = int(cells[2])
    if not offsets:
        raise ClientError(f"{file.name}: there are no offsets in it; lines are topic,partition,offset")
    return offsets


def plan(
    wanted: Mapping[TopicPartition, int],
    *,
    committed: Mapping[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Change]:
    """What becomes of wishes: never before the oldest record, never behind the end."""
    return [
        Change(each, committed.get(each), min(max(offset, beginnings[each]), ends[each]), offset)
        for each, offset in sorted(wanted.items())
    ]
