"""Which segments a partition's folder has now, though a broker may be changing it.

Retention takes segments from the front and renames their files to `.deleted` first. Compaction puts a
`.swap` file in the place of one or several segments; for a moment neither the old nor the new one has its
name, and a list taken then would lack records. So a list counts only when nothing is being swapped in and a
second look shows the same.
"""

import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.log.disk import Disk
from headrace.log.file_names import LOG, SWAP, TXN_INDEX, offset_name, parse_segment_file
from headrace.spark.segments.errors import NotInFilesError

# A swap is two renames for each file: a second is far more than a broker takes.
LOOKS_MAX: Final = 100
LOOK_AGAIN_S: Final = 0.01


class ListedSegment(NamedTuple):
    """A segment's `.log` file as it was when the folder was listed."""

    base_offset: int
    size: int
    has_aborted: bool


def segment_stem(folder: str, base_offset: int) -> str:
    """The path of a segment's files without their suffix."""
    return f"{folder}/{offset_name(base_offset)}"


def number_of(segments: Sequence[ListedSegment], offset: int) -> int:
    """The number of the segment that holds `offset`; -1 where it lies before all."""
    return bisect_right(segments, offset, key=lambda each: each.base_offset) - 1


def list_segments(disk: Disk, folder: str) -> tuple[ListedSegment, ...]:
    """The segments in order; NotInFilesError where there is no such folder, or it does not come to rest."""
    before: list[int] | None = None
    for look in range(LOOKS_MAX):
        if look > 1:
            time.sleep(LOOK_AGAIN_S)
        found = _look(disk, folder)
        bases = None if found is None else [each.base_offset for each in found]
        if found is not None and bases == before:
            return found  # sizes may differ: the last segment grows
        before = bases
    raise NotInFilesError(
        f"{folder} has segments that are being swapped in by a compaction: where no broker works on it any "
        f"more, start one on it once, so that it finishes"
    )


def _look(disk: Disk, folder: str) -> tuple[ListedSegment, ...] | None:
    """None while the folder is changing."""
    try:
        names = disk.list(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NotInFilesError(f"{folder} cannot be read from here: {error.strerror}") from None
    files = [parsed for parsed in map(parse_segment_file, names) if parsed is not None]
    if any(file.state == SWAP for file in files):
        return None
    aborted = {file.base_offset for file in files if file.suffix == TXN_INDEX and not file.state}
    bases = sorted(file.base_offset for file in files if file.suffix == LOG and not file.state)
    try:
        return tuple(
            ListedSegment(base, disk.size(segment_stem(folder, base) + LOG), base in aborted)
            for base in bases
        )
    except FileNotFoundError:
        return None
