"""What Apache Kafka answered to the scripts of `alike`, and headrace in virtual time: no JVM, no waiting."""

import re
from pathlib import Path

import pytest

from tests.compat.alike import play, three_nodes
from tests.compat.alike.allowed import ALLOWED, Allowed, reason_for
from tests.compat.alike.difference import Difference, compare
from tests.compat.alike.plain import fit
from tests.compat.alike.session import Answer
from tests.server.group_requests import join


@pytest.mark.parametrize("area", play.AREAS)
def test_the_same_answers_as_kafka(area: str) -> None:
    found = compare(play.kept(area), play.on_simulated(area))
    left = [str(each) for each in found if reason_for(each) is None]
    assert left == []


def test_the_documented_moves_of_an_epoch_are_kafkas() -> None:
    text = (Path(__file__).parents[2] / "docs" / "paths" / "heartbeat.md").read_text()
    rows = re.findall(r"^\| (.+) \| (moves|stays) \|$", text, re.MULTILINE)
    told = [(label, "moves" if content["moves"] else "stays") for label, content in play.kept("epochs")]
    assert rows == told


@pytest.mark.parametrize("area", play.ON_THREE_NODES)
def test_the_same_answers_as_three_nodes_of_kafka(area: str) -> None:
    found = compare(play.kept(area), three_nodes.on_simulated(area))
    left = [str(each) for each in found if reason_for(each) is None]
    assert left == []


def test_a_difference_is_found_where_it_is() -> None:
    kafka = [
        Answer("a", {"topics": [{"name": "t", "error_code": "NONE"}, {"name": "u"}]}),
        Answer("b", "closed"),
    ]
    ours = [Answer("a", {"topics": [{"name": "u"}, {"name": "t", "error_code": "X"}]}), Answer("b", {})]
    assert [(each.label, each.path) for each in compare(kafka, ours)] == [
        ("a", ".topics(order)"),
        ("a", ".topics[0].error_code"),
        ("b", ""),
    ]
    assert [each.path for each in compare(kafka, kafka[:1])] == ["answers"]
    assert list(compare(kafka, kafka)) == []


def test_only_what_is_in_the_table_is_allowed() -> None:
    assert reason_for(Difference("a", ".error_code", "X", "Y")) is None
    assert reason_for(Difference("a", ".error_message", None, "a reason")) is not None
    assert reason_for(Difference("a", ".error_message", "a reason", None)) is None
    assert reason_for(Difference("a", ".error_message", "a reason", "another")) is None
    row = Allowed("r", "^a$", "x", "why", (1, 2))
    assert reason_for(Difference("a", ".x", 1, 2), [row]) is row
    assert reason_for(Difference("a", ".x", 2, 1), [row]) is None
    assert len({each.name for each in ALLOWED}) == len(ALLOWED)


def test_a_request_is_cut_to_its_version() -> None:
    request = join("g", instance="i")
    assert fit(request, 9) == request
    assert fit(request, 4).group_instance_id is None
