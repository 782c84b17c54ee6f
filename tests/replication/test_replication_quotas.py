"""Throttles: whose bytes count, how many may pass, and that who is in sync is never held back."""

import pytest

from headrace.log.throttler import Throttler
from headrace.replication.replication_quotas import FollowerReplicationQuota, LeaderReplicationQuota, is_named
from tests.replication.building import NODE, OTHER, Bench, image


@pytest.mark.parametrize(
    ("replicas", "named"),
    [((), False), (("*",), True), (("0:1",), True), (("0:2", "1:1"), False), (("0:2", "0:1"), True)],
)
def test_a_replica_is_named_by_partition_and_broker(replicas: tuple[str, ...], named: bool) -> None:
    assert is_named(replicas, 0, 1) is named


def test_bytes_come_at_a_rate_and_are_not_saved_up_for_long() -> None:
    allowance = Throttler(lambda: 1_000)
    assert not allowance.is_used_up(0)
    allowance.take(1_500)
    assert allowance.is_used_up(0)
    assert allowance.is_used_up(500)
    assert not allowance.is_used_up(501)
    assert not allowance.is_used_up(100_000)
    allowance.take(1_000)
    assert allowance.is_used_up(100_000)


def test_a_rate_that_changes_holds_at_once() -> None:
    rate = 10
    allowance = Throttler(lambda: rate)
    allowance.is_used_up(0)
    allowance.take(1_000)
    assert allowance.is_used_up(10_000)
    rate = 1_000_000
    assert not allowance.is_used_up(10_002)


def throttled_bench() -> Bench:
    bench = Bench()
    bench.open()
    bench.create("t", 1)
    for side in ("leader", "follower"):
        bench.configure("t", f"{side}.replication.throttled.replicas", f"0:{NODE}")
    return bench


def test_a_follower_in_sync_is_not_held_back() -> None:
    partition = throttled_bench().partition("t")
    throttle = FollowerReplicationQuota(NODE, lambda: 100)
    partition.follow_metadata(image(OTHER, leader=OTHER, epoch=1))
    assert throttle.allows(partition, 0)
    throttle.note(partition, 500, 0)
    assert not throttle.allows(partition, 0)
    partition.follow_metadata(image(NODE, OTHER, leader=OTHER, epoch=2))
    assert throttle.allows(partition, 0)
    throttle.note(partition, 5_000, 0)
    partition.follow_metadata(image(OTHER, leader=OTHER, epoch=3))
    assert throttle.allows(partition, 5_000)  # what passed in sync did not count


def test_a_leader_holds_back_who_is_not_in_sync() -> None:
    partition = throttled_bench().partition("t")
    throttle = LeaderReplicationQuota(NODE, lambda: 100)
    partition.follow_metadata(image(NODE, epoch=1))
    assert throttle.holds(partition, OTHER)
    throttle.note(200)
    throttle.is_used_up(0)
    throttle.note(200)
    assert throttle.is_used_up(0)
    partition.follow_metadata(image(NODE, OTHER, epoch=2))
    assert not throttle.holds(partition, OTHER)


def test_nothing_is_held_back_where_nothing_is_named() -> None:
    bench = Bench()
    bench.open()
    bench.create("t", 1)
    partition = bench.partition("t")
    partition.follow_metadata(image(OTHER, leader=OTHER, epoch=1))
    assert not LeaderReplicationQuota(NODE, lambda: 0).holds(partition, OTHER)
    assert FollowerReplicationQuota(NODE, lambda: 0).allows(partition, 0)
