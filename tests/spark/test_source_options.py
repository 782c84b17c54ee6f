"""Options of reads: the connector's names and defaults, and errors that say what to write instead."""

import pickle
import re

import pytest

from headrace.base.ids import TopicPartition
from headrace.spark.columns import spark_schema
from headrace.spark.option_values import OptionError
from headrace.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    ReadOptions,
    Selection,
    read_options,
    write_options,
)
from headrace.spark.table_options import kept_options, with_options

ORDERS = {"kafka.bootstrap.servers": "h:9092", "subscribe": "orders"}


def read(*, streaming: bool = False, **options: str) -> ReadOptions:
    return read_options({**ORDERS, **options}, streaming=streaming)


def refused(match: str, options: dict[str, str], *, streaming: bool = False) -> None:
    with pytest.raises(OptionError, match=match):
        read_options(options, streaming=streaming)


def test_what_a_table_of_the_catalogue_adds() -> None:
    added = {"provider": "headrace", "location": "file:/x", "option.subscribe": "orders", "owner": "anna"}
    assert read_options({**ORDERS, **added}, streaming=False) == read()
    assert read_options({"kafka.bootstrap.servers": "h:9092", **added}, streaming=False) == read()
    assert write_options({"kafka.bootstrap.servers": "h:9092", "provider": "headrace"}).topic is None
    refused("there is no option owner", {**ORDERS, "owner": "anna"})


def test_defaults_are_the_connectors() -> None:
    batch, stream = read(), read(streaming=True)
    assert (batch.starting, batch.ending) == (EARLIEST, LATEST)
    assert stream.starting == LATEST
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert batch.fail_on_data_loss
    assert batch.max_trigger_delay_ms == 15 * 60_000
    assert (batch.min_partitions, batch.max_records_per_partition, batch.group_id) == (None, None, None)
    assert not batch.is_committed
    assert batch.selection == Selection(topics=("orders",))


def test_all_that_can_be_said() -> None:
    options = read(
        streaming=True,
        **{
            "STARTINGOFFSETS": '{"orders": {"0": 23, "1": -2}}',
            "failOnDataLoss": "FALSE",
            "minPartitions": "10",
            "maxRecordsPerPartition": "5",
            "maxOffsetsPerTrigger": "100",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "2m",
            "includeHeaders": "true",
            "groupIdPrefix": "mine",
            "kafka.group.id": "shown",
            "kafka.isolation.level": "read_committed",
            "startingOffsetsByTimestampStrategy": "latest",
            "kafkaConsumer.pollTimeoutMs": "500",
        },
    )
    offsets = {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}
    assert options.starting == Bound(numbers=offsets)
    assert not options.fail_on_data_loss
    assert (options.min_partitions, options.max_records_per_partition) == (10, 5)
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (100, 10)
    assert options.max_trigger_delay_ms == 120_000
    assert options.columns[-1] == "headers"
    assert (options.group_id_prefix, options.group_id) == ("mine", "shown")
    assert options.is_committed
    assert options.latest_without_match
    assert options.poll_timeout_ms == 500
    assert "group.id" not in options.settings  # the tasks' consumers belong to no group
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("option", "value", "selection"),
    [
        ("subscribe", " a, b ,a,", Selection(topics=("a", "b"))),
        ("subscribePattern", "a.*", Selection(pattern="a.*")),
        ("assign", '{"a": [0, 2]}', Selection(partitions=(TopicPartition("a", 0), TopicPartition("a", 2)))),
    ],
)
def test_what_is_read(option: str, value: str, selection: Selection) -> None:
    found = read_options({"kafka.bootstrap.servers": "h:1", option: value}, streaming=False)
    assert found.selection == selection


def test_ways_to_begin_have_an_order() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}', "startingOffsets": "earliest"}
    assert read(**by_partition).starting == Bound(numbers={TopicPartition("orders", 0): 5}, by_time=True)
    assert read(**by_partition, startingTimestamp="7").starting == Bound(time_ms=7, by_time=True)
    assert read(endingTimestamp="9").ending == Bound(time_ms=9, by_time=True)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.bootstrapservers": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"kafka.fetch.min.byte": "1"}, "did you mean kafka.fetch.min.bytes"),
        ({"kafka.fetch.min.bytes": "many"}, "kafka.*fetch.min.bytes"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"minPartitions": "0"}, "positive"),
        ({"maxRecordsPerPartition": "x"}, "whole number"),
        ({"maxTriggerDelay": "soon"}, "15m"),
        ({"startingOffsets": "first"}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"orders": 3}'}, "must be JSON such as"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "must be JSON such as"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "must be JSON such as"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "error or latest"),
        ({"startingTimestamp": "-1"}, "since the epoch"),
        ({"endingTimestamp": "today"}, "whole number"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "must be JSON such as"),
        ({"columns": "value,ofset"}, "there is no 'ofset'"),
        ({"columns": "value", "includeHeaders": "true"}, "leaves headers out"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.group.id"),
        ({"kafka.key.deserializer": "x"}, "bytes"),
        ({"kafka.security.protocol": "SSLX"}, "kafka.security.protocol"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "higher"),
        ({"assign": '{"a": [0]}'}, "subscribe and assign are given"),
        ({"read.mode": "disk"}, "fetch or segments"),
    ],
)
def test_what_is_refused(options: dict[str, str], match: str) -> None:
    refused(match, {**ORDERS, **options})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "orders-0 cannot be latest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "orders-0 cannot be earliest"),
        (
            {"startingOffsets": '{"orders": {"0": 1}}', "endingOffsets": '{"orders": {"1": 1}}'},
            "same partitions",
        ),
        (
            {"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": 8}}'},
            "behind its end",
        ),
    ],
)
def test_what_a_batch_read_refuses(options: dict[str, str], match: str) -> None:
    refused(match, {**ORDERS, **options})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = '{"orders": {"0": 5}}'
    refused("a stream has no end", {**ORDERS, name: value}, streaming=True)


def test_what_is_missing() -> None:
    refused("kafka.bootstrap.servers is missing", {"subscribe": "orders"})
    refused("none is given", {"kafka.bootstrap.servers": "h:1"})
    refused("names nothing", {"kafka.bootstrap.servers": "h:1", "subscribe": " , "})


def test_limits_of_streams_are_passed_over_in_batch_reads() -> None:
    assert read(maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5


def test_what_is_about_the_inside_of_kafkas_client_is_told_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    more = {"kafka.connections.max.idle.ms": "5", "kafka.security.protocol": "SSL"}
    assert read(**more).settings == {"bootstrap.servers": "h:9092", "security.protocol": "SSL"}
    assert "kafka.connections.max.idle.ms has no effect" in caplog.text


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("2min", 120_000), ("7", 7), ("2500us", 2), ("1d", 86_400_000)],
)
def test_times_are_written_as_spark_does(text: str, milliseconds: int) -> None:
    assert read(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_options_of_writes() -> None:
    with pytest.raises(OptionError, match="serializer cannot be set: values are written as"):
        write_options({"kafka.bootstrap.servers": "h:1", "kafka.value.serializer": "x"})
    with pytest.raises(OptionError, match="did you mean topic"):
        write_options({"kafka.bootstrap.servers": "h:1", "topics": "a"})
    assert write_options({"kafka.bootstrap.servers": "h:1", "topic": "a"}).topic == "a"


# Tables of the catalogue


def test_a_tables_options_are_kept_with_its_columns() -> None:
    created = {
        "provider": "headrace",
        "option.Subscribe": "a",
        "subscribe": "a",
        "kafka.bootstrap.servers": "h:1",
    }
    schema = spark_schema(("key", "value"))
    kept = with_options(schema, created)
    assert kept.simpleString() == schema.simpleString()
    assert kept_options(kept, {}) == {"subscribe": "a", "kafka.bootstrap.servers": "h:1"}
    assert kept_options(kept, {"Subscribe": "b"})["subscribe"] == "b"
    assert with_options(schema, {"subscribe": "a"}) == schema
    assert kept_options(schema, {}) == {}


@pytest.mark.parametrize("secret", ["store.secret.access.key", "kafka.ssl.keystore.key"])
def test_secrets_are_no_options_of_a_table(secret: str) -> None:
    created = {"provider": "headrace", "subscribe": "a", secret: "x"}
    with pytest.raises(OptionError, match=rf"{re.escape(secret)} cannot be .* WITH \("):
        with_options(spark_schema(("key",)), created)
