"""Which log to compact next, and how far.

A log has a clean part, which an earlier round has been through, and a dirty part behind it. A round may go up
to a segment's start: never into the active segment, never past the last stable offset, and not to records
younger than `min.compaction.lag.ms`. The log with the largest dirty share goes first, if that is above
`min.cleanable.dirty.ratio`, or if a record waits longer than `max.compaction.lag.ms` allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.log.unified_log import UnifiedLog
from headrace.settings.definition import LONG_MAX


@dataclass(frozen=True, slots=True)
class LogToClean:
    """What a round on a log would find. Offsets from `first_dirty_offset` to before
    `first_uncleanable_offset` are dirty and may be cleaned."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    need_compaction_now: bool

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        if not self.cleanable_bytes:
            return False
        return self.need_compaction_now or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: UnifiedLog, now_ms: int) -> LogToClean:
    """How much of a log there is to clean now."""
    segments = log.segments
    first_dirty_offset = max(log.cleaner_checkpoint or 0, log.local_start_offset)
    first_number = max(segments.number_of(first_dirty_offset), 0)
    end_number = max(segments.number_of(min(log.last_stable_offset, segments.active.base_offset)), 0)
    config = log.config
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        for number in range(first_number, end_number):
            if segments[number].largest_timestamp() > youngest_ms:
                end_number = number
                break
    dirty = [segments[number] for number in range(first_number, end_number)]
    need_compaction_now = config.max_compaction_lag_ms < LONG_MAX and any(
        segment.size and segment.age_ms(now_ms, now_ms) > config.max_compaction_lag_ms for segment in dirty
    )
    return LogToClean(
        log=log,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=segments[end_number].base_offset,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty_offset),
        cleanable_bytes=sum(segment.size for segment in dirty),
        need_compaction_now=need_compaction_now,
    )


def may_be_cleaned(log: UnifiedLog) -> bool:
    """Whether it is there, and its topic's settings still ask for it."""
    return log.failure is None and log.config.compacts


def worth_cleaning(log: UnifiedLog, now_ms: int) -> LogToClean | None:
    """What a round would find; None where there is none to be. Reads the disk, and raises what it raises."""
    if not may_be_cleaned(log) or len(log.segments) < 2:
        return None
    found = log_to_clean(log, now_ms)
    return found if found.is_worth_it else None


def filthiest_first(found: Iterable[LogToClean]) -> list[LogToClean]:
    """In which order logs have their turn."""
    return sorted(found, key=lambda each: each.cleanable_ratio, reverse=True)
