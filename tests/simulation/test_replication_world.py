"""Replication under seeds, and proof that the rules would notice: mistakes that others have made, each of
them planted here, must be found.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER
from headrace.controller import cluster_control, partition_change_builder
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.replication import replica_fetcher
from headrace.replication.leader_state import LeaderState
from headrace.replication.partition import Partition
from headrace.replication.replica_fetch_session import FetchPosition
from headrace.server import delayed_produce
from headrace.testing.simulate import SeedFailedError, play

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost(seed: int) -> None:
    play("replication", seed)


def test_the_same_seed_is_the_same_run() -> None:
    assert play("replication", 3).digest == play("replication", 3).digest


def _truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: what a follower knows of the high watermark is old, and what is above may be committed."""
    follow = replica_fetcher.ReplicaFetcher.follow

    def cut_and_follow(self: replica_fetcher.ReplicaFetcher, partition: Partition) -> None:
        log = partition.log
        if log is not None and log.failure is None:
            log.truncate_to(log.high_watermark, now_ms=0)
        follow(self, partition)

    patch.setattr(replica_fetcher.ReplicaFetcher, "follow", cut_and_follow)


def _do_not_tell_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader that does not know what the follower's last record is cannot see where the logs part."""
    position = replica_fetcher.ReplicaFetcher._position

    def forgetful(self: replica_fetcher.ReplicaFetcher, key: Any) -> FetchPosition | None:
        found = position(self, key)
        return None if found is None else found._replace(last_epoch=-1)

    patch.setattr(replica_fetcher.ReplicaFetcher, "_position", forgetful)


def _count_a_pending_shrink(patch: pytest.MonkeyPatch) -> None:
    """A replica that shall go may be elected until its going is committed."""
    look = LeaderState.maybe_shrink_isr

    def hasty(self: LeaderState, leader_end: int, now_ms: int) -> bool:
        found = look(self, leader_end, now_ms)
        if found and self.proposed is not None:
            self.isr = self.maximal_isr = self.proposed
        return found

    patch.setattr(LeaderState, "maybe_shrink_isr", hasty)


def _count_a_pending_growth_late(patch: pytest.MonkeyPatch) -> None:
    """A replica that was taken in may be elected before its leader hears of it."""
    fetched = LeaderState.fetched

    def slow(self: LeaderState, replica: int, **facts: Any) -> bool:
        found = fetched(self, replica, **facts)
        if found:
            self.maximal_isr = self.isr
        return found

    patch.setattr(LeaderState, "fetched", slow)
    patch.setattr(LeaderState, "_is_joining", lambda *_: False)


def _elect_outside_the_in_sync_set(patch: pytest.MonkeyPatch) -> None:
    def anybody(self: Any) -> tuple[int, bool]:
        for replica in (self.old.leader, *reversed(self.replicas)):
            if replica != NO_LEADER and self._can_lead(replica):
                return replica, True
        return NO_LEADER, True

    patch.setattr(partition_change_builder._PartitionChangeBuilder, "_leader", anybody)


def _acknowledge_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "replicated_to", lambda self, offset: True)


def _take_in_who_has_not_caught_up(patch: pytest.MonkeyPatch) -> None:
    fetched = LeaderState.fetched

    def eager(self: LeaderState, replica: int, **facts: Any) -> bool:
        return fetched(self, replica, **facts | {"high_watermark": 0})

    patch.setattr(LeaderState, "fetched", eager)
    patch.setattr(LeaderState, "epoch_start", property(lambda self: 0, lambda self, value: None))


def _trust_an_unclean_restart(patch: pytest.MonkeyPatch) -> None:
    """KIP-966: a broker that came back without proof of a clean stop may lack what it acknowledged."""
    patch.setattr(cluster_control, "_after_unclean_shutdown", lambda cluster, broker_id: iter(()))


def _count_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "replicated_to", lambda self, leader_end, min_in_sync: leader_end)


def _answer_for_another_leaders_records(patch: pytest.MonkeyPatch) -> None:
    """What waited for its replicas is judged by the offsets alone, whoever has written there since."""

    def outcome(self: Any) -> Any:
        log = self.partition.log
        return ErrorCode.NONE if log.high_watermark >= self.replicated_to else None

    patch.setattr(delayed_produce.DelayedProduce, "outcome", outcome)


def _forget_epochs_of_followed_batches(patch: pytest.MonkeyPatch) -> None:
    """A follower that does not learn epochs from batches answers wrongly once it leads."""
    assign = LeaderEpochFileCache.assign
    chance = random.Random(1)

    def lossy(self: LeaderEpochFileCache, epoch: int, start_offset: int) -> None:
        if chance.random() < 0.5:
            assign(self, epoch, start_offset)

    patch.setattr(LeaderEpochFileCache, "assign", lossy)


# The number of seeds within which each is found; most show within the first few.
MISTAKES: dict[str, tuple[Plant, int]] = {
    "truncate to the high watermark": (_truncate_to_the_high_watermark, 20),
    "do not tell the last epoch": (_do_not_tell_the_last_epoch, 20),
    "count a pending shrink": (_count_a_pending_shrink, 150),
    "count a pending growth late": (_count_a_pending_growth_late, 400),
    "elect outside the in-sync set": (_elect_outside_the_in_sync_set, 40),
    "acknowledge before it is replicated": (_acknowledge_before_it_is_replicated, 20),
    "count the leader alone": (_count_the_leader_alone, 40),
    "take in who has not caught up": (_take_in_who_has_not_caught_up, 80),
    "trust an unclean restart": (_trust_an_unclean_restart, 80),
    "answer for another leader's records": (_answer_for_another_leaders_records, 80),
    "forget epochs": (_forget_epochs_of_followed_batches, 20),
}

# Where the rare ones showed last, to be looked at first: a search takes a minute.
LIKELY = {"count a pending shrink": 29, "count a pending growth late": 84}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, seeds = MISTAKES[name]
    plant(monkeypatch)
    for seed in (LIKELY.get(name, 0), *range(seeds)):
        try:
            play("replication", seed)
        except SeedFailedError:
            return
    pytest.fail(f"{name}: not found within {seeds} seeds")
