"""Where in a segment's file an offset is: by the sparse index beside it, then over a few batch headers.

The index is a hint. headrace writes that of an active segment when it rolls, Apache Kafka reserves room in
it, and a copy may have caught it half written: what does not lead to a batch of this file is not followed,
and the walk then starts at the file's beginning.
"""

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, scan_batches, scan_headers
from headrace.log.disk import Disk, File
from headrace.log.file_names import INDEX, LOG
from headrace.log.offset_index import OffsetIndex, without_reserve
from headrace.records.batch import HEADER_BYTES, MAGIC, crc_matches, read_header
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError
from headrace.spark.segments.listing import segment_stem


def open_segment(disk: Disk, folder: str, base_offset: int) -> File:
    """The `.log` file; NotInFilesError where it is gone."""
    path = segment_stem(folder, base_offset) + LOG
    try:
        return disk.open(path, writable=False)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NotInFilesError(f"{path} cannot be opened: {error.strerror}") from None


def load_index(disk: Disk, folder: str, base_offset: int, file: File) -> OffsetIndex:
    """A segment's offset index, empty where it is missing or not one."""
    try:
        data = without_reserve(disk.read_file(segment_stem(folder, base_offset) + INDEX))
        index = OffsetIndex(base_offset, data)
        index.check(file.size())  # asked after the index was read: the file may grow
    except (OSError, InvalidBytesError):
        return OffsetIndex(base_offset, b"")
    return index


def position_of(
    disk: Disk, folder: str, base_offset: int, file: File, offset: int, hint: tuple[int, int] | None = None
) -> int:
    """Where the first batch that ends at or behind `offset` starts; the file's size where there is none.

    A `hint` is what an entry of an index is: (last offset, position) of a batch.
    """
    size = file.size()
    try:
        start = _near(load_index(disk, folder, base_offset, file), file, offset)
        if hint is not None and hint[0] <= offset and hint[1] > start and leads_to_batch(file, *hint):
            start = hint[1]
        for position, header in scan_headers(file, start, size):
            if header.last_offset >= offset:
                return position
    except (InvalidBytesError, OldFormatError) as error:
        raise DamagedSegmentError(f"{file.path}, on the way to offset {offset}: {error}") from None
    return size


def _near(index: OffsetIndex, file: File, offset: int) -> int:
    """Where a batch starts that lies at or before `offset`; 0 where the index leads astray."""
    entry_offset, position = index.lookup(offset)
    return position if position and leads_to_batch(file, entry_offset, position) else 0


def leads_to_batch(file: File, offset: int, position: int) -> bool:
    """Whether the batch at `position` is one that holds `offset`, as an entry of an index says."""
    window = file.read(position, HEADER_BYTES)
    if len(window) < HEADER_BYTES:
        return False
    header = read_header(window)
    return header.magic == MAGIC and header.base_offset <= offset <= header.last_offset


def end_of_batches(disk: Disk, folder: str, base_offset: int) -> tuple[int, bool]:
    """The offset behind the last whole, sound batch of a segment, and whether what follows it is no batch at
    all, rather than nothing or one that is not written to its end.

    Batches are looked at from the last entry of the index on: what lies before was complete when the entry
    was written, and its CRC is checked when it is read.
    """
    file = open_segment(disk, folder, base_offset)
    index = load_index(disk, folder, base_offset, file)
    start = _near(index, file, index.entry(len(index) - 1)[0]) if len(index) else 0
    end_offset = base_offset
    position, size = start, file.size()
    try:
        for at, header, batch in scan_batches(file, start, size):
            if not crc_matches(batch, 0, header) or header.base_offset < end_offset:
                return end_offset, True
            end_offset, position = header.next_offset, at + header.size
    except InvalidBytesError:
        return end_offset, not _is_cut_off(file, position, size)
    except OldFormatError as error:
        raise DamagedSegmentError(f"{file.path}: {error}") from None
    return end_offset, False


def _is_cut_off(file: File, position: int, size: int) -> bool:
    """Whether a batch starts here whose end the file does not reach."""
    window = file.read(position, HEADER_BYTES)
    if len(window) < HEADER_BYTES:
        return True
    header = read_header(window)
    return header.magic == MAGIC and position + header.size > size
