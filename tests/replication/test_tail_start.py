"""A follower starts behind what is in the remote store, with all it would know had it copied everything."""

from dataclasses import replace
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.log.append import AppendOrigin
from headrace.log.unified_log import UnifiedLog
from headrace.replication.leader_endpoint import Lookup
from headrace.replication.replica_fetcher import FetchLimits, ReplicaFetcher
from headrace.testing.disk import VirtualDisk
from headrace.tiered.aux_state import RemoteLogAuxStates
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from headrace.tiered.stores.folder import FolderStore
from headrace.wire.schemas.fetch import FetchRequest
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.schemas.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.log.building import marker, sequenced
from tests.replication.building import append
from tests.replication.pair import FOLLOWER, Pair
from tests.tiered.reading import copy_closed, drop_local

WALL_MS = 1_700_000_000_000


class TieredPair(Pair):
    """A leader whose closed segments are copied by hand, and a follower that knows of the copies."""

    def __init__(self, *, starts_behind_tiered: bool = False) -> None:
        super().__init__()
        for side in (self.leader, self.follower):
            side.log.update_config(replace(side.log.config, remote_storage_enable=True))
        disk = VirtualDisk()
        disk.make_folder("/store")
        self.remote_store = FolderStore(disk, "/store")
        self.logs = RemotePartitionMetadataStore()
        self.tails = RemoteLogAuxStates(self.remote_store, self.logs)
        self.fetcher = ReplicaFetcher(
            node_id=FOLLOWER,
            limits=FetchLimits(wait_ms=0, pause_ms=100, starts_behind_tiered=lambda: starts_behind_tiered),
            tails=self.tails,
        )
        self.fetcher.broker_epoch = 5

    def begin(self) -> None:
        self.fetcher.follow(self.follower.partition)

    def write(self, count: int, *, sequence: int = 0) -> None:
        """A segment with records of an idempotent producer, closed."""
        log = self.leader.log
        for number in range(count):
            log.append_as_leader(
                bytearray(sequenced(7, 0, sequence + number, 1)),
                leader_epoch=self.leader.partition.leader_epoch,
                now_ms=WALL_MS,
            )
        log.roll(WALL_MS)

    def tier(self, leave: int) -> None:
        """Copy what is closed, and leave so many segments on the leader's disk."""
        log = self.leader.log
        copy_closed(log, self.remote_store, self.logs)
        drop_local(log, len(log.segments) - leave)

    def settle(self) -> None:
        """Turn until nothing is asked but for more records; tails are brought at once."""
        for _ in range(12):
            self.now_ms += 200
            self.turn()
            for followed in self.fetcher.tails_wanted:
                assert followed.tail is not None
                self.fetcher.take_tail(followed, self.tails.read(followed.tail), self.now_ms, WALL_MS)
            self.fetcher.tails_wanted.clear()

    def asked_of(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]


def state_of(log: UnifiedLog) -> tuple[Any, ...]:
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.leader_epoch_cache.entries(),
        sorted((p, s.epoch, s.txn_first_offset) for p, s in log.producer_state_manager.producers.items()),
        log.last_stable_offset,
    )


def test_a_new_follower_takes_only_what_the_leader_has_on_its_own_disk() -> None:
    pair = TieredPair()
    pair.write(10)
    pair.write(10, sequence=10)
    pair.write(5, sequence=20)
    append(pair.leader.partition, 3)
    pair.tier(leave=2)
    pair.begin()
    pair.settle()
    log = pair.follower.log
    assert log.local_start_offset == 20
    assert state_of(log) == state_of(pair.leader.log)
    assert log.producer_state_manager.producers[7].last_sequence == 24
    (asked,) = pair.asked_of(ListOffsetsRequest)
    assert asked.topics[0].partitions[0].timestamp == -4
    assert not pair.asked_of(OffsetForLeaderEpochRequest)


def test_epochs_before_the_local_part_are_asked_for_where_it_starts_with_a_new_one() -> None:
    pair = TieredPair()
    pair.write(10)
    pair.lead(2)
    pair.fetcher.leave(pair.follower.partition)
    pair.write(10, sequence=10)
    pair.lead(5)
    pair.fetcher.leave(pair.follower.partition)
    append(pair.leader.partition, 3)
    pair.tier(leave=1)
    pair.begin()
    pair.settle()
    assert pair.follower.log.leader_epoch_cache.entries() == [(0, 0), (2, 10), (5, 20)]
    assert state_of(pair.follower.log) == state_of(pair.leader.log)
    (asked,) = pair.asked_of(OffsetForLeaderEpochRequest)
    assert asked.topics[0].partitions[0].leader_epoch == 4


def test_the_log_starts_where_the_leaders_starts() -> None:
    pair = TieredPair()
    pair.write(10)
    pair.write(10, sequence=10)
    pair.tier(leave=1)
    pair.leader.log.maybe_increment_log_start_offset(6)
    pair.begin()
    pair.settle()
    assert (pair.follower.log.log_start_offset, pair.follower.log.log_end_offset) == (6, 20)
    assert [each.topics[0].partitions[0].timestamp for each in pair.asked_of(ListOffsetsRequest)] == [-2, -4]


def test_a_copy_of_another_lineage_is_none() -> None:
    pair = TieredPair()
    pair.write(10)
    copied = copy_closed(pair.leader.log, pair.remote_store, pair.logs)[0]
    remote = pair.logs.known(copied.partition)
    remote.apply(copied.moved_to(RemoteLogSegmentState.DELETE_STARTED, broker_id=1, event_ms=6))
    remote.apply(replace(copied, segment_id=b"s" * 16, epochs=((3, 0),)))
    drop_local(pair.leader.log, 1)
    append(pair.leader.partition, 1)
    pair.begin()
    pair.settle()
    assert pair.follower.log.log_end_offset == 0
    followed = next(iter(pair.fetcher._followed.values()))
    assert followed.lookup in (Lookup.LOCAL_START, Lookup.EPOCH_BEFORE)


def test_a_copy_that_is_not_known_yet_is_waited_for() -> None:
    pair = TieredPair()
    pair.write(10)
    partition = copy_closed(pair.leader.log, pair.remote_store, pair.logs)[0].partition
    drop_local(pair.leader.log, 1)
    pair.logs._loaded.clear()
    pair.begin()
    pair.settle()
    assert pair.follower.log.log_end_offset == 0
    pair.logs.load(partition)
    pair.settle()
    assert state_of(pair.follower.log) == state_of(pair.leader.log)


def test_a_tail_that_cannot_be_had_is_asked_for_again() -> None:
    pair = TieredPair()
    pair.write(10)
    pair.tier(leave=1)
    pair.begin()
    while not pair.fetcher.tails_wanted:
        pair.now_ms += 200
        pair.turn()
    pair.fetcher.take_tail(pair.fetcher.tails_wanted.pop(), None, pair.now_ms, WALL_MS)
    assert pair.follower.log.log_end_offset == 0
    pair.settle()
    assert state_of(pair.follower.log) == state_of(pair.leader.log)


def test_an_open_transaction_in_the_remote_part_is_ended_by_its_marker_on_the_local_one() -> None:
    pair = TieredPair()
    log = pair.leader.log
    log.append_as_leader(bytearray(sequenced(9, 0, 0, 2, transactional=True)), leader_epoch=0, now_ms=WALL_MS)
    log.roll(WALL_MS)
    log.append_as_leader(
        bytearray(marker(9, 0, commit=True)), leader_epoch=0, now_ms=WALL_MS, origin=AppendOrigin.COORDINATOR
    )
    pair.tier(leave=1)
    pair.begin()
    pair.settle()
    assert pair.follower.log.local_start_offset == 2
    assert state_of(pair.follower.log) == state_of(log)


def test_an_empty_follower_starts_behind_all_that_is_in_the_store_where_that_is_wanted() -> None:
    pair = TieredPair(starts_behind_tiered=True)
    pair.write(10)
    pair.write(10, sequence=10)
    append(pair.leader.partition, 3)
    copy_closed(pair.leader.log, pair.remote_store, pair.logs)
    pair.begin()
    pair.settle()
    assert (pair.leader.log.local_start_offset, pair.follower.log.local_start_offset) == (0, 20)
    assert state_of(pair.follower.log) == state_of(pair.leader.log)
    assert pair.asked_of(ListOffsetsRequest)[0].topics[0].partitions[0].timestamp == -6


def test_an_empty_follower_of_what_was_never_copied_fetches_from_the_start() -> None:
    pair = TieredPair(starts_behind_tiered=True)
    append(pair.leader.partition, 3)
    pair.begin()
    pair.settle()
    assert pair.same_bytes()
    assert len(pair.asked_of(FetchRequest)) > 1


def test_a_leader_that_does_not_know_what_is_in_the_store_is_followed_from_the_start() -> None:
    pair = TieredPair(starts_behind_tiered=True)
    append(pair.leader.partition, 3)
    pair.begin()
    asked = pair.ask()
    assert asked is not None
    refused = ListOffsetsPartitionResponse(0, ErrorCode.UNSUPPORTED_VERSION)
    pair.take(asked, ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [refused])]))
    pair.settle()
    assert pair.same_bytes()
    assert len(pair.asked_of(ListOffsetsRequest)) == 1
