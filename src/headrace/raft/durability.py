"""What an earlier process left, made as durable as it looks.

A file that can be read need not be on the disk. A new folder's name is lost in a power cut until its parent
is synced. And where a process ended because a sync failed, its last records can still be read, but from the
page cache alone: the system takes those pages for clean and never writes them again, so a later power cut
would tear a hole under records that were synced since. Both must be put right before anything is built on
them.
"""

from itertools import pairwise
from typing import Final

from headrace.log.disk import Disk
from headrace.log.file_names import LOG, parse_segment_file

HALF_MADE: Final = ".tmp"
"""What the name of a copy ends with until it is whole."""


def make_durable_folder(disk: Disk, path: str) -> None:
    """Make a folder and the parents it lacks, and sync the name of each. Blocks."""
    made = []
    missing = path.rstrip("/")
    while missing and not disk.exists(missing):
        made.append(missing)
        missing = missing.rpartition("/")[0]
    disk.make_folder(path)
    for folder in made:
        disk.sync_folder(folder.rpartition("/")[0] or ("/" if folder.startswith("/") else "."))


def renew_segments(disk: Disk, folder: str, start: int) -> None:
    """Replace each segment that has records from `start` on by a synced copy of itself. Blocks.

    A copy, for a write in place that a power cut interrupts may damage what was durable before.
    """
    bases: list[int | None] = []
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.suffix != LOG:
            continue
        if not parsed.state:
            bases.append(parsed.base_offset)
        elif parsed.state == HALF_MADE:
            disk.remove(f"{folder}/{name}")
    for base, following in pairwise([*bases, None]):
        path = f"{folder}/{base:020}{LOG}"
        if (following is None or following > start) and disk.size(path):
            disk.replace_file(path, disk.read_file(path))
