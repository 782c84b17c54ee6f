"""What lies in a node's log directories, for `headrace log describe`.

All of it is in the files: segments in the partitions' folders, how far compaction has been in
`cleaner-offset-checkpoint`, which logs it gave up in `.headrace_uncleanable`. A running node's files change
meanwhile; what is gone when it is looked at counts as nothing.
"""

import datetime
from collections.abc import Iterable
from typing import NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.cli.output import note, print_json, print_table
from headrace.log.checkpoints import decode_offsets
from headrace.log.compaction.drivers.uncleanable_partitions import (
    ADVICE,
    UncleanablePartition,
    read_uncleanable,
)
from headrace.log.disk import Disk
from headrace.log.file_names import CLEANER_OFFSETS, LOG, parse_partition_folder, parse_segment_file


class LogDescription(NamedTuple):
    """One partition's log: its segments from `start` on, all before `cleaner_checkpoint` compacted."""

    folder: str
    partition: TopicPartition
    segments: int
    size_bytes: int
    start: int | None
    cleaner_checkpoint: int | None
    uncleanable: UncleanablePartition | None


def describe_folders(disk: Disk, folders: Iterable[str]) -> list[LogDescription]:
    """The logs in these log directories. OSError, ValueError: a folder or a file in it cannot be read."""
    return [log for folder in folders for log in _describe_folder(disk, folder)]


def _describe_folder(disk: Disk, folder: str) -> list[LogDescription]:
    given_up = read_uncleanable(disk, folder)
    try:
        cleaned = decode_offsets(disk.read_file(f"{folder}/{CLEANER_OFFSETS}"))
    except FileNotFoundError:
        cleaned = {}
    found = []
    for name in disk.list(folder):
        parsed = parse_partition_folder(name)
        if parsed is None or parsed.state or not disk.is_folder(f"{folder}/{name}"):
            continue
        partition = parsed.topic_partition
        sizes = segment_sizes(disk, f"{folder}/{name}")
        found.append(
            LogDescription(
                folder=folder,
                partition=partition,
                segments=len(sizes),
                size_bytes=sum(sizes.values()),
                start=min(sizes, default=None),
                cleaner_checkpoint=cleaned.get(partition),
                uncleanable=given_up.get(partition),
            )
        )
    return sorted(found, key=lambda log: log.partition)


def segment_sizes(disk: Disk, folder: str) -> dict[int, int]:
    """By first offset. A running node may remove some meanwhile."""
    sizes = {}
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.suffix == LOG and not parsed.state:
            try:
                sizes[parsed.base_offset] = disk.size(f"{folder}/{name}")
            except FileNotFoundError:
                continue
    return sizes


def print_logs(logs: list[LogDescription], *, as_json: bool) -> None:
    if as_json:
        print_json([_as_json(each) for each in logs])
        return
    if not logs:
        note("there is no such log")
        return
    rows = [
        (
            str(each.partition),
            each.segments,
            each.size_bytes,
            each.start,
            each.cleaner_checkpoint,
            "given up" if each.uncleanable is not None else None,
            each.folder,
        )
        for each in logs
    ]
    columns = ("LOG", "SEGMENTS", "BYTES", "START", "CLEANED TO", "COMPACTION", "FOLDER")
    print_table(columns, rows)
    given_up = [(each.partition, each.uncleanable) for each in logs if each.uncleanable is not None]
    for partition, reason in given_up:
        since = datetime.datetime.fromtimestamp(reason.since_ms / 1000, datetime.UTC)
        click.echo(f"\n{partition} cannot be compacted since {since:%Y-%m-%d %H:%M:%S} UTC: {reason.why}")
    if given_up:
        click.echo(f"\n{ADVICE}")


def _as_json(log: LogDescription) -> dict[str, object]:
    reason = None if log.uncleanable is None else log.uncleanable._asdict()
    topic, number = log.partition
    return {**log._asdict(), "partition": {"topic": topic, "partition": number}, "uncleanable": reason}
