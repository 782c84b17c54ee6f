"""A leader and its followers: the high watermark, who is in sync, and what is proposed to the controller."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.metadata.topics import PartitionImage
from headrace.replication.leader_state import IsrProposal, ReplicaContext
from headrace.replication.partition import Partition
from tests.replication.building import NODE, append, lone_partition

LAG_MS = 10_000
A, B = 2, 3


class Bench:
    """A partition that this node leads, with followers A and B on brokers that are alive."""

    def __init__(self, *in_sync: int, minimum: int = 1) -> None:
        self.epochs: dict[int, int | None] = {NODE: 11, A: 12, B: 13}
        self.asked: list[IsrProposal] = []
        context = ReplicaContext(
            lag_ms_max=LAG_MS, broker_epoch=lambda broker: self.epochs[broker], propose=self._propose
        )
        bare, self.store = lone_partition(min_insync_replicas=str(minimum))
        assert bare.log is not None
        self.log = bare.log
        self.partition = Partition(
            TopicPartition("t", 0),
            NO_TOPIC_ID,
            bare.log,
            node_id=NODE,
            on_advance=self.store.advanced.append,
            context=context,
        )
        self.follow(*in_sync)

    def _propose(self, partition: Partition) -> None:
        proposal = partition.proposal()
        assert proposal is not None
        self.asked.append(proposal)

    def follow(self, *in_sync: int, epoch: int = 0, version: int = 0, now_ms: int = 0) -> None:
        image = PartitionImage((NODE, A, B), in_sync, NODE, epoch, partition_epoch=version)
        self.partition.follow_metadata(image, now_ms)

    def fetch(self, replica: int, offset: int, now_ms: int = 1, *, epoch: int | None = None) -> None:
        broker_epoch = self.epochs[replica] if epoch is None else epoch
        self.partition.follower_fetched(
            replica,
            offset=offset,
            log_start_offset=0,
            broker_epoch=-1 if broker_epoch is None else broker_epoch,
            now_ms=now_ms,
        )

    def accept(self, *in_sync: int, version: int, epoch: int = 0) -> None:
        self.partition.proposal_accepted(
            self.asked[-1], leader_epoch=epoch, partition_epoch=version, in_sync=in_sync
        )

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark


def test_the_high_watermark_is_what_the_slowest_in_sync_replica_has() -> None:
    bench = Bench(NODE, A, B)
    append(bench.partition, 5)
    assert bench.high_watermark == 0
    bench.fetch(A, 5)
    assert bench.high_watermark == 0  # B was not heard of
    bench.fetch(B, 3)
    assert bench.high_watermark == 3
    bench.fetch(B, 5)
    assert bench.high_watermark == 5


def test_a_follower_that_lost_its_end_does_not_take_the_high_watermark_back() -> None:
    bench = Bench(NODE, A)
    append(bench.partition, 5)
    bench.fetch(A, 5)
    bench.fetch(A, 2)
    assert bench.high_watermark == 5
    append(bench.partition, 5)
    bench.fetch(A, 7)
    assert bench.high_watermark == 7


def test_who_has_caught_up_is_proposed_and_counts_before_the_controller_knows() -> None:
    bench = Bench(NODE)
    append(bench.partition, 5)
    assert bench.high_watermark == 5
    bench.fetch(A, 4)
    assert not bench.asked
    bench.fetch(A, 5)
    assert bench.asked == [IsrProposal(0, 0, ((NODE, 11), (A, 12)))]
    append(bench.partition, 2)
    assert bench.high_watermark == 5  # A may be elected by now
    bench.fetch(A, 7)
    assert bench.high_watermark == 7
    assert bench.partition.in_sync_count == 1  # it is not committed
    bench.accept(NODE, A, version=1)
    assert (bench.partition.in_sync_count, bench.partition.partition_epoch) == (2, 1)


def test_one_proposal_at_a_time() -> None:
    bench = Bench(NODE)
    bench.fetch(A, 0)
    bench.fetch(B, 0)
    assert len(bench.asked) == 1
    bench.accept(NODE, A, version=1)
    bench.fetch(B, 0)
    assert bench.asked[1] == IsrProposal(0, 1, ((NODE, 11), (A, 12), (B, 13)))


def test_who_has_not_what_an_earlier_epoch_wrote_is_not_in_sync() -> None:
    """Below the start of the leader's epoch a follower may hold what the leader has not."""
    bench = Bench(NODE, A, B)
    append(bench.partition, 5)  # replicated to nobody
    bench.follow(NODE, epoch=1, version=1)
    bench.fetch(A, 3)
    assert not bench.asked


def test_who_lags_is_proposed_to_go_and_counts_until_that_is_committed() -> None:
    bench = Bench(NODE, A, B)
    append(bench.partition, 5)
    bench.fetch(A, 5, 1_000)
    bench.fetch(B, 3, 1_000)
    bench.partition.maybe_shrink_isr(LAG_MS)
    assert not bench.asked
    bench.fetch(A, 5, LAG_MS)
    bench.partition.maybe_shrink_isr(LAG_MS + 1)
    assert bench.asked == [IsrProposal(0, 0, ((NODE, 11), (A, 12)))]
    assert bench.high_watermark == 3
    bench.accept(NODE, A, version=1)
    assert bench.high_watermark == 5


def test_who_asks_for_the_end_is_not_lagging_however_long_ago_that_was() -> None:
    bench = Bench(NODE, A)
    append(bench.partition, 5)
    bench.fetch(A, 5, 1)
    bench.partition.maybe_shrink_isr(100 * LAG_MS)
    assert not bench.asked


def test_who_keeps_up_with_a_fast_writer_is_in_sync_without_ever_being_at_the_end() -> None:
    bench = Bench(NODE, A)
    end = 0
    for now_ms in range(0, 5 * LAG_MS, LAG_MS // 2):
        append(bench.partition, 3)
        bench.fetch(A, end, now_ms)  # as far as the end was at the fetch before
        end = bench.log.log_end_offset
        bench.partition.maybe_shrink_isr(now_ms)
    assert not bench.asked


def test_the_high_watermark_waits_for_who_is_about_to_join() -> None:
    bench = Bench(NODE, A)
    append(bench.partition, 5)
    bench.fetch(A, 5, 1)
    bench.fetch(B, 5, 1)  # proposed
    bench.partition.proposal_withdrawn(bench.asked[-1])
    append(bench.partition, 5)
    bench.fetch(A, 10, 2)
    assert bench.high_watermark == 5
    bench.partition.maybe_shrink_isr(2 * LAG_MS)
    assert bench.high_watermark == 10  # not for ever


def test_too_few_in_sync_commit_nothing() -> None:
    bench = Bench(NODE, minimum=2)
    append(bench.partition, 3, acks=1)
    assert bench.high_watermark == 0
    bench.fetch(A, 3)
    assert bench.high_watermark == 0
    bench.accept(NODE, A, version=1)
    assert bench.high_watermark == 3


def test_enough_is_judged_with_what_is_proposed() -> None:
    bench = Bench(NODE, A, minimum=2)
    assert bench.partition.has_enough_in_sync()
    bench.follow(NODE, version=1)
    assert not bench.partition.has_enough_in_sync()
    bench.fetch(A, 0)
    assert bench.partition.has_enough_in_sync()


@pytest.mark.parametrize("registered", [None, 99])
def test_a_broker_that_is_gone_or_another_by_now_is_not_proposed(registered: int | None) -> None:
    bench = Bench(NODE)
    bench.fetch(A, 0, epoch=12)
    bench.partition.proposal_withdrawn(bench.asked.pop())
    bench.epochs[A] = registered
    if registered is None:
        bench.fetch(A, 0, epoch=12)
    else:
        with pytest.raises(ApiError) as refused:
            bench.fetch(A, 0, epoch=12)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not bench.asked
    append(bench.partition, 1)
    assert bench.high_watermark == 1  # nor waited for


def test_a_stranger_asks_again() -> None:
    bench = Bench(NODE)
    for epoch, code in ((0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(ApiError) as refused:
            bench.partition.follower_fetched(
                9, offset=0, log_start_offset=0, broker_epoch=1, now_ms=1, current_leader_epoch=epoch
            )
        assert refused.value.code is code


def test_the_metadata_log_ends_a_proposal_and_its_answer_comes_too_late() -> None:
    bench = Bench(NODE, A, B)
    bench.partition.maybe_shrink_isr(2 * LAG_MS)
    assert bench.asked[-1].in_sync == ((NODE, 11),)
    bench.follow(NODE, B, version=1)
    assert bench.partition.proposal() is None
    bench.accept(NODE, version=1)
    assert bench.partition.in_sync_count == 2


def test_an_answer_may_come_before_the_metadata_log() -> None:
    bench = Bench(NODE)
    bench.fetch(A, 0)
    bench.accept(NODE, A, version=5)
    bench.fetch(B, 0)
    bench.follow(NODE, version=4)  # older than the answer
    assert bench.partition.in_sync_count == 2
    bench.follow(NODE, A, version=5)  # what the answer said: B's proposal stands
    assert bench.partition.proposal() == bench.asked[-1]
    bench.follow(NODE, version=6)
    assert (bench.partition.in_sync_count, bench.partition.proposal()) == (1, None)


def test_a_new_epoch_starts_from_nothing() -> None:
    bench = Bench(NODE, A)
    append(bench.partition, 3)
    bench.fetch(A, 3)
    append(bench.partition, 3)
    bench.follow(NODE, A, epoch=1, version=1, now_ms=50_000)
    bench.partition.maybe_shrink_isr(50_000 + LAG_MS)
    assert (bench.high_watermark, bench.asked) == (3, [])
    bench.fetch(A, 6, 60_000)
    assert bench.high_watermark == 6


def test_who_had_everything_before_an_append_lags_from_then_on_only() -> None:
    """A follower that has everything is not noted with each of its Fetches."""
    bench = Bench(NODE, A)
    append(bench.partition, 1)
    bench.fetch(A, 1, 1)
    bench.partition._context.now_ms = 50 * LAG_MS
    append(bench.partition, 1)
    bench.partition.maybe_shrink_isr(50 * LAG_MS + LAG_MS)
    assert not bench.asked
    append(bench.partition, 1)  # it was behind before this one
    bench.partition.maybe_shrink_isr(50 * LAG_MS + LAG_MS + 1)
    assert [replica for replica, _ in bench.asked[-1].in_sync] == [NODE]
