"""Replicas are placed on different brokers, over racks, with leaders spread and never on a fenced broker."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.replica_placer import place
from headrace.metadata.brokers import BrokerRegistration


def broker(
    number: int, rack: str | None = None, *, fenced: bool = False, **more: object
) -> BrokerRegistration:
    return BrokerRegistration(number, 0, b"", {}, {}, rack=rack, fenced=fenced, **more)  # type: ignore[arg-type]


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    fenced=st.sets(st.integers(0, 8)),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 5),
    seed=st.integers(),
)
def test_whatever_the_cluster_the_rules_hold(
    racks: list[str | None], fenced: set[int], partitions: int, factor: int, seed: int
) -> None:
    brokers = {n: broker(n, rack, fenced=n in fenced) for n, rack in enumerate(racks)}
    live = [each for each in brokers.values() if not each.fenced]
    if not live or factor > len(brokers):
        with pytest.raises(ApiError) as refused:
            place(brokers.values(), partitions=partitions, replication_factor=factor, rng=Random(seed))
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = place(brokers.values(), partitions=partitions, replication_factor=factor, rng=Random(seed))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert not brokers[replicas[0]].fenced
        used = Counter(brokers[replica].rack for replica in replicas)
        open_racks = [r for r, n in Counter(b.rack for b in brokers.values()).items() if used[r] < n]
        assert all(used[rack] >= max(used.values()) - 1 for rack in open_racks), "racks take turns"


def test_leaders_and_replicas_spread_evenly() -> None:
    brokers = [broker(n, rack) for n, rack in enumerate("aabbcc")]
    placed = place(brokers, partitions=600, replication_factor=3, rng=Random(1))
    leaders = Counter(replicas[0] for replicas in placed)
    everywhere = Counter(replica for replicas in placed for replica in replicas)
    assert max(leaders.values()) - min(leaders.values()) < 60
    assert set(everywhere.values()) == {300}
    assert len({tuple(replicas) for replicas in placed}) > 6, "the pattern does not repeat"


@pytest.mark.parametrize("nodes", range(1, 9))
@pytest.mark.parametrize("machines", [1, 2, 3, 4])
def test_every_node_of_every_machine_leads_as_much(machines: int, nodes: int) -> None:
    """A rack is a machine here. Kafka's own way leaves two thirds of the nodes of three times three idle."""
    brokers = [broker(n, f"machine{n // nodes}") for n in range(machines * nodes)]
    for seed in range(20):
        placed = place(
            brokers,
            partitions=2 * len(brokers),
            replication_factor=min(machines, 3),
            rng=Random(seed),
        )
        assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
        assert all(len({replica // nodes for replica in replicas}) == len(replicas) for replicas in placed)


def test_where_it_starts_is_drawn() -> None:
    brokers = [broker(n) for n in range(5)]
    firsts = {
        place(brokers, partitions=1, replication_factor=1, rng=Random(seed))[0][0] for seed in range(50)
    }
    assert firsts == set(range(5))


def test_brokers_that_leave_or_are_cordoned_get_nothing() -> None:
    brokers = [
        broker(1),
        broker(2, in_controlled_shutdown=True),
        broker(3, directories=(b"d",), cordoned_directories=(b"d",)),
    ]
    assert place(brokers, partitions=3, replication_factor=1, rng=Random(1)) == [[1]] * 3
    with pytest.raises(ApiError, match="because only 1 broker"):
        place(brokers, partitions=1, replication_factor=2, rng=Random(1))
    with pytest.raises(ApiError, match="must be positive"):
        place(brokers, partitions=1, replication_factor=0, rng=Random(1))
