"""The assignors: even, sticky, near; and range, which cuts."""

import random
from collections import Counter

import pytest

from headrace.coordinators.group.consumer.assignors import (
    ASSIGNORS,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
)

NO_RACK: frozenset[str] = frozenset()


def ask(
    name: str,
    topics: dict[bytes, int],
    members: dict[str, set[bytes]],
    current: GroupAssignment | None = None,
    instances: dict[str, str] | None = None,
) -> GroupAssignment:
    subscribers = {
        member: MemberSpec(
            frozenset(wanted), (instances or {}).get(member), current=(current or {}).get(member, {})
        )
        for member, wanted in members.items()
    }
    group_spec = GroupSpec(subscribers, {topic: (NO_RACK,) * count for topic, count in topics.items()})
    return ASSIGNORS[name](group_spec)


def check(
    topics: dict[bytes, int], members: dict[str, set[bytes]], target_assignment: GroupAssignment
) -> Counter[str]:
    """Every wanted partition has one owner, who subscribes to it. Answers each member's number."""
    owners: Counter[tuple[bytes, int]] = Counter()
    for member, target in target_assignment.items():
        assert set(target) <= members[member]
        owners.update((topic, index) for topic, indexes in target.items() for index in indexes)
    wanted = set().union(*members.values())
    assert owners == Counter((topic, index) for topic in wanted for index in range(topics[topic]))
    return Counter({member: sum(map(len, target_assignment[member].values())) for member in members})


def moved(before: GroupAssignment, after: GroupAssignment) -> int:
    """How many partitions left a member that is still there."""
    return sum(
        len(before[member].get(topic, frozenset()) - after[member].get(topic, frozenset()))
        for member in before.keys() & after.keys()
        for topic in before[member]
    )


def test_range_cuts_topics_alike() -> None:
    both = {b"t", b"u"}
    target_assignment = ask("range", {b"t": 5, b"u": 5}, {"a": both, "b": both})
    assert target_assignment == {"a": {b"t": {0, 1, 2}, b"u": {0, 1, 2}}, "b": {b"t": {3, 4}, b"u": {3, 4}}}


def test_range_seats_static_members_first_by_instance() -> None:
    wanted = {b"t"}
    target_assignment = ask(
        "range", {b"t": 3}, {"a": wanted, "x": wanted, "y": wanted}, instances={"x": "2", "y": "1"}
    )
    assert target_assignment == {"y": {b"t": {0}}, "x": {b"t": {1}}, "a": {b"t": {2}}}


def test_range_with_more_members_than_partitions() -> None:
    wanted = {b"t"}
    assert ask("range", {b"t": 1}, {"a": wanted, "b": wanted}) == {"a": {b"t": {0}}, "b": {}}


@pytest.mark.parametrize("seed", range(30))
def test_uniform_among_equals_is_even_and_moves_the_least(seed: int) -> None:
    rng = random.Random(seed)
    topics = {bytes([at]): rng.randrange(1, 30) for at in range(rng.randrange(1, 5))}
    everything = set(topics)
    members = {f"m{at}": everything for at in range(rng.randrange(1, 12))}
    target_assignment = ask("uniform", topics, members)
    for _ in range(8):
        before = target_assignment
        if rng.random() < 0.5 and len(members) > 1:
            del members[rng.choice(sorted(members))]
        else:
            members[f"n{rng.randrange(10**6)}"] = everything
        target_assignment = ask("uniform", topics, members, before)
        sizes = check(topics, members, target_assignment)
        assert max(sizes.values()) - min(sizes.values()) <= 1
        quota, extras = divmod(sum(topics.values()), len(members))
        had = sorted((sum(map(len, before.get(each, {}).values())) for each in members), reverse=True)
        least = sum(max(0, size - quota - (at < extras)) for at, size in enumerate(had))
        assert moved(before, target_assignment) == least


@pytest.mark.parametrize("seed", range(60))
def test_uniform_among_unequals_cannot_be_made_more_even_by_a_move(seed: int) -> None:
    rng = random.Random(seed)
    topics = {bytes([at]): rng.randrange(1, 12) for at in range(rng.randrange(2, 6))}
    target_assignment: GroupAssignment = {}
    for _ in range(4):
        members = {
            f"m{at}": set(rng.sample(sorted(topics), rng.randrange(1, len(topics) + 1)))
            for at in range(rng.randrange(1, 9))
        }
        target_assignment = ask("uniform", topics, members, target_assignment)
        sizes = check(topics, members, target_assignment)
        for member, target in target_assignment.items():
            for topic in target:
                lightest = min(sizes[other] for other in members if topic in members[other])
                assert sizes[member] - lightest <= 1


def test_uniform_stays_when_nothing_changed() -> None:
    topics, members = {b"t": 7, b"u": 3}, {"a": {b"t"}, "b": {b"t", b"u"}, "c": {b"u"}}
    target_assignment = ask("uniform", topics, members)
    assert ask("uniform", topics, members, target_assignment) == target_assignment


def test_uniform_prefers_members_near_a_replica() -> None:
    racks = tuple(frozenset({"west" if at % 2 else "east"}) for at in range(8))
    members = {
        "a": MemberSpec(frozenset({b"t"}), rack_id="west"),
        "b": MemberSpec(frozenset({b"t"}), rack_id="east"),
    }
    target_assignment = ASSIGNORS["uniform"](GroupSpec(members, {b"t": racks}))
    assert target_assignment == {"a": {b"t": {1, 3, 5, 7}}, "b": {b"t": {0, 2, 4, 6}}}


def test_uniform_is_even_before_it_is_near() -> None:
    racks = (frozenset({"west"}),) * 4
    members = {
        "a": MemberSpec(frozenset({b"t"}), rack_id="west"),
        "b": MemberSpec(frozenset({b"t"}), rack_id="east"),
    }
    target_assignment = ASSIGNORS["uniform"](GroupSpec(members, {b"t": racks}))
    assert [len(target[b"t"]) for target in target_assignment.values()] == [2, 2]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_and_nothing(name: str) -> None:
    assert ask(name, {}, {}) == {}
    assert ask(name, {}, {"a": set()}) == {"a": {}}
