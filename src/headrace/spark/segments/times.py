"""Finding offsets by time in files, as a broker does it: by the time indexes, then over a few batches."""

from collections.abc import Sequence

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.disk import Disk
from headrace.log.file_names import TIME_INDEX
from headrace.log.time_index import TimeIndex, without_reserve
from headrace.records.batch import find_record
from headrace.spark.segments.errors import DamagedSegmentError
from headrace.spark.segments.listing import ListedSegment, segment_stem
from headrace.spark.segments.places import open_segment, position_of


def first_at(
    disk: Disk, folder: str, segments: Sequence[ListedSegment], timestamp: int, *, start: int, bound: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record in [start, bound) that is not older; None without one."""
    for number, segment in enumerate(segments):
        if segment.base_offset >= bound:
            return None
        index = _load(disk, folder, segment.base_offset)
        is_last = number + 1 == len(segments)
        if not is_last and (segments[number + 1].base_offset <= start or 0 <= index.last()[0] < timestamp):
            continue
        # No record before this offset is young enough. Records of the same time may precede the entry's.
        search_from = max(index.lookup(timestamp - 1)[1], start)
        found = _search(disk, folder, segment.base_offset, timestamp, search_from, start)
        if found is not None:
            return found if found[0] < bound else None
    return None


def _load(disk: Disk, folder: str, base_offset: int) -> TimeIndex:
    """A segment's time index, empty where it is missing or not one."""
    try:
        data = without_reserve(disk.read_file(segment_stem(folder, base_offset) + TIME_INDEX))
        index = TimeIndex(base_offset, data)
        index.check()
    except (OSError, InvalidBytesError):
        return TimeIndex(base_offset, b"")
    return index


def _search(
    disk: Disk, folder: str, base_offset: int, timestamp: int, search_from: int, start: int
) -> tuple[int, int] | None:
    file = open_segment(disk, folder, base_offset)
    position = position_of(disk, folder, base_offset, file, search_from)
    try:
        for at, header in scan_headers(file, position, file.size()):
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            batch = file.read(at, header.size)
            found = find_record(batch, timestamp_min=timestamp, offset_min=start)
            if found is not None:
                return found
    except (InvalidBytesError, OldFormatError) as error:
        raise DamagedSegmentError(f"{file.path}, searched for time {timestamp}: {error}") from None
    return None
