"""Where batches start in a segment whose index is not on disk yet: found once on the driver, told to tasks.

headrace writes the index of an active segment when it rolls. A task that starts inside of one would have to
walk there over all headers from the file's first byte, and a stream would do so for every micro-batch. The
driver walks instead, each time only over what is new, and keeps what it has found in the index's own format.
"""

import contextlib
from collections.abc import Mapping
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.disk import Disk
from headrace.log.offset_index import OffsetIndex
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.listing import number_of
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.places import leads_to_batch, load_index, open_segment
from headrace.spark.segments.remote_tier import RemoteTier, TieredDisk, open_remote

# A walk over as many bytes takes a task less than opening the file does.
INTERVAL_BYTES: Final = 64 << 10


class KnownPlaces:
    """Of each folder, the index of the segment that was looked at last and had none of its own."""

    def __init__(self, disk: Disk) -> None:
        self._local = self._disk = disk
        self._kept: dict[str, OffsetIndex] = {}

    def show_remote(self, tiers: Mapping[str, RemoteTier]) -> None:
        """Folders of which a part is in a remote store, the same one for all."""
        self._disk = self._local
        for tier in tiers.values():
            self._disk = TieredDisk(self._local, open_remote(tier.store), tiers)
            break

    def index(self, folder: str, base_offset: int, upto: int) -> OffsetIndex:
        """A segment's index, made up for where its own does not reach offset `upto`."""
        try:
            file = open_segment(self._disk, folder, base_offset)
        except NotInFilesError:
            return OffsetIndex(base_offset, b"")
        found = load_index(self._disk, folder, base_offset, file)
        kept = self._kept.get(folder)
        if kept is not None and kept.base_offset == base_offset and _last(kept)[1] > _last(found)[1]:
            found = kept if leads_to_batch(file, *_last(kept)) else found
        last_offset, position = _last(found)
        grown = OffsetIndex(base_offset, bytearray(found.data))
        with contextlib.suppress(InvalidBytesError, OldFormatError):
            for at, header in scan_headers(file, position, file.size()):
                if header.next_offset > upto:
                    break
                if at - position >= INTERVAL_BYTES and header.last_offset > last_offset:
                    grown.append(header.last_offset, at)
                    last_offset, position = header.last_offset, at
        if len(grown) > len(found):
            self._kept[folder] = grown
        return grown

    def hint(self, manifest: PartitionManifest, offset: int) -> tuple[int, int] | None:
        """(offset, position) of a batch at or a little before `offset`, where the files' own index is no
        help."""
        number = number_of(manifest.segments, offset)
        if number < 0:
            return None
        base_offset = manifest.segments[number].base_offset
        place = self.index(manifest.folder, base_offset, offset).lookup(offset)
        return place if place[1] else None


def _last(index: OffsetIndex) -> tuple[int, int]:
    """The last entry; the segment's start where there is none."""
    return index.entry(len(index) - 1) if len(index) else (index.base_offset - 1, 0)
