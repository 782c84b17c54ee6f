"""The assignor: equal loads, sticky, and no task twice in a process."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from headrace.coordinators.group.streams.assignor import AssignmentMemberSpec, StreamsGroupSpec, assign
from headrace.coordinators.group.streams.internal_topics import (
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    ConfiguredTopology,
)
from headrace.coordinators.group.streams.tasks import NOTHING, TasksTuple, task_ids

Shape = Mapping[str, tuple[int, bool]]
"""Tasks of each subtopology, and whether it has state."""


def configured(shape: Shape) -> ConfiguredTopology:
    kept = {"kept": ConfiguredInternalTopic("kept", 1, 1, {})}
    parts = {
        name: ConfiguredSubtopology(number, frozenset({"in"}), {}, frozenset(), kept if stateful else {})
        for name, (number, stateful) in shape.items()
    }
    return ConfiguredTopology(0, parts, {})


def given(
    members: Mapping[str, str],
    shape: Shape,
    standbys: int = 0,
    before: Mapping[str, TasksTuple] | None = None,
) -> dict[str, TasksTuple]:
    """Members by their processes."""
    specs = {
        member: AssignmentMemberSpec(process, target=(before or {}).get(member, NOTHING))
        for member, process in members.items()
    }
    return assign(StreamsGroupSpec(specs, standbys), configured(shape))


def check(members: Mapping[str, str], shape: Shape, standbys: int, found: Mapping[str, TasksTuple]) -> None:
    active = [task for each in found.values() for task in task_ids(each.active)]
    assert sorted(active) == sorted(
        (name, part) for name, (count, _) in shape.items() for part in range(count)
    )
    loads = [len(list(task_ids(each.active))) for each in found.values()]
    assert max(loads) - min(loads) <= 1
    in_process = Counter(
        (members[member], task)
        for member, each in found.items()
        for tasks in (each.active, each.standby)
        for task in task_ids(tasks)
    )
    assert set(in_process.values()) <= {1}
    copies = Counter(task for each in found.values() for task in task_ids(each.standby))
    wanted = min(standbys, len(set(members.values())) - 1)
    stateful = [(name, part) for name, (count, kept) in shape.items() if kept for part in range(count)]
    assert copies == (dict.fromkeys(stateful, wanted) if wanted else {})


@pytest.mark.parametrize("seed", range(40))
def test_loads_are_equal_and_what_can_stay_stays(seed: int) -> None:
    chance = random.Random(seed)
    shape = {
        str(number): (chance.randrange(1, 9), chance.random() < 0.6)
        for number in range(chance.randrange(1, 5))
    }
    members = {
        f"m{number}": f"p{number % chance.randrange(1, 5)}" for number in range(chance.randrange(1, 9))
    }
    standbys = chance.randrange(3)
    found = given(members, shape, standbys)
    check(members, shape, standbys, found)
    assert given(members, shape, standbys, found) == found, "nothing moves without a reason"
    members["new"] = chance.choice(["p0", "another"])
    grown = given(members, shape, standbys, found)
    check(members, shape, standbys, grown)
    tasks = sum(count for count, _ in shape.values())
    moved = sum(len(set(task_ids(found[each].active)) - set(task_ids(grown[each].active))) for each in found)
    assert moved <= -(-tasks // len(members)), "only what the new one gets"
    del members["m0"]
    check(members, shape, standbys, given(members, shape, standbys, grown))


def test_a_task_goes_to_who_has_a_copy_of_it() -> None:
    shape = {"0": (3, True)}
    members = {"a": "p1", "b": "p2", "c": "p3"}
    before = given(members, shape, 1)
    (lost,) = task_ids(before["a"].active)
    (heir,) = [member for member in "bc" if lost in task_ids(before[member].standby)]
    after = given({"b": "p2", "c": "p3"}, shape, 1, before)
    assert lost in task_ids(after[heir].active)


def test_more_members_than_tasks() -> None:
    found = given({f"m{number}": f"p{number}" for number in range(5)}, {"0": (2, False)})
    assert sorted(len(list(task_ids(each.active))) for each in found.values()) == [0, 0, 0, 1, 1]
    assert given({}, {"0": (2, False)}) == {}
