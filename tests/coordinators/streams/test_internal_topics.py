"""How many partitions the internal topics of a topology need, and what a member hears meanwhile."""

import pytest

from headrace.base.errors import ApiError
from headrace.coordinators.group.streams.internal_topics import ConfiguredTopology, configure_topics
from headrace.coordinators.group.streams.topology import StreamsTopology
from headrace.wire.schemas.streams_group_heartbeat import TaskIds, TopicInfo
from tests.coordinators.streams.streams_world import StreamsWorld, statuses, topology


def configured(text: str, **existing: int) -> ConfiguredTopology:
    return configure_topics(StreamsTopology.from_request(topology(text)), existing.get)


def missing(text: str, **existing: int) -> dict[str, int]:
    found = configured(text, **existing)
    return {name: topic.num_partitions for name, topic in found.internal_topics_to_create.items()}


def why_not(text: str, **existing: int) -> tuple[int, str] | None:
    return configured(text, **existing).status


def tasks(text: str, **existing: int) -> dict[str, int]:
    found = configured(text, **existing).subtopologies
    return {} if found is None else {name: each.number_of_tasks for name, each in found.items()}


def test_there_is_a_task_for_each_partition_of_the_largest_input() -> None:
    assert tasks("a b\nc", a=3, b=3, c=7) == {"0": 3, "1": 7}


def test_a_changelog_has_a_partition_for_each_task() -> None:
    assert missing("a = kept also", a=5) == {"kept": 5, "also": 5}


@pytest.mark.parametrize("text", ["a > r\n*r > s\n*s = kept", "*s = kept\n*r > s\na > r"])
def test_a_repartition_topic_is_as_large_as_what_is_written_into_it(text: str) -> None:
    """In whatever order the topology names its parts."""
    assert missing(text, a=6) == {"r": 6, "s": 6, "kept": 6}


def test_a_repartition_topic_is_as_large_as_the_topic_that_it_is_joined_with() -> None:
    assert missing("a > r\nb *r = kept", a=6, b=4) == {"r": 4, "kept": 4}


def test_repartition_topics_that_are_joined_are_as_large_as_the_larger() -> None:
    assert missing("a > r\nb > s\n*r *s", a=2, b=8) == {"r": 8, "s": 8}


def test_a_number_that_is_asked_for_counts() -> None:
    assert missing("a > r\n*r:9 > s\n*s", a=2) == {"r": 9, "s": 9}


def test_what_is_there_is_not_made() -> None:
    assert missing("a > r\n*r = kept", a=3, r=3) == {"kept": 3}
    assert configured("a > r\n*r = kept", a=3, r=3, kept=3).is_ready


def test_topics_that_do_not_fit_are_told() -> None:
    assert why_not("a", b=1) == (1, "Source topics a are missing.")
    assert why_not("a b c d e", a=1) == (1, "Source topics b, c, d and 1 additional topics are missing.")
    assert why_not("a b", a=1, b=2) == (
        2,
        "Following topics do not have the same number of partitions: [{a=1, b=2}]",
    )
    assert why_not("a = kept", a=2, kept=3) == (
        2,
        "Existing topic kept has different number of partitions: expected 2, found 3",
    )
    code, words = why_not("a > r\nb *r:3", a=2, b=2) or (0, "")
    assert (code, words.partition(" doesn't")[0]) == (2, "Number of partitions [3] of repartition topic [r]")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a > r\n*s > s\n*r", "loops in the topology"),
        ("a\n*r", "never used as a sink"),
        ("= kept", "No source topics found for subtopology 0"),
    ],
)
def test_what_can_never_run_is_refused(text: str, why: str) -> None:
    with pytest.raises(ApiError, match=why):
        configured(text, a=1)


def test_a_chain_is_followed_from_whichever_end() -> None:
    """Thousands of parts take no longer backwards."""
    parts = 3_000
    chain = [f"*r{number} > r{number + 1}" for number in range(parts)]
    text = "\n".join([*reversed(chain), "a > r0", f"*r{parts}"])
    assert set(missing(text, a=2).values()) == {2}


def test_a_group_waits_for_its_topics_and_starts_when_they_are_there() -> None:
    world = StreamsWorld(text="in > r\n*r = kept", **{"else": 1})
    first = world.join("a")
    assert (statuses(first), first.active_tasks, world.streams.state) == ([1], [], "NotReady")
    world.topic("in", 2)
    later = world.beat("a")
    assert statuses(later) == [3]
    assert {name: topic.num_partitions for name, topic in world.creatable.items()} == {"r": 2, "kept": 2}
    assert world.streams.state == "NotReady"
    world.create_missing()
    world.beat_all(2)
    assert world.active["a"] == {"0": {0, 1}, "1": {0, 1}}
    assert world.streams.state == "Stable"


def test_tasks_end_when_a_topic_is_gone() -> None:
    world = StreamsWorld()
    world.join("a")
    world.delete_topic("in")
    told = world.ask("a", world.epochs["a"])
    assert (statuses(told), told.active_tasks) == ([1], [])
    world.topic("in", 2)
    world.active["a"] = {}
    world.beat_all(3)
    assert world.active["a"] == {"0": {0, 1}}


def test_tasks_that_there_are_not_are_refused() -> None:
    world = StreamsWorld()
    world.join("a")
    options = {"standby_tasks": [], "warmup_tasks": []}
    none = world.ask("a", 2, active_tasks=[TaskIds("9", [0])], **options)
    assert none.error_message == "Subtopology 9 does not exist in the topology."
    beyond = world.ask("a", 2, active_tasks=[TaskIds("0", [4])], **options)
    assert (beyond.error_message or "").startswith("Task 4 for subtopology 0 is invalid.")


def test_settings_of_internal_topics_are_the_topologys() -> None:
    asked = topology("in = kept")
    asked.subtopologies[0].state_changelog_topics = [TopicInfo("kept", replication_factor=3)]
    found = configure_topics(StreamsTopology.from_request(asked), {"in": 2}.get)
    made = found.internal_topics_to_create["kept"]
    assert (made.num_partitions, made.replication_factor) == (2, 3)
