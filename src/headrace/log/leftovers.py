"""What an interrupted deletion or compaction left in a partition's folder, settled before the log is opened.

`.deleted` files go. `.cleaned` files are a compaction that did not finish: they go, and with them every
`.swap` at or behind the first of them, because a group of segments is swapped in together. The `.swap` files
that remain are whole: the segments they replace go, and they take their names.
"""

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import scan_headers
from headrace.log.disk import Disk
from headrace.log.file_names import CLEANED, DELETED, LOG, SNAPSHOT, SWAP, SegmentFile, parse_segment_file


def settle_leftovers(disk: Disk, folder: str) -> list[SegmentFile]:
    """Remove or rename leftovers; the segment and snapshot files that make up the log, in order."""
    found: dict[str, SegmentFile] = {}
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if name.endswith(DELETED):
            disk.remove(f"{folder}/{name}")
        elif parsed is not None:
            found[name] = parsed
    cleaned = [file.base_offset for file in found.values() if file.state == CLEANED]
    for name, file in list(found.items()):
        unfinished = file.state == SWAP and bool(cleaned) and file.base_offset >= min(cleaned)
        if file.state == CLEANED or unfinished:
            disk.remove(f"{folder}/{name}")
            del found[name]
    _swap_in(disk, folder, found)
    return _without_orphans(disk, folder, [file for file in found.values() if not file.state])


def _swap_in(disk: Disk, folder: str, found: dict[str, SegmentFile]) -> None:
    swaps = {name: file for name, file in found.items() if file.state == SWAP}
    logs = {name: file for name, file in swaps.items() if file.suffix == LOG}
    if logs:
        first = min(file.base_offset for file in logs.values())
        end = max(_end_offset(disk, f"{folder}/{name}", file) for name, file in logs.items())
        for name, file in list(found.items()):
            if not file.state and file.suffix != SNAPSHOT and first <= file.base_offset < end:
                disk.remove(f"{folder}/{name}")
                del found[name]
    # Logs first: an index beside a log that is still to be swapped in would be taken for an old one.
    for name, file in sorted(swaps.items(), key=lambda item: item[1].suffix != LOG):
        final = name.removesuffix(SWAP)
        disk.rename(f"{folder}/{name}", f"{folder}/{final}")
        del found[name]
        found[final] = file._replace(state="")


def _end_offset(disk: Disk, path: str, file: SegmentFile) -> int:
    end = file.base_offset + 1
    try:
        for _, header in scan_headers(disk.open(path, writable=False), 0, disk.size(path)):
            end = header.next_offset
    except InvalidBytesError:
        pass  # recovery cuts it there
    return end


def _without_orphans(disk: Disk, folder: str, files: list[SegmentFile]) -> list[SegmentFile]:
    """An index without its log indexes nothing."""
    bases = {file.base_offset for file in files if file.suffix == LOG}
    kept = []
    for file in sorted(files):
        if file.suffix == SNAPSHOT or file.base_offset in bases:
            kept.append(file)
        else:
            disk.remove(f"{folder}/{file.base_offset:020}{file.suffix}")
    return kept
