"""When runs of a pipeline begin: `every 15 minutes`, or the five fields of cron, in UTC.

    schedule: every 15 minutes
    schedule: 30 3 * * 1-5          minute, hour, day, month, day of the week (0 and 7 are Sunday)

Fields are `*`, numbers, ranges, lists and steps. As in cron, where both days are limited either will do. Runs
with an interval begin at its multiples since 1970, so that a restart does not move them. One that would
begin while the last one still runs is left out.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS_MS: Final = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
# The 29th of February of a certain weekday comes within 40 years.
_DAYS_MAX: Final = 366 * 40
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """See above: an interval, or cron's fields."""

    text: str
    every_ms: int | None = None
    fields: tuple[frozenset[int], ...] = ()
    is_any_day: bool = True
    is_any_weekday: bool = True

    def next_ms(self, now_ms: int) -> int:
        """The first beginning after that time."""
        if self.every_ms is not None:
            return (now_ms // self.every_ms + 1) * self.every_ms
        at_ms = (now_ms // _MINUTE_MS + 1) * _MINUTE_MS
        for _ in range(_DAYS_MAX):
            if self._has_day(at_ms):
                found = self._within_day(at_ms)
                if found is not None:
                    return found
            at_ms = (at_ms // _DAY_MS + 1) * _DAY_MS
        raise AssertionError("read_schedule has let a schedule pass that never begins")

    def _within_day(self, at_ms: int) -> int | None:
        minutes, hours = self.fields[:2]
        first = at_ms % _DAY_MS // _MINUTE_MS
        day_ms = at_ms - at_ms % _DAY_MS
        for minute in range(first, 24 * 60):
            if minute // 60 in hours and minute % 60 in minutes:
                return day_ms + minute * _MINUTE_MS
        return None

    def _has_day(self, at_ms: int) -> bool:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        _, _, days, months, weekdays = self.fields
        is_day, is_weekday = at.day in days, at.isoweekday() % 7 in weekdays
        if not self.is_any_day and not self.is_any_weekday:
            return at.month in months and (is_day or is_weekday)
        return at.month in months and is_day and is_weekday


def read_schedule(text: str) -> Schedule:
    """ValueError says what would do."""
    if match := re.fullmatch(r"every (\d+) (second|minute|hour|day)s?", text):
        count = int(match[1])
        if count == 0:
            raise ValueError("a schedule is every 1 second or more, not every 0")
        return Schedule(text, every_ms=count * _UNITS_MS[match[2]])
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(
            f"a schedule is `every 15 minutes`, or cron's minute hour day month weekday; not {text!r}"
        )
    found = [
        _numbers(part, name, least, most) for part, (name, least, most) in zip(parts, _FIELDS, strict=True)
    ]
    found[4] = frozenset(each % 7 for each in found[4])
    schedule = Schedule(text, None, tuple(found), parts[2] == "*", parts[4] == "*")
    start = datetime(2000, 1, 1, tzinfo=UTC)
    days = (start + timedelta(days) for days in range(_DAYS_MAX))
    if not any(schedule._has_day(int(day.timestamp() * 1000)) for day in days):
        raise ValueError(f"the schedule {text!r} has no day at all")
    return schedule


def _numbers(part: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for piece in part.split(","):
        match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", piece)
        if match is None:
            raise ValueError(f"{piece!r} is no {name} of a schedule: write *, 5, 1-5, */10 or a list of them")
        first = least if match[1] is None else int(match[1])
        last = most if match[1] is None or (match[3] and not match[2]) else int(match[2] or match[1])
        step = int(match[3] or 1)
        if not least <= first <= last <= most or step == 0:
            raise ValueError(f"{piece!r} is no {name} of a schedule: there are {least} to {most}")
        found.update(range(first, last + 1, step))
    return frozenset(found)
