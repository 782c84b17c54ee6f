"""What the driver works out without a cluster: ranges, checkpoints, limits, filters."""

import json
import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StringType, StructField, StructType

from headrace.base.ids import TopicPartition
from headrace.spark.columns import check_schema, spark_schema
from headrace.spark.filters import PushedFilters
from headrace.spark.offsets import offsets_from_json, offsets_json
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options
from headrace.spark.ranges import OffsetRange, split
from headrace.spark.source_progress import described, lag_json, source_metrics
from headrace.spark.stream_offset import StreamOffset, batch_ranges, limited

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


# Ranges


def test_empty_ranges_are_left_out() -> None:
    assert split([OffsetRange("a", 0, 5, 5), OffsetRange("a", 1, 5, 6)]) == [OffsetRange("a", 1, 5, 6)]


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_no_piece_has_more_than_was_asked_for(most: int) -> None:
    ranges = [OffsetRange("a", 0, 10, 35), OffsetRange("a", 1, 0, 3)]
    pieces = split(ranges, max_records=most)
    assert all(0 < each.size <= most for each in pieces)
    assert joined(pieces) == ranges
    assert len(pieces) == -(-25 // most) + -(-3 // most)


@pytest.mark.parametrize("wanted", [1, 2, 5, 10, 40])
def test_large_ranges_are_cut_until_there_are_enough(wanted: int) -> None:
    ranges = [OffsetRange("a", 0, 0, 1000), OffsetRange("a", 1, 7, 9), OffsetRange("b", 0, 0, 500)]
    pieces = split(ranges, min_partitions=wanted)
    assert joined(pieces) == ranges
    assert abs(len(pieces) - max(3, wanted)) <= 1
    large = [each.size for each in pieces if each.partition != 1]
    if wanted >= 10:
        assert max(large) <= 2 * min(large)


def test_a_range_is_never_cut_finer_than_its_records() -> None:
    assert len(split([OffsetRange("a", 0, 0, 3)], min_partitions=100)) == 3


def joined(pieces: list[OffsetRange]) -> list[OffsetRange]:
    """Neighbours put together again; a gap or an overlap stays visible."""
    found: list[OffsetRange] = []
    for each in pieces:
        last = found[-1] if found else None
        if last and last.topic_partition == each.topic_partition and last.end == each.start:
            found[-1] = OffsetRange(*last.topic_partition, last.start, each.end)
        else:
            found.append(each)
    return found


# Schemas


def test_a_schema_of_ones_own_is_refused() -> None:
    check_schema(spark_schema(("value", "headers")), ("value", "headers"))
    with pytest.raises(OptionError, match="option columns"):
        check_schema(spark_schema(("value",)), ("value", "headers"))
    with pytest.raises(OptionError, match="value:string"):
        check_schema(StructType([StructField("value", StringType())]), ("value",))


# Checkpoints


def test_offsets_are_the_connectors_json() -> None:
    text = '{"a": {"0": 3, "1": 4}, "b": {"0": 5}}'
    assert json.dumps(offsets_json({B0: 5, A1: 4, A0: 3})) == text
    assert offsets_from_json(json.loads(text)) == {A0: 3, A1: 4, B0: 5}


def test_the_start_of_batch_0_is_in_its_end() -> None:
    initial = StreamOffset({A0: 100, A1: 7}, is_initial=True)
    end = initial.followed_by({A0: 120, A1: 7}, initial.offsets)
    written = json.loads(json.dumps(end.to_json()))
    assert written == {"a": {"0": 120, "1": 7}, "@start": {"a": {"0": 100, "1": 7}}}
    # After a restart Spark asks for the initial offset again, and "latest" has moved.
    later = StreamOffset({A0: 130, A1: 50}, is_initial=True)
    assert batch_ranges(later, StreamOffset.from_json(written)) == ([OffsetRange("a", 0, 100, 120)], [])


def test_later_batches_begin_where_the_one_before_ended() -> None:
    start = StreamOffset({A0: 120}, {A0: 100})
    end = start.followed_by({A0: 150}, start.offsets)
    assert end.to_json() == {"a": {"0": 150}}
    assert batch_ranges(start, end) == ([OffsetRange("a", 0, 120, 150)], [])


def test_an_end_that_is_kept_reads_nothing_again() -> None:
    end = StreamOffset({A0: 120}, {A0: 100})
    assert batch_ranges(end, end) == ([], [])


def test_a_new_partition_begins_where_it_was_first_seen() -> None:
    start = StreamOffset({A0: 120})
    end = start.followed_by({A0: 120, A1: 9}, {A0: 120, A1: 2})
    assert end.to_json() == {"a": {"0": 120, "1": 9}, "@start": {"a": {"1": 2}}}
    assert batch_ranges(start, end) == ([OffsetRange("a", 1, 2, 9)], [])


def test_a_partition_that_came_back_begins_anew() -> None:
    start = StreamOffset({A0: 120})
    end = start.followed_by({A0: 10}, {A0: 0})
    assert batch_ranges(start, end) == ([OffsetRange("a", 0, 0, 10)], [])


def test_a_checkpoint_of_the_connector_can_be_gone_on_with() -> None:
    start, end = ({"a": {"0": 3}}, {"a": {"0": 5, "1": 8}})
    ranges, unsaid = batch_ranges(StreamOffset.from_json(start), StreamOffset.from_json(end))
    assert (ranges, unsaid) == ([OffsetRange("a", 0, 3, 5)], [A1])


def test_an_offset_survives_json() -> None:
    for offset in (StreamOffset({A0: 1}, is_initial=True), StreamOffset({A0: 1}, {A0: 0}), StreamOffset({})):
        assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


# Limits


def test_a_limit_is_shared_by_how_far_each_is_behind() -> None:
    begins, latest = {A0: 0, A1: 0, B0: 50}, {A0: 900, A1: 100, B0: 50}
    assert limited(begins, latest, 100) == {A0: 90, A1: 10, B0: 50}
    assert limited(begins, latest, 2000) == latest


def test_a_limit_starves_nobody() -> None:
    begins, latest = {A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}
    assert limited(begins, latest, 10)[A1] == 1


def test_a_limit_is_used_up_so_no_small_batch_is_left_over() -> None:
    begins, latest = {A0: 0, A1: 0, B0: 0}, {A0: 101, A1: 97, B0: 102}
    for batch in range(1, 6):
        begins = limited(begins, latest, 60)
        assert sum(begins.values()) == 60 * batch
    assert begins == latest


def test_a_limit_is_always_reached_in_the_end() -> None:
    begins, latest = {A0: 3, A1: 0, B0: 9}, {A0: 71, A1: 13, B0: 9}
    for _ in range(100):
        begins = limited(begins, latest, 7)
    assert begins == latest


def test_progress_tells_the_lag() -> None:
    """As the connector tells it: a test beside it is in `test_jvm_connector`."""
    told = lag_json({A0: 10, A1: 5}, {A0: 4, A1: 5}, "headrace[Subscribe[a]]")
    assert told == {
        "a": {"0": 10, "1": 5},
        "@lag": {"a": {"0": 6, "1": 0}},
        "@metrics": {
            "minOffsetsBehindLatest": "0",
            "maxOffsetsBehindLatest": "6",
            "avgOffsetsBehindLatest": "3.0",
        },
        "@description": "headrace[Subscribe[a]]",
    }
    progress = {"sources": [{"latestOffset": json.dumps(told)}, {"latestOffset": None}]}
    assert source_metrics(progress) == [("headrace[Subscribe[a]]", told["@metrics"])]
    # Before Spark 4.2 it is the text that Python has for it.
    assert source_metrics(
        {"sources": [{"latestOffset": str(told)}, {"latestOffset": "None"}]}
    ) == source_metrics(progress)


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"subscribe": "b,a"}, "Subscribe[b, a]"),
        ({"subscribePattern": "orders-.*"}, "SubscribePattern[orders-.*]"),
        ({"assign": '{"a": [1, 0]}'}, "Assign[a-1, a-0]"),
    ],
)
def test_a_source_is_described_by_its_topics(selection: dict[str, str], said: str) -> None:
    options = read_options({"kafka.bootstrap.servers": "h:1", **selection}, streaming=True)
    assert described(options) == f"headrace[{said}]"


# Filters


def pushed(*filters: Filter) -> tuple[PushedFilters, list[Filter]]:
    found = PushedFilters()
    return found, found.take(filters)


def test_topics_and_partitions_are_chosen_without_spark() -> None:
    found, left = pushed(EqualTo(("topic",), "a"), In(("partition",), (0, 3)), IsNotNull(("topic",)))
    assert left == []
    assert [found.accepts(each) for each in (A0, A1, B0)] == [True, False, False]


def test_negations_and_beginnings() -> None:
    found, left = pushed(Not(EqualTo(("topic",), "a")), StringStartsWith(("topic",), "b"))
    assert left == []
    assert [found.accepts(each) for each in (A0, B0)] == [False, True]


@pytest.mark.parametrize(
    ("filters", "start", "end"),
    [
        ([GreaterThan(("offset",), 10)], 11, 100),
        ([GreaterThanOrEqual(("offset",), 10), LessThan(("offset",), 20)], 10, 20),
        ([LessThanOrEqual(("offset",), 20)], 0, 21),
        ([EqualTo(("offset",), 7)], 7, 8),
        ([In(("offset",), (5, 7, 6))], 5, 8),
    ],
)
def test_offsets_bound_a_range(filters: list[Filter], start: int, end: int) -> None:
    found, left = pushed(*filters)
    assert left == []
    assert (found.first_offset(0), found.end_offset(100)) == (start, end)


def test_times_narrow_but_stay_for_spark() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    after = GreaterThan(("timestamp",), time)
    found, left = pushed(after)
    assert left == [after]
    assert found.window is not None
    assert found.window.first_us == int(time.timestamp()) * 1_000_000 + 1
    assert pickle.loads(pickle.dumps(found)).window == found.window


@pytest.mark.parametrize(
    "unknown",
    [
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        In(("offset",), (5, 7)),
        Not(EqualTo(("offset",), 7)),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        IsNotNull(("key",)),
    ],
)
def test_what_is_not_understood_is_left_to_spark(unknown: Filter) -> None:
    found, left = pushed(unknown)
    assert left == [unknown]
    assert found.window is None
    assert (found.first_offset(0), found.end_offset(100)) == (0, 100)
