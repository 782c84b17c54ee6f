"""Putting a cleaned segment in the place of those it was made from.

Everything happens in one turn of the loop, by renames alone: the new files, whole and synced, become `.swap`,
the old ones `.deleted`, the new ones lose their suffix. A file system keeps the order of renames in a folder,
so a crash leaves either a `.cleaned` file, and the old segments, or every new file as `.swap` or under its
real name: `leftovers` goes on from there. The log comes first when suffixes are lost: indexes without a
`.swap` log beside them are taken as they are.

A reply that is being sent keeps the old file open, and ends with what it began with.
"""

from typing import TYPE_CHECKING

from headrace.log.file_names import CLEANED, SWAP
from headrace.log.segment import Segment
from headrace.log.segment_files import mark_deleted

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog


def swap_in(
    log: "PartitionLog", old: list[Segment], new: Segment, suffixes: tuple[str, ...], now_ms: int
) -> None:
    """Replace `old`, neighbours in the log, by `new`, whose files are `.cleaned`. OSError where the disk
    fails half-way: then the folder must go offline, and the next start settles it."""
    disk = log.storage.disk
    for suffix in suffixes:
        disk.rename(new.stem + suffix + CLEANED, new.stem + suffix + SWAP)
    due_ms = now_ms + log.config.file_delete_delay_ms
    for segment in old:
        for path in mark_deleted(log.storage, segment):
            log.storage.removals.schedule(path, due_ms)
    for suffix in suffixes:
        disk.rename(new.stem + suffix + SWAP, new.stem + suffix)
    log.segments.replace(old, new)
    log.owed.note_folders(log.folder)
    for segment in old[1:]:
        log.snapshots.remove(segment.base_offset)


def are_in_place(log: "PartitionLog", old: list[Segment]) -> bool:
    """Whether the log still has these segments, one behind the other."""
    number = log.segments.number_of(old[0].base_offset)
    found = log.segments.from_number(number)[: len(old)] if number >= 0 else []
    return len(found) == len(old) and all(a is b for a, b in zip(found, old, strict=True))
