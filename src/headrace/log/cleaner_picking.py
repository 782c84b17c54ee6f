"""Which log to compact next, and how far.

A log has a clean part, which an earlier round has been through, and a dirty part behind it. A round may go up
to a segment's start: never into the active segment, never past the last stable offset, and not to records
younger than `min.compaction.lag.ms`. The log with the largest dirty share goes first, if that is above
`min.cleanable.dirty.ratio`, or if a record waits longer than `max.compaction.lag.ms` allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.log.partition_log import PartitionLog
from headrace.settings.definition import LONG_MAX


@dataclass(frozen=True, slots=True)
class Cleanable:
    """What a round on a log would find. Offsets from `first_dirty` to before `bound` are dirty and may be
    cleaned."""

    log: PartitionLog
    first_dirty: int
    bound: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def look_at(log: PartitionLog, now_ms: int) -> Cleanable:
    """How much of a log there is to clean now."""
    segments = log.segments
    first_dirty = max(log.cleaned_to or 0, log.local_start_offset)
    first_number = max(segments.number_of(first_dirty), 0)
    end_number = max(segments.number_of(min(log.last_stable_offset, segments.active.base_offset)), 0)
    config = log.config
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        for number in range(first_number, end_number):
            if segments[number].largest_timestamp() > youngest_ms:
                end_number = number
                break
    dirty = [segments[number] for number in range(first_number, end_number)]
    is_overdue = config.max_compaction_lag_ms < LONG_MAX and any(
        segment.size and segment.age_ms(now_ms, now_ms) > config.max_compaction_lag_ms for segment in dirty
    )
    return Cleanable(
        log=log,
        first_dirty=first_dirty,
        bound=segments[end_number].base_offset,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        dirty_bytes=sum(segment.size for segment in dirty),
        is_overdue=is_overdue,
    )


def may_be_cleaned(log: PartitionLog) -> bool:
    """Whether it is there, and its topic's settings still ask for it."""
    return log.failure is None and log.config.compacts


def worth_cleaning(log: PartitionLog, now_ms: int) -> Cleanable | None:
    """What a round would find; None where there is none to be. Reads the disk, and raises what it raises."""
    if not may_be_cleaned(log) or len(log.segments) < 2:
        return None
    found = look_at(log, now_ms)
    return found if found.is_worth_it else None


def dirtiest_first(found: Iterable[Cleanable]) -> list[Cleanable]:
    """In which order logs have their turn."""
    return sorted(found, key=lambda each: each.dirty_ratio, reverse=True)
