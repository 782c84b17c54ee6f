"""What a task reads, without a Spark session: exact rows and types, and what happens to lost records."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.clients.errors import NoSuchTopicError, TimedOutError, UnreachableError
from headrace.records.columns.schema import column_schema
from headrace.spark import range_fetcher, reading
from headrace.spark.batch_reader import HeadraceBatchReader, planned_ranges
from headrace.spark.columns import ALL_COLUMNS, arrow_schema, fit, spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.filters import PushedFilters
from headrace.spark.offsets import partition_offsets
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow
from headrace.spark.reading import read_range
from headrace.testing import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.source_topics import (
    FIRST_MS,
    HOUR_MS,
    delete_records,
    delete_topic,
    fill,
    numbered,
    options_for,
    rows_of,
    values_of,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests wait for conditions, not for the patience that a production cluster deserves."""
    monkeypatch.setattr(range_fetcher, "_POLL_MS", 50)
    monkeypatch.setattr(range_fetcher, "_GONE_AFTER_MS", 200)


def planned(options: ReadOptions, filters: PushedFilters | None = None) -> list[OffsetRange]:
    with closing(partition_offsets(options)) as asked:
        return planned_ranges(options, filters or PushedFilters(), asked)


# Columns


@pytest.mark.parametrize(
    "columns", [ALL_COLUMNS, ALL_COLUMNS[:-1], ("value",), ("timestamp", "headers", "key")]
)
def test_types_are_what_spark_expects(columns: tuple[str, ...]) -> None:
    assert to_arrow_schema(spark_schema(columns), timezone="UTC") == arrow_schema(columns)


def test_a_row_as_the_connector_has_it(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = [("a", b"1"), ("a", None), ("", b"")]
    fill(cluster.bootstrap_servers, topic, [b"v", None], headers=headers)
    fill(cluster.bootstrap_servers, topic, [b""], key=None, first_ms=FIRST_MS + HOUR_MS)
    options = options_for(cluster.bootstrap_servers, topic, includeHeaders="true")
    first = datetime.fromtimestamp(FIRST_MS / 1000, UTC)
    common = {"topic": topic, "partition": 0, "timestampType": 0}
    told = [{"key": name, "value": value} for name, value in headers]
    assert rows_of(OffsetRange(topic, 0, 0, 3), options) == [
        {"key": b"k", "value": b"v", "offset": 0, "timestamp": first, "headers": told, **common},
        {
            "key": b"k",
            "value": None,
            "offset": 1,
            "timestamp": first + timedelta(seconds=1),
            "headers": told,
            **common,
        },
        {
            "key": None,
            "value": b"",
            "offset": 2,
            "timestamp": first + timedelta(hours=1),
            "headers": None,
            **common,
        },
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 9), (1, 9), (3, 4), (5, 9), (8, 9)])
def test_headers_of_a_slice(start: int, end: int) -> None:
    kind = column_schema(["headers"]).field(0).type
    lists = [[{"key": "h", "value": b"1"}] * (number % 3) for number in range(9)]
    whole = pa.RecordBatch.from_arrays([pa.array(lists, kind)], names=["headers"])
    fitted = fit(whole.slice(start, end - start), ("headers",))
    fitted.validate(full=True)
    assert fitted.column(0).to_pylist() == [each or None for each in lists[start:end]]


def test_only_wanted_columns_in_the_wanted_order(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(3))
    options = options_for(cluster.bootstrap_servers, topic, columns="offset, VALUE")
    (batch,) = read_range(OffsetRange(topic, 0, 0, 2), options)
    assert batch.schema == arrow_schema(("offset", "value"))
    assert batch.to_pydict() == {"offset": [0, 1], "value": [b"0", b"1"]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(cluster: Cluster, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    values = [b"x" * 200 + str(number).encode() for number in range(2000)]
    fill(cluster.bootstrap_servers, topic, values, **{"compression.type": codec})
    options = options_for(cluster.bootstrap_servers, topic)
    assert values_of(OffsetRange(topic, 0, 0, 2000), options) == values


def test_times_of_the_log(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    fill(cluster.bootstrap_servers, topic, numbered(2))
    rows = rows_of(OffsetRange(topic, 0, 0, 2), options_for(cluster.bootstrap_servers, topic))
    assert [row["timestampType"] for row in rows] == [1, 1]
    assert all(row["timestamp"].timestamp() * 1000 > FIRST_MS + HOUR_MS for row in rows)


# Ranges within batches


@pytest.mark.parametrize(("start", "end"), [(0, 100), (1, 99), (37, 38), (99, 100), (42, 42)])
@pytest.mark.parametrize("columns", ["value,offset", "value"])
def test_exactly_the_offsets_of_the_range(
    cluster: Cluster, make_topic: MakeTopic, start: int, end: int, columns: str
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(120))
    options = options_for(cluster.bootstrap_servers, topic, columns=columns)
    assert values_of(OffsetRange(topic, 0, start, end), options) == numbered(end - start, start)


def test_large_chunks_come_in_several_batches(
    cluster: Cluster, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(100))
    monkeypatch.setattr(reading, "BATCH_ROWS_MAX", 30)
    batches = list(read_range(OffsetRange(topic, 0, 0, 100), options_for(cluster.bootstrap_servers, topic)))
    assert [batch.num_rows for batch in batches] == [25, 25, 25, 25]
    values = pa.Table.from_batches(batches).column("value").to_pylist()
    assert values == numbered(100)


def test_what_unpacks_to_much_is_unpacked_in_steps(
    cluster: Cluster, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    values = [bytes(3000) + str(number).encode() for number in range(50)] + [bytes(90_000)]
    fill(
        cluster.bootstrap_servers,
        topic,
        values,
        **{"compression.type": "zstd", "batch.size": "10000", "linger.ms": "0"},
    )
    monkeypatch.setattr(reading, "_UNPACKED_BYTES", 20_000)
    options = options_for(cluster.bootstrap_servers, topic)
    batches = list(read_range(OffsetRange(topic, 0, 0, 51), options))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches).column("value").to_pylist() == values


def test_only_times_of_the_window(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    window = TimeWindow((FIRST_MS + 3000) * 1000, (FIRST_MS + 5000) * 1000)
    options = options_for(cluster.bootstrap_servers, topic, columns="value")
    rows = rows_of(OffsetRange(topic, 0, 0, 10), options, window=window)
    assert [row["value"] for row in rows] == numbered(3, 3)


# Planning a batch read


def test_everything_that_is_there(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    fill(cluster.bootstrap_servers, topic, numbered(5))
    fill(cluster.bootstrap_servers, topic, numbered(7), partition=2)
    ranges = planned(options_for(cluster.bootstrap_servers, topic))
    assert ranges == [OffsetRange(topic, 0, 0, 5), OffsetRange(topic, 1, 0, 0), OffsetRange(topic, 2, 0, 7)]


def test_topics_by_pattern_and_by_partition(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    by_pattern = options_for(cluster.bootstrap_servers, topic, subscribePattern=f"{topic[:-1]}.")
    assert [each.partition for each in planned(by_pattern)] == [0, 1]
    part_of_name = options_for(cluster.bootstrap_servers, topic, subscribePattern=topic[:-1])
    assert planned(part_of_name) == []
    by_partition = options_for(cluster.bootstrap_servers, topic, assign=f'{{"{topic}": [1]}}')
    assert planned(by_partition) == [OffsetRange(topic, 1, 0, 0)]
    with pytest.raises(OptionError, match=f"{topic}-7"):
        planned(options_for(cluster.bootstrap_servers, topic, assign=f'{{"{topic}": [7]}}'))
    with pytest.raises(NoSuchTopicError):
        planned(options_for(cluster.bootstrap_servers, "no-such-topic"))
    with pytest.raises(OptionError, match="no pattern"):
        planned(options_for(cluster.bootstrap_servers, topic, subscribePattern="(("))


def test_offsets_by_partition(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    fill(cluster.bootstrap_servers, topic, numbered(10))
    options = options_for(
        cluster.bootstrap_servers,
        topic,
        startingOffsets=f'{{"{topic}": {{"0": 4, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 8, "1": -1}}}}',
    )
    assert planned(options) == [OffsetRange(topic, 0, 4, 8), OffsetRange(topic, 1, 0, 0)]
    short = options_for(cluster.bootstrap_servers, topic, startingOffsets=f'{{"{topic}": {{"0": 4}}}}')
    with pytest.raises(OptionError, match=f"it lacks {topic}-1"):
        planned(short)


def test_times_as_bounds(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        fill(cluster.bootstrap_servers, topic, numbered(10), partition=partition)
    begin, end = FIRST_MS + 2500, FIRST_MS + 6000
    everywhere = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    expected = [OffsetRange(topic, number, 3, 6) for number in (0, 1)]
    assert planned(options_for(cluster.bootstrap_servers, topic, **everywhere)) == expected
    each = options_for(
        cluster.bootstrap_servers,
        topic,
        startingOffsetsByTimestamp=f'{{"{topic}": {{"0": {begin}, "1": {end}}}}}',
        endingOffsetsByTimestamp=f'{{"{topic}": {{"0": {end}, "1": {end + HOUR_MS}}}}}',
    )
    assert planned(each) == [OffsetRange(topic, 0, 3, 6), OffsetRange(topic, 1, 6, 10)]


def test_a_start_later_than_everything(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    fill(cluster.bootstrap_servers, topic, numbered(10))
    late = {"startingTimestamp": str(FIRST_MS + HOUR_MS)}
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy"):
        planned(options_for(cluster.bootstrap_servers, topic, **late))
    latest = {**late, "startingOffsetsByTimestampStrategy": "latest"}
    assert planned(options_for(cluster.bootstrap_servers, topic, **latest)) == [OffsetRange(topic, 0, 10, 10)]


def test_filters_choose_what_is_read(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        fill(cluster.bootstrap_servers, topic, numbered(10), partition=partition)
    options = options_for(cluster.bootstrap_servers, topic)
    filters = PushedFilters()
    time = datetime.fromtimestamp(FIRST_MS / 1000 + 4, UTC)
    filters.take(
        [EqualTo(("partition",), 1), LessThan(("offset",), 8), GreaterThanOrEqual(("timestamp",), time)]
    )
    assert planned(options, filters) == [OffsetRange(topic, 1, 4, 8)]
    late = PushedFilters()
    late.take([GreaterThanOrEqual(("timestamp",), time + timedelta(hours=1))])
    assert [each.size for each in planned(options, late)] == [0, 0]


def test_a_reader_pushes_filters_only_where_spark_does(cluster: Cluster, make_topic: MakeTopic) -> None:
    from pyspark.sql.datasource import DataSourceReader

    options = options_for(cluster.bootstrap_servers, make_topic())
    reader = HeadraceBatchReader(options, spark_schema(options.columns))
    # What Spark looks at where filters are not pushed down, to refuse readers that would miss them.
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    assert list(reader.pushFilters([EqualTo(("partition",), 0)])) == []


# Records that are gone


def test_deleted_records_are_told_when_planning(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    delete_records(cluster.bootstrap_servers, topic, 0, 6)
    start = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    with pytest.raises(LostDataError, match="begins at offset 6 now"):
        planned(options_for(cluster.bootstrap_servers, topic, **start))
    go_on = options_for(cluster.bootstrap_servers, topic, **start, failOnDataLoss="false")
    assert planned(go_on) == [OffsetRange(topic, 0, 6, 10)]
    beyond = {"endingOffsets": f'{{"{topic}": {{"0": 50}}}}'}
    with pytest.raises(LostDataError, match="ends at offset 10 now"):
        planned(options_for(cluster.bootstrap_servers, topic, **beyond))
    go_on = options_for(cluster.bootstrap_servers, topic, **beyond, failOnDataLoss="false")
    assert planned(go_on) == [OffsetRange(topic, 0, 6, 10)]


def test_records_deleted_after_planning(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    delete_records(cluster.bootstrap_servers, topic, 0, 6)
    with pytest.raises(LostDataError, match="begins at offset 6 now"):
        values_of(OffsetRange(topic, 0, 2, 9), options_for(cluster.bootstrap_servers, topic))
    go_on = options_for(cluster.bootstrap_servers, topic, failOnDataLoss="false")
    assert values_of(OffsetRange(topic, 0, 2, 9), go_on) == numbered(3, 6)
    assert values_of(OffsetRange(topic, 0, 2, 5), go_on) == []


def test_a_log_that_is_shorter_than_planned(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    quickly = {"kafkaConsumer.pollTimeoutMs": "3000"}  # long enough for a busy machine to connect
    with pytest.raises(LostDataError, match="ends at offset 10 now"):
        values_of(OffsetRange(topic, 0, 5, 15), options_for(cluster.bootstrap_servers, topic, **quickly))
    go_on = options_for(cluster.bootstrap_servers, topic, failOnDataLoss="false", **quickly)
    assert values_of(OffsetRange(topic, 0, 5, 15), go_on) == numbered(5, 5)
    assert values_of(OffsetRange(topic, 0, 12, 15), go_on) == []


def test_a_topic_deleted_after_planning(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    delete_topic(cluster.bootstrap_servers, topic)
    with pytest.raises(LostDataError, match="was deleted"):
        values_of(OffsetRange(topic, 0, 0, 10), options_for(cluster.bootstrap_servers, topic))
    go_on = options_for(cluster.bootstrap_servers, topic, failOnDataLoss="false")
    assert values_of(OffsetRange(topic, 0, 0, 10), go_on) == []


def test_a_fetcher_serves_one_task_after_another(cluster: Cluster, make_topic: MakeTopic) -> None:
    first, second = make_topic(), make_topic(2)
    fill(cluster.bootstrap_servers, first, numbered(5))
    fill(cluster.bootstrap_servers, second, numbered(5, 100), partition=1)
    options = options_for(cluster.bootstrap_servers, first, groupIdPrefix="one-after-another")
    assert values_of(OffsetRange(first, 0, 0, 5), options) == numbered(5)
    assert values_of(OffsetRange(second, 1, 1, 4), options) == numbered(3, 101)
    assert values_of(OffsetRange(first, 0, 4, 5), options) == numbered(1, 4)
    assert len(idle_fetchers("one-after-another")) == 1


def test_a_task_that_is_given_up_leaves_nothing_behind(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    options = options_for(cluster.bootstrap_servers, topic, groupIdPrefix="given-up")
    rows = read_range(OffsetRange(topic, 0, 0, 50), options)
    assert next(rows).num_rows == 5
    rows.close()  # type: ignore[attr-defined]  # a generator
    assert idle_fetchers("given-up") == []


def test_a_worker_keeps_a_few_fetchers_only(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(1))
    for number in range(6):
        options = options_for(cluster.bootstrap_servers, topic, groupIdPrefix=f"query-{number}")
        assert values_of(OffsetRange(topic, 0, 0, 1), options) == numbered(1)
    assert [len(idle_fetchers(f"query-{number}")) for number in range(6)] == [0, 0, 1, 1, 1, 1]


def idle_fetchers(prefix: str) -> list[range_fetcher.RangeFetcher]:
    return [each.client for each in range_fetcher._FETCHERS._idle if prefix in each.key]


def test_brokers_that_say_nothing() -> None:
    topic = "unheard"
    options = options_for("127.0.0.1:1", topic, **{"kafkaConsumer.pollTimeoutMs": "200"})
    with pytest.raises(TimedOutError, match="nothing of"):
        values_of(OffsetRange(topic, 0, 0, 1), options)


def test_the_driver_asks_as_often_as_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    retries = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        planned(options_for("127.0.0.1:1", "unheard", **retries))
    assert caplog.text.count("asking again") == 2


def test_memory_does_not_grow_with_the_backlog(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic, chunk = make_topic(), 64 * 1024
    values = [bytes(4000)] * 2000  # more than a hundred answers of that size
    fill(cluster.bootstrap_servers, topic, values)
    options = options_for(cluster.bootstrap_servers, topic, **{"kafka.max.partition.fetch.bytes": str(chunk)})
    held, rows = [], 0
    with range_fetcher.borrowed_fetcher(options) as fetcher:
        for _, found in fetcher.chunks(OffsetRange(topic, 0, 0, 2000)):
            held.append(found.size + fetcher.buffered_bytes)
            rows += 1
    assert rows > 100
    assert max(held) <= 4 * chunk
