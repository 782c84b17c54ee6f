"""How lags and end offsets went, for the charts, and how much memory that may take.

A console has courses for each person who is logged in, since each may see other topics and groups. All of
them together have one `CourseMemory`: who needs little gets it, and the others share the rest evenly. What
has no room any more is what stands lowest: groups with the smallest lag, topics with the fewest records.
"""

import logging
from array import array
from collections.abc import Iterable, Mapping
from heapq import nlargest, nsmallest
from typing import Final

log = logging.getLogger(__name__)

SAMPLES_MAX: Final = 720
"""An hour at the shortest pause."""
SERIES_BYTES: Final = SAMPLES_MAX * 8 * 17 // 16 + 200
"""What one name takes at the most: arrays grow by a sixteenth ahead."""
SERIES_MAX: Final = 20_000
"""Topics, or groups, of one course."""
BYTES_MAX: Final = 512 << 20
"""All courses of a console."""
_UNKNOWN: Final = -1


class CourseMemory:
    """What the courses of a console may take together."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.series_max = bytes_max // SERIES_BYTES
        self._wanted: dict[int, int] = {}
        self._told = False

    def room(self, course: "Course", wanted: int) -> int:
        """How many names a course may keep that has so many."""
        self._wanted[id(course)] = min(wanted, SERIES_MAX)
        left, room = self.series_max, 0
        wishes = sorted(self._wanted.values())
        for at, wish in enumerate(wishes):
            room = left // (len(wishes) - at)
            if wish > room:
                break
            left -= wish
        else:
            room = SERIES_MAX
        if wanted > min(room, SERIES_MAX) and not self._told:
            self._told = True
            log.warning("charts are kept of %d topics and groups; the others have none", self.series_max)
        return min(room, SERIES_MAX)

    def leave(self, course: "Course") -> None:
        self._wanted.pop(id(course), None)


class Course:
    """How figures of many names went: columns of samples, all taken at the same times."""

    def __init__(self, memory: CourseMemory | None = None) -> None:
        self._memory = memory or CourseMemory()
        self._columns: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, values: Mapping[str, int], at: int) -> None:
        """The sample number `at`, of those that are kept; the names that are gone are forgotten."""
        room = self._memory.room(self, len(values))
        for name in [name for name in self._columns if name not in values]:
            del self._columns[name]
        if len(self._columns) > room:
            for name in nsmallest(len(self._columns) - room, self._columns, key=values.__getitem__):
                del self._columns[name]
        for name, column in self._columns.items():
            column.append(values[name])
            if len(column) > SAMPLES_MAX:
                del column[0]
        for name in self._newcomers(values, room - len(self._columns)):
            self._columns[name] = array("q", [_UNKNOWN]) * at
            self._columns[name].append(values[name])

    def _newcomers(self, values: Mapping[str, int], room: int) -> Iterable[str]:
        found = [name for name in values if name not in self._columns]
        return found if len(found) <= room else nlargest(room, found, key=values.__getitem__)

    def of(self, name: str) -> list[int | None]:
        return [None if value == _UNKNOWN else value for value in self._columns.get(name, ())]

    def last(self, name: str, count: int = 1) -> list[int | None]:
        return [
            None if value == _UNKNOWN else value for value in self._columns.get(name, array("q"))[-count:]
        ]

    def close(self) -> None:
        """Forget everything, and leave its room to others."""
        self._columns.clear()
        self._memory.leave(self)


def rate_of(times: list[int], sums: list[int | None]) -> float | None:
    """What was written a second between the first and the last; None where that is not known."""
    if len(times) < 2 or len(sums) < 2 or sums[0] is None or sums[-1] is None or times[-1] <= times[0]:
        return None
    # A topic that was deleted and made again begins at 0.
    return max(0, sums[-1] - sums[0]) * 1000 / (times[-1] - times[0])


def rates_of(times: Iterable[int], sums: list[int | None]) -> list[float | None]:
    """The course of a rate, one shorter than its samples."""
    moments = list(times)[-len(sums) :] if sums else []
    return [rate_of(moments[at : at + 2], sums[at : at + 2]) for at in range(len(sums) - 1)]
