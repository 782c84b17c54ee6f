"""How micro-batches are planned, without a Spark session: the calls that Spark makes, on a real node."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, OffsetAndMetadata
from headrace.clients.errors import NoSuchTopicError
from headrace.spark.columns import spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.ranges import OffsetRange
from headrace.spark.stream_reader import HeadraceStreamReader
from headrace.spark.tasks import RangePartition
from headrace.testing import Cluster
from tests.compat.clients.face import eventually
from tests.spark.conftest import MakeTopic
from tests.spark.source_topics import (
    FIRST_MS,
    delete_records,
    delete_topic,
    fill,
    numbered,
    options_for,
)

ALL = ReadAllAvailable()
Json = dict[str, Any]
MakeReader = Callable[..., HeadraceStreamReader]


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 1000

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def make_reader(cluster: Cluster) -> Iterator[MakeReader]:
    made = []

    def make(topic: str, clock: HandClock | None = None, **options: str) -> HeadraceStreamReader:
        found = options_for(cluster.bootstrap_servers, topic, streaming=True, **options)
        made.append(HeadraceStreamReader(found, spark_schema(found.columns), clock))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def advance(reader: HeadraceStreamReader, start: Json, limit: ReadLimit = ALL) -> Json:
    """As Spark does it: through text."""
    found: Json = json.loads(json.dumps(reader.latestOffset(json.loads(json.dumps(start)), limit)))
    return found


def offsets(end: Json) -> Json:
    """Without the topics' ids."""
    return {name: each for name, each in end.items() if name != "@ids"}


def ranges(reader: HeadraceStreamReader, start: Json, end: Json) -> list[OffsetRange]:
    tasks = reader.partitions(start, end)
    return [task.wanted for task in tasks if isinstance(task, RangePartition)]


def values(reader: HeadraceStreamReader, start: Json, end: Json) -> list[bytes]:
    tasks = reader.partitions(start, end)
    return [row for task in tasks for batch in reader.read(task) for row in batch.column("value").to_pylist()]


def test_latest_is_fixed_when_batch_0_is_planned(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    first = make_reader(topic)
    initial = first.initialOffset()
    fill(cluster.bootstrap_servers, topic, numbered(3, 5))
    assert first.initialOffset() == initial
    end = advance(first, initial)
    assert values(first, initial, end) == numbered(3, 5)
    # The driver dies before the batch is committed; more comes; the same batch is run again.
    fill(cluster.bootstrap_servers, topic, numbered(4, 8))
    second = make_reader(topic)
    assert values(second, second.initialOffset(), end) == numbered(3, 5)
    after = advance(second, end)
    assert values(second, end, after) == numbered(4, 8)
    assert offsets(after) == {topic: {"0": 12}}
    assert list(after["@ids"]) == [topic]


def test_batch_0_of_an_empty_topic_fixes_its_start_too(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    first = make_reader(topic)
    end = advance(first, first.initialOffset())
    assert offsets(end) == {topic: {"0": 0}, "@start": {topic: {"0": 0}}}
    assert first.partitions(first.initialOffset(), end) == []
    fill(cluster.bootstrap_servers, topic, numbered(2))
    second = make_reader(topic)
    assert ranges(second, second.initialOffset(), end) == []
    assert values(second, end, advance(second, end)) == numbered(2)


def test_nothing_new_is_the_same_text(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    reader = make_reader(topic, startingOffsets="earliest")
    end = advance(reader, reader.initialOffset())
    assert json.dumps(advance(reader, end)) == json.dumps(end)
    plain = {topic: {"0": 5}}
    assert advance(reader, plain) == plain


def test_starts_by_offset_and_by_time(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    for options, first in (
        ({"startingOffsets": f'{{"{topic}": {{"0": 4}}}}'}, 4),
        ({"startingTimestamp": str(FIRST_MS + 6000)}, 6),
        ({"startingOffsetsByTimestamp": f'{{"{topic}": {{"0": {FIRST_MS + 7000}}}}}'}, 7),
    ):
        reader = make_reader(topic, **options)
        initial = reader.initialOffset()
        assert values(reader, initial, advance(reader, initial)) == numbered(10 - first, first)


def test_a_topic_that_is_not_there(make_reader: MakeReader) -> None:
    with pytest.raises(NoSuchTopicError):
        make_reader("nowhere").initialOffset()


# Limits


def test_limits_of_the_options(make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    assert make_reader(topic).getDefaultReadLimit() == ALL
    assert make_reader(topic, maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert make_reader(topic, minOffsetsPerTrigger="3").getDefaultReadLimit() == ReadMinRows(3)
    both = make_reader(topic, minOffsetsPerTrigger="3", maxOffsetsPerTrigger="7")
    assert both.getDefaultReadLimit() == ReadMaxRows(7)


def test_at_most_so_many_offsets_a_batch(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic(2)
    fill(cluster.bootstrap_servers, topic, numbered(30))
    fill(cluster.bootstrap_servers, topic, numbered(10, 100), partition=1)
    reader = make_reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    start, seen = reader.initialOffset(), []
    while (end := advance(reader, start, reader.getDefaultReadLimit())) != start:
        batch = ranges(reader, start, end)
        assert sum(each.size for each in batch) <= 8
        seen += values(reader, start, end)
        start = end
    assert sorted(seen) == sorted([*numbered(30), *numbered(10, 100)])
    # A trigger that wants everything gets everything.
    fresh = make_reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    assert advance(fresh, fresh.initialOffset())[topic] == {"0": 30, "1": 10}


def test_a_batch_waits_for_enough(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic, clock = make_topic(), HandClock()
    limits = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "10s", "startingOffsets": "earliest"}
    reader = make_reader(topic, clock, **limits)
    limit = reader.getDefaultReadLimit()
    start = advance(reader, reader.initialOffset(), limit)
    fill(cluster.bootstrap_servers, topic, numbered(4))
    clock.ms += 9_999
    assert advance(reader, start, limit) == start
    clock.ms += 1
    late = advance(reader, start, limit)
    assert offsets(late) == {topic: {"0": 4}}
    fill(cluster.bootstrap_servers, topic, numbered(5, 4))
    assert offsets(advance(reader, late, limit)) == {topic: {"0": 9}}


def test_available_now_ends(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    limits = {"maxOffsetsPerTrigger": "4", "minOffsetsPerTrigger": "3", "startingOffsets": "earliest"}
    reader = make_reader(topic, **limits)
    reader.prepareForTriggerAvailableNow()
    fill(cluster.bootstrap_servers, topic, numbered(10, 10))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions(topic, 2)
    start, seen = reader.initialOffset(), []
    for _ in range(10):
        end = advance(reader, start, reader.getDefaultReadLimit())
        if end == start:
            break
        seen += values(reader, start, end)
        start = end
    assert seen == numbered(10)
    assert offsets(start) == {topic: {"0": 10, "1": 0}}


def test_available_now_from_latest(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    reader = make_reader(topic)
    reader.prepareForTriggerAvailableNow()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    end = advance(reader, reader.initialOffset())
    assert ranges(reader, reader.initialOffset(), end) == []
    assert advance(reader, end) == end


# What changes while a query runs


def test_new_partitions_are_read_from_their_beginning(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(3))
    reader = make_reader(topic)
    start = advance(reader, reader.initialOffset())
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions(topic, 2)
    fill(cluster.bootstrap_servers, topic, numbered(2, 50), partition=1)
    end = advance(reader, start)
    assert offsets(end) == {topic: {"0": 3, "1": 2}, "@start": {topic: {"1": 0}}}
    assert values(reader, start, end) == numbered(2, 50)


def test_topics_that_match_later(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    reader = make_reader(topic, subscribePattern=f"{topic}(-more)?")
    start = advance(reader, reader.initialOffset())
    cluster.create_topic(f"{topic}-more")
    fill(cluster.bootstrap_servers, f"{topic}-more", numbered(2))
    assert values(reader, start, advance(reader, start)) == numbered(2)


def test_a_deleted_topic(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    gone, stays = make_topic(), make_topic()
    both = f"{gone},{stays}"
    start = {gone: {"0": 0}, stays: {"0": 0}}
    delete_topic(cluster.bootstrap_servers, gone)
    with pytest.raises(LostDataError, match=f"{gone}-0.*failOnDataLoss"):
        make_reader(both).latestOffset(start, ALL)
    fill(cluster.bootstrap_servers, stays, numbered(2))
    tolerant = make_reader(both, failOnDataLoss="false")
    end = advance(tolerant, start)
    assert offsets(end) == {stays: {"0": 2}}
    assert values(tolerant, start, end) == numbered(2)


def test_a_topic_that_was_made_anew(cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    start = {topic: {"0": 5}}
    delete_topic(cluster.bootstrap_servers, topic)
    cluster.create_topic(topic)
    fill(cluster.bootstrap_servers, topic, numbered(2, 70))
    with pytest.raises(LostDataError, match="ends at offset 2 now"):
        make_reader(topic).latestOffset(start, ALL)
    tolerant = make_reader(topic, failOnDataLoss="false")
    end = advance(tolerant, start)
    assert values(tolerant, start, end) == numbered(2, 70)
    assert advance(tolerant, end) == end


def test_a_topic_that_was_made_anew_and_has_grown_past_what_was_read(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic, other = make_topic(), make_topic()
    both = f"{topic},{other}"
    fill(cluster.bootstrap_servers, topic, numbered(5))
    first = make_reader(both, startingOffsets="earliest")
    start = advance(first, first.initialOffset())
    fill(cluster.bootstrap_servers, topic, numbered(1, 5))
    cut_off = advance(first, start)  # written down, and not run before the driver died
    delete_topic(cluster.bootstrap_servers, topic)
    cluster.create_topic(topic, 2)
    fill(cluster.bootstrap_servers, topic, numbered(9, 70))
    fill(cluster.bootstrap_servers, topic, numbered(1, 90), partition=1)
    said = (
        f"topic {topic} was deleted and made again: .*{topic}-0 to 5.*set the option failOnDataLoss to false"
    )
    with pytest.raises(LostDataError, match=said):
        make_reader(both).latestOffset(start, ALL)
    with pytest.raises(LostDataError, match="deleted and made again"):
        make_reader(both).partitions(start, cut_off)
    tolerant = make_reader(both, failOnDataLoss="false")
    assert tolerant.partitions(start, cut_off) == []
    end = advance(tolerant, cut_off)
    assert values(tolerant, cut_off, end) == [*numbered(9, 70), *numbered(1, 90)]
    # Known by its new id from here on, and a batch that is run again reads the same.
    assert advance(make_reader(both), end) == end
    assert values(make_reader(both), cut_off, end) == [*numbered(9, 70), *numbered(1, 90)]


def test_checkpoints_without_ids_are_gone_on_with(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(5))
    reader = make_reader(topic)
    start = {topic: {"0": 3}}  # of the connector, or of ours before there were ids
    end = advance(reader, start)
    assert values(reader, start, end) == numbered(2, 3)
    assert list(end["@ids"]) == [topic]
    assert advance(reader, {topic: {"0": 5}}) == {topic: {"0": 5}}


def test_records_deleted_between_batches(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    start = {topic: {"0": 3}}
    delete_records(cluster.bootstrap_servers, topic, 0, 6)
    strict = make_reader(topic)
    end = advance(strict, start)
    with pytest.raises(LostDataError, match="begins at offset 6 now"):
        values(strict, start, end)
    tolerant = make_reader(topic, failOnDataLoss="false")
    assert values(tolerant, start, end) == numbered(4, 6)


# What others see


def test_progress_tells_offsets_and_lag(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic = make_topic()
    fill(cluster.bootstrap_servers, topic, numbered(10))
    reader = make_reader(topic, startingOffsets="earliest")
    assert reader.reportLatestOffset() is None
    advance(reader, reader.initialOffset(), ReadMaxRows(4))
    told = reader.reportLatestOffset() or {}
    assert (told[topic], told["@lag"]) == ({"0": 10}, {topic: {"0": 6}})
    assert told["@description"] == f"headrace[Subscribe[{topic}]]"


def test_progress_is_shown_in_the_users_group(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader
) -> None:
    topic, group = make_topic(2), f"shown-{make_topic()}"
    fill(cluster.bootstrap_servers, topic, numbered(10))
    reader = make_reader(topic, startingOffsets="earliest", **{"kafka.group.id": group})
    start = reader.initialOffset()
    first = advance(reader, start, ReadMaxRows(4))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:

        def committed() -> dict[TopicPartition, int]:
            return {each: found.offset for each, found in admin.group_offsets(group).items()}

        assert committed() == {}  # nothing has been read yet
        second = advance(reader, first)  # Spark asks on when a batch is done
        both = {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}
        eventually(lambda: committed() == both, "the first commit")
        reader.commit(second)
        eventually(lambda: committed()[TopicPartition(topic, 0)] == 10, "the second commit")
        reader.stop()
        (description,) = [each for each in admin.list_groups() if each.group_id == group]
        assert description.group_id == group


def test_a_group_that_cannot_be_written_costs_no_query(
    cluster: Cluster, make_topic: MakeTopic, make_reader: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    group = f"taken-{topic}"  # by members of its own
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as member:
        member.subscribe([topic])
        eventually(lambda: bool(member.poll(0.1)) or bool(member.assignment), "a member")
        fill(cluster.bootstrap_servers, topic, numbered(3))
        reader = make_reader(topic, startingOffsets="earliest", **{"kafka.group.id": group})
        end = advance(reader, reader.initialOffset())
        assert values(reader, reader.initialOffset(), end) == numbered(3)
        advance(reader, end)
        eventually(lambda: "progress is not shown in group" in caplog.text, "the warning")
    # The member has left the group: what was not shown is shown when Spark asks again.
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        shown = {TopicPartition(topic, 0): OffsetAndMetadata(3)}

        def is_shown() -> bool:
            advance(reader, end)
            return admin.group_offsets(group) == shown

        eventually(is_shown, "the progress")
    assert caplog.text.count("progress is not shown") == 1
