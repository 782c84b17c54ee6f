"""The assignors' promises, without Java: validity, evenness, stickiness, racks, restarts and old members."""

from random import Random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.clients.assignors import ASSIGNORS, make_assignor
from headrace.clients.assignors.consumer_partition_assignor import (
    Assignment,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
    Topics,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.clients.assignors.orders import code_units, hash_order, partition_hash, string_hash
from tests.clients.assignors.invariants import check
from tests.clients.assignors.peer_cases import random_case


def topic(count: int, *racks: str) -> list[PartitionInfo]:
    """Partitions; with racks, one replica each, on one after the other."""
    return [
        PartitionInfo(number, frozenset([racks[number % len(racks)]]) if racks else frozenset())
        for number in range(count)
    ]


def shown(assignment: Assignment) -> dict[str, str]:
    return {member: " ".join(map(str, partitions)) for member, partitions in assignment.items()}


def after(
    name: str, given: Assignment, subscriptions: dict[str, Subscription], generation: int
) -> dict[str, Subscription]:
    """The subscriptions with which members join again."""
    found = {}
    for member, partitions in given.items():
        assignor = make_assignor(name)
        assignor.on_assignment(partitions, generation)
        topics = subscriptions[member].topics
        owned = tuple(partitions) if RebalanceProtocol.COOPERATIVE in assignor.protocols else ()
        found[member] = Subscription(topics, assignor.user_data(topics), owned, generation)
    return found


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_any_group_gets_what_it_should(name: str) -> None:
    for seed in range(400):
        case = random_case(Random(seed), name)
        check(case, make_assignor(name).assign(case.topics, case.subscriptions))


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_nobody_and_nothing(name: str) -> None:
    assert make_assignor(name).assign({"t": topic(2)}, {}) == {}
    assert make_assignor(name).assign({}, {"a": Subscription(("t",)), "b": Subscription()}) == {
        "a": [],
        "b": [],
    }


def test_range_gives_runs_and_static_members_keep_their_place() -> None:
    topics = {"t": topic(5), "u": topic(4)}
    members = {"m1": Subscription(("t", "u")), "m2": Subscription(("t", "u"), instance_id="static")}
    expected = {"m1": "t-3 t-4 u-2 u-3", "m2": "t-0 t-1 t-2 u-0 u-1"}
    assert shown(make_assignor("range").assign(topics, members)) == expected


def test_range_keeps_numbers_together_across_racks() -> None:
    topics: Topics = {"t": topic(4, "a", "b"), "u": topic(4, "a", "b")}
    members = {"m1": Subscription(("t", "u"), rack="b"), "m2": Subscription(("t", "u"), rack="a")}
    expected = {"m1": "t-1 t-3 u-1 u-3", "m2": "t-0 t-2 u-0 u-2"}
    assert shown(make_assignor("range").assign(topics, members)) == expected


def test_roundrobin_passes_over_who_does_not_subscribe() -> None:
    members = {"m1": Subscription(("t",)), "m2": Subscription(("t", "u")), "m3": Subscription(("u",))}
    found = make_assignor("roundrobin").assign({"t": topic(3), "u": topic(3)}, members)
    assert shown(found) == {"m1": "t-0 t-2", "m2": "t-1 u-0 u-2", "m3": "u-1"}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("alike", [True, False])
def test_who_has_keeps(name: str, alike: bool) -> None:
    """A member that leaves costs the others nothing; what it had is spread evenly."""
    topics = {"t": topic(12), "u": topic(1)}
    members = {f"m{number}": Subscription(("t", "u") if alike or number else ("t",)) for number in range(4)}
    first = make_assignor(name).assign(topics, members)
    joining = after(name, first, members, 1)
    del joining["m2"]
    second = make_assignor(name).assign(topics, joining)
    for member in joining:
        assert set(first[member]) <= set(second[member])
    assert {len(partitions) for partitions in second.values()} == {4, 5}


def test_a_cooperative_move_takes_two_rounds() -> None:
    assignor = make_assignor("cooperative-sticky")
    members = {"m1": Subscription(("t",))}
    joining = after(assignor.name, assignor.assign({"t": topic(4)}, members), members, 1)
    joining["m2"] = Subscription(("t",))
    second = assignor.assign({"t": topic(4)}, joining)
    assert shown(second) == {"m1": "t-0 t-1", "m2": ""}
    third = assignor.assign({"t": topic(4)}, after(assignor.name, second, joining, 2))
    assert shown(third) == {"m1": "t-0 t-1", "m2": "t-2 t-3"}


def test_the_later_generation_is_believed() -> None:
    owned = (TopicPartition("t", 0),)
    members = {"old": Subscription(("t",), None, owned, 3), "new": Subscription(("t",), None, owned, 4)}
    found = make_assignor("cooperative-sticky").assign({"t": topic(1)}, members)
    assert shown(found) == {"old": "", "new": "t-0"}


def test_contradicting_claims_are_nobodys_for_a_round() -> None:
    owned = (TopicPartition("t", 0),)
    members = {name: Subscription(("t",), None, owned, 3) for name in ("m1", "m2", "m3")}
    found = make_assignor("cooperative-sticky").assign({"t": topic(3)}, members)
    assert sum(map(len, found.values())) == 2
    assert not any(owned[0] in partitions for partitions in found.values())


def test_partitions_that_are_gone_are_forgotten() -> None:
    """A topic made anew with fewer partitions."""
    owned = (TopicPartition("t", 0), TopicPartition("t", 5), TopicPartition("gone", 0))
    members = {"m1": Subscription(("t",), None, owned, 3), "m2": Subscription(("t",))}
    found = make_assignor("cooperative-sticky").assign({"t": topic(2)}, members)
    assert shown(found) == {"m1": "t-0", "m2": "t-1"}


def test_a_topic_without_subscription_is_not_returned_to_its_earlier_owner() -> None:
    """Java's assignor does so; see test_against_java."""
    earlier = Subscription(("u",), None, tuple(TopicPartition("t", n) for n in range(3)), 1)
    held = tuple(TopicPartition("t", n) for n in range(3))
    members = {"m1": earlier, "m2": Subscription(("t",), None, held, 2), "m3": Subscription(("t", "u"))}
    found = make_assignor("cooperative-sticky").assign({"t": topic(3), "u": topic(1)}, members)
    assert shown(found) == {"m1": "u-0", "m2": "t-1 t-2", "m3": ""}


def test_racks_come_second_to_evenness() -> None:
    topics: Topics = {"t": topic(4, "a", "a", "a", "b")}
    for name in ("sticky", "range"):
        members = {"m1": Subscription(("t",), rack="a"), "m2": Subscription(("t",), rack="b")}
        found = make_assignor(name).assign(topics, members)
        assert TopicPartition("t", 3) in found["m2"]
        assert [len(found[member]) for member in ("m1", "m2")] == [2, 2]


def test_unreadable_memories_are_no_memories() -> None:
    members = {"m1": Subscription(("t",), b"\xff" * 5), "m2": Subscription(("t",), b"")}
    for name in ("sticky", "cooperative-sticky"):
        found = make_assignor(name).assign({"t": topic(2)}, members)
        assert shown(found) == {"m1": "t-0", "m2": "t-1"}


def test_memories_of_the_first_version_have_no_generation() -> None:
    held = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01"
    members = {"m1": Subscription(("t",), held), "m2": Subscription(("t",))}
    assert shown(make_assignor("sticky").assign({"t": topic(2)}, members)) == {"m1": "t-1", "m2": "t-0"}


def test_names() -> None:
    for name in ASSIGNORS:
        assert make_assignor(name).name == name
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert make_assignor(java).name == "cooperative-sticky"
    with pytest.raises(ValueError, match="no assignor is called 'other'; there are range"):
        make_assignor("other")
    assert make_assignor("range").user_data(["t"]) is None
    assert make_assignor("sticky").user_data(["t"]) is None
    assert make_assignor("cooperative-sticky").user_data(["t"]) == b"\xff\xff\xff\xff"


def test_bytes_of_subscriptions_and_assignments() -> None:
    owned = (TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 7))
    subscription = Subscription(("a", "b"), b"data", owned, 4, "rack", instance_id="i")
    encoded = encode_subscription(subscription)
    assert decode_subscription(encoded, instance_id="i") == subscription
    assert decode_subscription(b"\0\x09" + encoded[2:] + b"more", instance_id="i") == subscription
    assert decode_assignment(encode_assignment(reversed(owned))) == list(owned)
    assert decode_assignment(b"") == []
    for broken in (b"", b"\0", b"\0\x03\0\0\0\x05", b"\xff\xff\0\0"):
        with pytest.raises(InvalidBytesError):
            decode_subscription(broken)


def test_orders_are_javas() -> None:
    assert string_hash("hello") == 99162322
    assert string_hash("\U00010000") == 0xD800 * 31 + 0xDC00
    assert code_units("\U00010000") < code_units("\uff5a")
    assert partition_hash(TopicPartition("t", 2)) == 31 * 33 + ord("t")
    assert hash_order(["Q", "b", "a", "A"], string_hash) == ["Q", "a", "A", "b"]  # buckets 1, 1, 1 and 2
    assert hash_order(["Q", "A", *"cdefghijklm"], string_hash)[:2] == ["A", "c"]  # Q is in bucket 17 of 32
