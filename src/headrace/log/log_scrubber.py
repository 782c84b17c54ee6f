"""Looking for batches that were damaged at rest, before somebody needs them.

Recovery checks what lies behind the recovery point, and nobody checks the rest: a batch whose bytes have
changed on the disk would be sent as it is, and only consumers would look at its CRC, not all of them. So all
that was there when a node started is read once, slowly, in slices that a thread works on (`ScrubSlice.run`),
and again every so often. What is damaged is told; a replica that has others steps back and fetches it again,
as what is missing (`missing_records`).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, scan_batches
from headrace.log.log_directory import LogDirectory
from headrace.log.log_segment import LogSegment
from headrace.log.missing_records import note_damaged
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import crc_matches

# Ten slices a second are the usual 10 MiB/s; of small batches so few that nobody waits for their checks.
SLICE_BYTES: Final = 1 << 20
SLICE_BATCHES: Final = 200
# A node may have a hundred thousand logs, most of them short: so many are looked at in a turn of the loop.
SLICE_LOGS: Final = 200


@dataclass(slots=True)
class Scrubbing:
    """A segment as it was when its log's turn came, and how far it has been read."""

    log: UnifiedLog
    segment: LogSegment
    generation: int
    size: int
    end_offset: int
    position: int = 0
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class DamagedBatches:
    """Offsets whose bytes are not those that were written."""

    of: Scrubbing
    first_offset: int
    last_offset: int
    what: str


@dataclass(slots=True)
class ScrubSlice:
    """A part of the work: `run` blocks, in a thread; `finish` tells on the loop what it found."""

    folder: LogDirectory
    logs: deque[UnifiedLog]
    left: deque[Scrubbing] = field(default_factory=deque)
    found: list[DamagedBatches] = field(default_factory=list)
    bytes_read: int = 0
    """By the last `run`."""

    @property
    def is_over(self) -> bool:
        return not self.left and not self.logs

    def run(self) -> None:
        """OSError where the disk fails."""
        budget = [SLICE_BYTES, SLICE_BATCHES]
        while self.left and min(budget) > 0:
            if self._read(self.left[0], budget):
                self.left.popleft()
        self.bytes_read = SLICE_BYTES - budget[0]

    def _read(self, place: Scrubbing, budget: list[int]) -> bool:
        """Whether the segment has been read to its end."""
        try:
            file = self.folder.disk.open(place.segment.path, writable=False)
            for position, header, batch in scan_batches(file, place.position, place.size):
                if min(budget) <= 0:
                    return False
                if not crc_matches(batch, 0, header):
                    what = f"the CRC of the batch at byte {position} of {place.segment.path} does not match"
                    self.found.append(DamagedBatches(place, header.base_offset, header.last_offset, what))
                place.position, place.next_offset = position + header.size, header.next_offset
                budget[0] -= header.size
                budget[1] -= 1
        except FileNotFoundError:
            pass  # deleted meanwhile
        except (InvalidBytesError, OldFormatError) as error:
            what = f"{place.segment.path}: {error}"
            self.found.append(DamagedBatches(place, place.next_offset, place.end_offset - 1, what))
        return True

    def finish(self) -> None:
        for damage in self.found:
            log = damage.of.log
            is_here = log.generation == damage.of.generation and any(
                segment is damage.of.segment for segment in log.segments
            )
            if is_here and log.failure is None and damage.last_offset >= log.log_start_offset:
                note_damaged(log, damage.first_offset, damage.last_offset, damage.what)
        self.found.clear()
        self.take_logs()

    def take_logs(self) -> None:
        """Note the segments of the next logs, where those of the last ones have been read."""
        for _ in range(SLICE_LOGS):
            if self.left or not self.logs:
                return
            self.left.extend(_segments_of(self.logs.popleft()))


def begin_scrub(folder: LogDirectory) -> ScrubSlice:
    """All logs that a folder has now."""
    scrub = ScrubSlice(folder, deque(folder.logs.values()))
    scrub.take_logs()
    return scrub


def _segments_of(log: UnifiedLog) -> list[Scrubbing]:
    segments = log.segments.from_number(0)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    return [
        Scrubbing(log, segment, log.generation, segment.size, end, next_offset=segment.base_offset)
        for segment, end in zip(segments, ends, strict=True)
        if segment.size
    ]
