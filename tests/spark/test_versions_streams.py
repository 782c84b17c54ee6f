"""Micro-batches as Spark 4.0 and 4.1 plan them: asked for an end, and not told where the batch begins."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.clients import Admin
from headrace.spark.columns import spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.option_values import OptionError
from headrace.spark.whole_stream_reader import WholeStreamReader
from headrace.testing import Cluster
from tests.spark.conftest import MakeTopic
from tests.spark.source_topics import delete_topic, fill, numbered, options_for

Json = dict[str, Any]
MakeReader = Callable[..., WholeStreamReader]


@pytest.fixture
def make_reader(cluster: Cluster) -> Iterator[MakeReader]:
    made = []

    def make(topic: str, **options: str) -> WholeStreamReader:
        found = options_for(cluster.bootstrap_servers, topic, streaming=True, **options)
        made.append(WholeStreamReader(found, spark_schema(found.columns)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def asked(reader: WholeStreamReader) -> Json:
    """As Spark does it: through text."""
    found: Json = json.loads(json.dumps(reader.latestOffset()))
    return found


def values(reader: WholeStreamReader, start: Json, end: Json) -> list[bytes]:
    tasks = reader.partitions(start, end)
    return [row for task in tasks for batch in reader.read(task) for row in batch.column("value").to_pylist()]


def test_batches_follow_each_other(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    reader = make_reader(topic, startingOffsets="earliest")
    end = asked(reader)
    assert values(reader, reader.initialOffset(), end) == numbered(5)
    assert asked(reader) == end
    fill(cluster.bootstrap_servers, topic, numbered(3, 5))
    after = asked(reader)
    assert values(reader, end, after) == numbered(3, 5)
    assert "@first" not in after


def test_latest_is_fixed_when_batch_0_is_planned(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    first = make_reader(topic)
    initial = first.initialOffset()
    fill(cluster.bootstrap_servers, topic, numbered(3, 5))
    end = asked(first)
    assert values(first, initial, end) == numbered(3, 5)
    # The driver dies before the batch is committed; more comes; the same batch is run again.
    fill(cluster.bootstrap_servers, topic, numbered(4, 8))
    second = make_reader(topic)
    assert second.partitions(end, end) == []
    assert values(second, second.initialOffset(), end) == numbered(3, 5)
    assert values(second, end, asked(second)) == numbered(4, 8)


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_restart_goes_on_where_it_was(
    is_told_first: bool, cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    first = make_reader(topic, startingOffsets="earliest")
    end = asked(first)
    assert values(first, first.initialOffset(), end) == numbered(5)
    fill(cluster.bootstrap_servers, topic, numbered(2, 5))
    second = make_reader(topic, startingOffsets="earliest")
    if is_told_first:
        assert second.partitions(end, end) == []
    after = asked(second)
    assert ("@first" in after) is not is_told_first
    assert values(second, end, after) == numbered(2, 5)
    # A third process repeats that batch.
    assert values(make_reader(topic, startingOffsets="earliest"), end, after) == numbered(2, 5)


def test_a_topic_made_again_is_found_when_its_batch_is_planned(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    end = asked(make_reader(topic))
    delete_topic(cluster.bootstrap_servers, topic)
    cluster.create_topic(topic, 1)
    fill(cluster.bootstrap_servers, topic, numbered(9, 100))
    strict, lenient = make_reader(topic), make_reader(topic, failOnDataLoss="false")
    with pytest.raises(LostDataError, match="was deleted and made again"):
        strict.partitions(end, asked(strict))
    assert values(lenient, end, asked(lenient)) == numbered(9, 100)


def test_a_partition_that_came_later_is_read_from_its_start(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    end = asked(make_reader(topic))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions(topic, 2)
    fill(cluster.bootstrap_servers, topic, numbered(3), partition=1)
    second = make_reader(topic)
    assert values(second, end, asked(second)) == numbered(3)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused_in_one_sentence(
    name: str, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    with pytest.raises(OptionError, match=rf"option {name} needs Spark 4\.2 or newer, .*: leave it out"):
        make_reader(make_topic(), **{name: "5"})
