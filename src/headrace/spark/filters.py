"""Filters that Spark hands down, as bounds on topics, partitions, offsets and times.

All filters of a query hold together, so each narrows what is there. What is not understood, or only partly
used (the timestamp), is handed back, and Spark applies it to the rows it gets. Spark 4.0 hands down none, and
has no classes for them: they are named where they are used.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource as spark

from headrace.base.ids import TopicPartition
from headrace.spark.ranges import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_ALWAYS_SET: Final = {"topic", "partition", "offset", "timestamp", "timestampType"}
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Test = Callable[[Any], bool]


class PushedFilters:
    """What is left after the filters so far. Tasks get it without its tests, which only planning needs."""

    def __init__(self) -> None:
        self._topic_tests: list[Test] = []
        self._partition_tests: list[Test] = []
        self._offsets = (_LEAST, _MOST)
        self._times = (_LEAST, _MOST)

    def __getstate__(self) -> dict[str, Any]:
        return {"_offsets": self._offsets, "_times": self._times, "_topic_tests": [], "_partition_tests": []}

    @property
    def window(self) -> TimeWindow | None:
        return None if self._times == (_LEAST, _MOST) else TimeWindow(*self._times)

    def accepts(self, partition: TopicPartition) -> bool:
        """Whether any row of a partition can be wanted."""
        return all(test(partition.topic) for test in self._topic_tests) and all(
            test(partition.partition) for test in self._partition_tests
        )

    def first_offset(self, start: int) -> int:
        return max(start, self._offsets[0])

    def end_offset(self, end: int) -> int:
        return min(end, self._offsets[1] + 1)

    def take(self, filters: "Iterable[Filter]") -> "list[Filter]":
        """Narrow by these; returns those that Spark must apply."""
        return [each for each in filters if not self._take(each)]

    def _take(self, given: "Filter") -> bool:
        """Whether nothing of a filter is left to do."""
        column = _column(given)
        if isinstance(given, spark.IsNotNull):
            return column in _ALWAYS_SET
        if column in ("topic", "partition"):
            test = _test(given)
            if test is not None:
                (self._topic_tests if column == "topic" else self._partition_tests).append(test)
            return test is not None
        if column == "offset":
            bounds = _bounds(given, _whole)
            if bounds is not None:
                self._offsets = _narrower(self._offsets, bounds)
            return bounds is not None
        if column == "timestamp":
            bounds = _bounds(given, _microseconds)
            if bounds is not None:
                self._times = _narrower(self._times, bounds)
        return False


def _column(given: "Filter") -> str:
    inner = given.child if isinstance(given, spark.Not) else given
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _narrower(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    """A time with its zone; one without would depend on the session's."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND


def _bounds(given: "Filter", number_of: Callable[[Any], int | None]) -> tuple[int, int] | None:
    """The least and the most that a filter lets pass; None where it is not of that kind."""
    if isinstance(given, spark.In):
        numbers = [number_of(each) for each in given.value]
        # Only where the values have no gaps is a range of them the same.
        known = sorted(each for each in numbers if each is not None)
        if not known or len(known) != len(numbers) or known[-1] - known[0] != len(set(known)) - 1:
            return None
        return known[0], known[-1]
    number = number_of(getattr(given, "value", None))
    if number is None:
        return None
    if isinstance(given, spark.EqualTo | spark.EqualNullSafe):
        return number, number
    if isinstance(given, spark.GreaterThan):
        return number + 1, _MOST
    if isinstance(given, spark.GreaterThanOrEqual):
        return number, _MOST
    if isinstance(given, spark.LessThan):
        return _LEAST, number - 1
    if isinstance(given, spark.LessThanOrEqual):
        return _LEAST, number
    return None


def _test(given: "Filter") -> Test | None:
    """A filter on a column that all rows of a partition have in common."""
    if isinstance(given, spark.Not):
        inner = _test(given.child)
        return None if inner is None else (lambda value: not inner(value))
    wanted = getattr(given, "value", None)
    if wanted is None or (isinstance(given, spark.In) and None in wanted):
        return None
    tests: dict[type[Filter], Test] = {
        spark.EqualTo: lambda value: bool(value == wanted),
        spark.EqualNullSafe: lambda value: bool(value == wanted),
        spark.In: lambda value: value in wanted,
        spark.GreaterThan: lambda value: bool(value > wanted),
        spark.GreaterThanOrEqual: lambda value: bool(value >= wanted),
        spark.LessThan: lambda value: bool(value < wanted),
        spark.LessThanOrEqual: lambda value: bool(value <= wanted),
        spark.StringStartsWith: lambda value: value.startswith(wanted),
        spark.StringEndsWith: lambda value: value.endswith(wanted),
        spark.StringContains: lambda value: wanted in value,
    }
    return tests.get(type(given))
