"""What one query tells another about offsets that it need not read."""

from pathlib import Path

import pytest

from headrace.base.ids import TopicPartition
from headrace.spark.checked_ranges import CheckedLog, CheckedRanges
from headrace.spark.ranges import OffsetRange

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def of(start: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("a", partition, start, end)


@pytest.fixture
def log(tmp_path: Path) -> CheckedLog:
    return CheckedLog(tmp_path / "checked")


@pytest.fixture
def ranges(log: CheckedLog) -> CheckedRanges:
    return CheckedRanges(str(log.path))


def test_of_what_nobody_has_looked_at_all_is_read(ranges: CheckedRanges) -> None:
    ranges.refresh()
    assert ranges.is_silent
    assert ranges.left([of(0, 10)]) == [of(0, 10)]
    assert ranges.reached({A0: 10}, {A0: 3}) == {A0: 3}


def test_what_is_clean_is_left_out(log: CheckedLog, ranges: CheckedRanges) -> None:
    log.note([of(10, 50)], [of(20, 30), of(28, 35)], {A0: 50})
    log.note([of(50, 70)], [], {A0: 70, A1: 4})
    ranges.refresh()
    assert ranges.left([of(0, 80), of(0, 4, 1)]) == [of(0, 10), of(20, 35), of(70, 80), of(0, 4, 1)]
    assert ranges.left([of(22, 24), of(40, 60)]) == [of(22, 24)]
    assert ranges.reached({A0: 100, A1: 100}, {A0: 5, A1: 9}) == {A0: 70, A1: 9}


def test_it_is_read_on_and_a_line_that_is_being_written_waits(log: CheckedLog, ranges: CheckedRanges) -> None:
    log.note([of(0, 10)], [], {A0: 10})
    ranges.refresh()
    whole = log.path.read_bytes()
    log.note([of(10, 20)], [of(12, 14)], {A0: 20})
    both = log.path.read_bytes()
    log.path.write_bytes(both[:-5])
    ranges.refresh()
    assert ranges.left([of(0, 20)]) == [of(10, 20)]
    assert both.startswith(whole)
    log.path.write_bytes(both)
    ranges.refresh()
    assert ranges.left([of(0, 20)]) == [of(12, 14)]


def test_what_is_done_is_forgotten(log: CheckedLog, ranges: CheckedRanges) -> None:
    log.note([of(0, 10), of(20, 30)], [of(22, 23)], {A0: 30})
    ranges.refresh()
    ranges.forget({A0: 20})
    assert ranges.left([of(0, 10), of(20, 30)]) == [of(0, 10), of(22, 23)]
