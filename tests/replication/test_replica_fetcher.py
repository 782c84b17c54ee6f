"""A follower's core against a real leader: fetching, parting logs, starting anew, failing partitions."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import Record, build_batch
from headrace.replication.partition import Partition
from headrace.replication.replication_quotas import ReplicaQuota
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headrace.wire.schemas.list_offsets import ListOffsetsRequest
from headrace.wire.schemas.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.replication.building import append
from tests.replication.pair import FOLLOWER, ID, LEADER, Pair


def test_records_come_byte_for_byte_and_the_high_watermark_behind_them() -> None:
    pair = Pair()
    append(pair.leader.partition, 3)
    append(pair.leader.partition, 2)
    pair.turn()
    assert pair.follower.ends == (0, 0, 5)
    assert pair.leader.log.high_watermark == 0
    pair.turn()  # the leader hears how far the follower is, and tells what that means
    assert pair.leader.log.high_watermark == 5
    assert pair.follower.ends == (0, 5, 5)
    assert pair.same_bytes()
    assert pair.follower.log.leader_epoch_cache.entries() == [(0, 0)]


def test_after_the_opening_only_what_changed_is_said() -> None:
    pair = Pair()
    pair.turns(2)
    append(pair.leader.partition, 1)
    pair.turns(3)
    first, second, third, fourth, fifth = pair.asked
    assert (first.session_id, first.session_epoch, len(first.topics)) == (0, 0, 1)
    assert [each.session_epoch for each in (second, third, fourth, fifth)] == [1, 2, 3, 4]
    assert [len(each.topics) for each in (second, third, fourth, fifth)] == [0, 0, 1, 0]
    wish = fourth.topics[0].partitions[0]
    assert (wish.fetch_offset, wish.last_fetched_epoch, wish.current_leader_epoch) == (1, 0, 0)
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (FOLLOWER, 5)


def test_a_session_that_is_lost_is_opened_again() -> None:
    pair = Pair()
    pair.turns(2)
    pair.sessions._sessions.clear()
    append(pair.leader.partition, 1)
    pair.turns(2)
    assert pair.asked[-1].session_epoch == 0
    assert pair.follower.log.log_end_offset == 1


def test_a_session_that_cannot_be_opened_is_tried_again_after_a_while() -> None:
    pair = Pair()
    asked = pair.ask()
    assert asked is not None
    pair.take(asked, FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR))
    assert pair.ask() is None
    due_ms = pair.fetcher.due_ms()
    assert due_ms is not None
    pair.now_ms = due_ms
    assert pair.ask() is not None


def test_a_lost_connection_pauses_and_begins_a_session_anew() -> None:
    pair = Pair()
    pair.turns(2)
    asked = pair.ask()
    assert asked is not None
    pair.fetcher.failed(asked, pair.now_ms)
    assert pair.ask() is None
    due_ms = pair.fetcher.due_ms()
    assert due_ms is not None
    pair.now_ms = due_ms
    append(pair.leader.partition, 1)
    pair.turn()
    assert pair.asked[-1].session_epoch == 0
    assert pair.follower.log.log_end_offset == 1


def test_where_logs_part_the_follower_cuts_back_by_epochs_and_not_by_the_high_watermark() -> None:
    pair = Pair()
    append(pair.leader.partition, 3)
    pair.turns(2)
    append(pair.leader.partition, 2)
    pair.turn()
    assert pair.follower.ends == (0, 3, 5)  # two records above the high watermark it knows
    pair.lead(1)
    append(pair.leader.partition, 1)
    pair.turns(2)
    assert pair.follower.ends[2] == 6
    assert pair.same_bytes()
    assert not any(isinstance(each, OffsetForLeaderEpochRequest) for each in pair.asked)


def test_what_another_leader_wrote_goes() -> None:
    """KIP-101 and KIP-279: both led in turns, and each wrote what the other has not."""
    pair = Pair()
    append(pair.leader.partition, 4)
    pair.turns(2)
    pair.follower.follow(FOLLOWER, 1)
    append(pair.follower.partition, 3)  # nobody fetched these
    pair.leader.follow(LEADER, 2)
    append(pair.leader.partition, 1)
    pair.follower.follow(FOLLOWER, 3)
    append(pair.follower.partition, 2)
    pair.lead(4)
    append(pair.leader.partition, 1)
    pair.turns(6)
    assert pair.same_bytes()
    assert pair.follower.log.leader_epoch_cache.entries() == [(0, 0), (2, 4), (4, 5)]
    assert pair.follower.ends == (0, 6, 6)


def test_an_epoch_without_records_of_its_own_is_forgotten() -> None:
    pair = Pair()
    append(pair.leader.partition, 2)
    pair.turns(2)
    pair.follower.follow(FOLLOWER, 1)  # led, and wrote nothing
    pair.lead(2)
    append(pair.leader.partition, 1)
    pair.turns(4)
    assert pair.same_bytes()
    assert pair.follower.log.leader_epoch_cache.entries() == [(0, 0), (2, 2)]


def test_a_follower_far_behind_starts_anew_where_the_leaders_log_starts() -> None:
    pair = Pair()
    pair.leader.follow(LEADER, 0, LEADER)
    append(pair.leader.partition, 5)
    append(pair.leader.partition, 5)
    pair.leader.partition.delete_records(5)
    pair.turn()
    pair.now_ms += 50
    pair.turns(4)
    assert any(isinstance(each, ListOffsetsRequest) for each in pair.asked)
    assert pair.follower.ends == (5, 10, 10)
    assert pair.same_bytes()


def test_a_leaders_log_that_starts_inside_of_a_batch() -> None:
    pair = Pair()
    pair.leader.follow(LEADER, 0, LEADER)
    append(pair.leader.partition, 6)
    append(pair.leader.partition, 1)
    pair.leader.partition.delete_records(3)
    pair.turn()
    pair.now_ms += 50
    pair.turns(4)
    assert pair.follower.ends == (3, 7, 7)


def test_the_leaders_log_start_is_taken_on() -> None:
    pair = Pair()
    append(pair.leader.partition, 4)
    pair.turns(2)
    pair.leader.partition.delete_records(2)
    pair.turns(2)
    assert pair.follower.ends == (2, 4, 4)


def test_an_answer_of_an_epoch_that_is_over_is_dropped() -> None:
    pair = Pair()
    append(pair.leader.partition, 3)
    asked = pair.ask()
    assert asked is not None
    response = pair.serve(asked.request)
    pair.follower.follow(LEADER, 1)
    pair.take(asked, response)
    assert pair.follower.log.log_end_offset == 0


def test_a_second_request_tells_of_what_came_while_the_first_waits() -> None:
    pair = Pair()
    pair.turns(2)
    first = pair.ask()
    assert first is not None
    pair.serve(first.request)
    assert pair.ask() is None  # nothing new: one at a time
    pair.lead(1)
    second = pair.ask()
    assert second is not None
    assert isinstance(second.request, FetchRequest)
    assert second.request.topics[0].partitions[0].current_leader_epoch == 1
    assert pair.ask() is None
    append(pair.leader.partition, 2)
    # The first answer is to a wish that the second request replaced: its records are not taken twice.
    pair.take(first, FetchResponse(session_id=first.request.session_id, responses=[_some(pair, 2)]))
    assert pair.follower.log.log_end_offset == 0
    pair.take(second, pair.serve(second.request))
    assert pair.follower.log.log_end_offset == 2


def _some(pair: Pair, end: int) -> FetchableTopicResponse:
    chunk = pair.leader.log.read(0, max_bytes=1 << 20).chunk
    assert not isinstance(chunk, bytes)
    data = PartitionData(0, 0, high_watermark=end, log_start_offset=0, records=chunk.read())
    return FetchableTopicResponse(topic_id=ID, partitions=[data])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_partition_that_fails_is_left_out_for_a_while_that_grows(code: ErrorCode) -> None:
    pair = Pair()
    pauses = []
    for _ in range(6):
        asked = pair.ask()
        assert asked is not None
        refusal = PartitionData(0, code, -1, records=b"")
        answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[refusal])])
        pair.take(asked, answer)
        assert pair.ask() is None
        due_ms = pair.fetcher.due_ms()
        assert due_ms is not None
        pauses.append(due_ms - pair.now_ms)
        pair.now_ms = due_ms
    assert pauses == [10, 20, 40, 80, 100, 100]


def test_records_that_are_damaged_on_their_way_are_asked_for_again() -> None:
    pair = Pair()
    append(pair.leader.partition, 1)
    asked = pair.ask()
    assert asked is not None
    response: Any = pair.serve(asked.request)
    damaged = bytearray(response.responses[0].partitions[0].records)
    damaged[-1] ^= 1
    response.responses[0].partitions[0].records = bytes(damaged)
    pair.take(asked, response)
    assert pair.follower.log.log_end_offset == 0
    pair.now_ms += 10
    pair.turn()
    assert pair.same_bytes()


def test_flush_messages_holds_for_followers_too() -> None:
    """The leader counts what the follower asks for as there: so it must be on the follower's disk."""
    pair = Pair(log_flush_interval_messages="1")
    pair.leader.follow(LEADER, 1, LEADER, FOLLOWER)
    append(pair.leader.partition, 2)
    pair.lead(1)
    pair.turn()
    assert pair.follower.flushes == [pair.follower.log]
    pair.turn()
    assert pair.leader.partition.leader_state is not None
    assert pair.leader.partition.leader_state.followers[FOLLOWER].log_end == 0
    flush = pair.follower.log.begin_flush()
    assert flush is not None
    flush.sync()
    pair.follower.log.finish_flush(flush, now_ms=1)
    pair.fetcher.look_again(pair.follower.partition)
    pair.turn()
    assert pair.leader.partition.leader_state.followers[FOLLOWER].log_end == 2


def test_a_failed_disk_is_not_fetched_for() -> None:
    pair = Pair()
    pair.turn()
    pair.follower.store.handle_log_dir_failure(pair.follower.store.log_dirs[0], OSError("gone"))
    pair.fetcher.look_again(pair.follower.partition)
    assert pair.turn() is None


def test_a_throttle_holds_a_partition_back() -> None:
    class Closed(ReplicaQuota):
        open = False

        def allows(self, partition: Partition, now_ms: int) -> bool:
            return self.open

    throttle = Closed()
    pair = Pair(throttle)
    append(pair.leader.partition, 1)
    assert pair.turn() is None
    throttle.open = True
    assert pair.turn() is None  # it is looked at again after a while
    due_ms = pair.fetcher.due_ms()
    assert due_ms is not None
    pair.now_ms = due_ms
    pair.turn()
    assert pair.follower.log.log_end_offset == 1


def append_large(partition: Partition) -> None:
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", bytes(3 << 20))], base_offset=0, leader_epoch=0)
    partition.local_log().append_as_follower(batch, now_ms=1_700_000_000_000)


def large_pair() -> tuple[Pair, Any, Any]:
    """A follower that has been sent a large batch, and goes through its slices."""
    pair = Pair(message_max_bytes="50000000")
    pair.turns(2)
    append_large(pair.leader.partition)
    asked = pair.ask()
    assert asked is not None
    return pair, asked, pair.take_in_slices(asked, pair.serve(asked.request))


def test_a_large_batch_is_taken_in_slices() -> None:
    pair, _, slices = large_pair()
    assert slices is not None
    steps = 0
    for _ in slices:
        steps += 1
        pair.fetcher.look_again(pair.follower.partition)  # what comes meanwhile does not ask for it again
    assert steps > 8
    assert pair.same_bytes()
    pair.turns(2)
    assert pair.follower.ends == (0, 1, 1)


def test_who_leads_meanwhile_takes_no_more_of_it() -> None:
    pair, _, slices = large_pair()
    for _ in range(8):
        next(slices)
    pair.follower.follow(FOLLOWER, 1)
    pair.fetcher.leave(pair.follower.partition)
    assert list(slices) == []
    assert (pair.follower.log.log_end_offset, pair.follower.log.large_write) == (0, None)


def test_a_connection_that_ends_meanwhile_leaves_nothing_behind() -> None:
    pair, asked, slices = large_pair()
    for _ in range(8):
        next(slices)
    slices.close()
    pair.fetcher.failed(asked, pair.now_ms)
    assert (pair.follower.log.log_end_offset, pair.follower.log.large_write) == (0, None)
    due_ms = pair.fetcher.due_ms()
    assert due_ms is not None
    pair.now_ms = due_ms
    pair.turns(3)
    assert pair.same_bytes()
