"""What options and files say of offsets, without a cluster."""

import io

import click
import pytest

from headrace.base.ids import TopicPartition
from headrace.cli.group_offsets import OffsetChange, parse_duration, parse_topics, plan, read_offsets
from headrace.clients.errors import ClientError


class Named(io.StringIO):
    name = "offsets.csv"


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("2H", 7_200_000),
        ("3d", 259_200_000),
        ("PT90M", 5_400_000),
        ("P1DT12H30M1S", 131_401_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("0s", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "90", "m", "-1h", "1y", "P1M", "PT1H ", "1h 30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration, as 90m"):
        parse_duration(text)


def test_topics_and_partitions() -> None:
    assert parse_topics(["a", "b:0,2", "b:1"]) == {"a": None, "b": {0, 1, 2}}
    assert parse_topics(["a:1", "a"]) == parse_topics(["a", "a:1"]) == {"a": None}
    for wrong in ("", ":1", "a:", "a:1,", "a:-1", "a:1:2"):
        with pytest.raises(click.BadParameter, match="neither TOPIC nor TOPIC:PARTITION"):
            parse_topics([wrong])


def test_a_file_of_offsets() -> None:
    assert read_offsets(Named('a,0,5\r\n\n"a", 1 ,6\n')) == {
        TopicPartition("a", 0): 5,
        TopicPartition("a", 1): 6,
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there are no offsets in it"),
        ("a,0\n", "'a,0' is not topic,partition,offset"),
        ("a,0,-1\n", "'a,0,-1' is not topic,partition,offset"),
        ("topic,partition,offset\n", "is not topic,partition,offset"),
        ("a,0,1\na,0,2\n", "more than one line for a-0"),
    ],
)
def test_a_file_that_is_none(text: str, told: str) -> None:
    with pytest.raises(ClientError, match=f"^offsets.csv: .*{told}"):
        read_offsets(Named(text))


@pytest.mark.parametrize(("wanted", "to"), [(3, 5), (5, 5), (7, 7), (9, 9), (10, 9), (-4, 5)])
def test_targets_stay_within_the_log(wanted: int, to: int) -> None:
    at = TopicPartition("a", 0)
    (change,) = plan({at: wanted}, committed={at: 6}, beginnings={at: 5}, ends={at: 9})
    assert change == OffsetChange(at, 6, to, wanted)
    assert change.is_clipped == (wanted != to)
