"""Markers on their way: leaders here and elsewhere, leaders that refuse, and topics that are gone."""

import asyncio
from collections.abc import Callable

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicId, TopicPartition
from headrace.coordinators.drivers.transaction_marker_channel_manager import (
    PendingCompleteTxn,
    TransactionMarkerChannelManager,
)
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata, TransactionState
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.testing.loop import SimulatedLoop
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Refuse = Callable[[TopicPartition], ErrorCode]


def answer(request: WriteTxnMarkersRequest, refuse: Refuse) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, refuse(TopicPartition(topic.name, index)))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


class Bench:
    """Node 1 coordinates; topic t has a partition for each leader that is given."""

    def __init__(self, *leaders: int) -> None:
        self.loop = SimulatedLoop()
        self.image = MetadataImage("c")
        self.lead(*leaders)
        self.asked: list[tuple[int, list[int]]] = []
        self.marked: list[str] = []
        self.refuse: Refuse = lambda where: ErrorCode.NONE
        self.unreachable: set[int] = set()
        self.markers = TransactionMarkerChannelManager(
            node_id=1,
            image=self.image,
            loop=self.loop,
            write_here=lambda request: self._answered(1, request),
            send=self._send,
            on_markers_written=self._note,
        )

    def lead(self, *leaders: int) -> None:
        partitions = {
            at: PartitionImage((1, 2, 3), (1, 2, 3), leader, 0) for at, leader in enumerate(leaders)
        }
        topic = TopicImage("t", TopicId(bytes(16)), partitions)
        self.image.topics_by_name.clear()
        if leaders:
            self.image.topics_by_name["t"] = topic

    def begin(self, name: str, *partitions: int, commit: bool = True) -> None:
        txn = TransactionMetadata(
            transactional_id=name,
            producer_id=len(name),
            producer_epoch=3,
            timeout_ms=1,
            update_ms=0,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            partitions=frozenset(TopicPartition("t", at) for at in partitions),
        )
        self.markers.add_markers_to_send(txn, 9)

    def run(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def _note(self, unmarked: PendingCompleteTxn) -> None:
        self.marked.append(unmarked.txn.transactional_id)

    def _answered(self, node: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked += [
            (node, [index for topic in marker.topics for index in topic.partition_indexes])
            for marker in request.markers
        ]
        return answer(request, self.refuse)

    def _send(self, node: int, request: WriteTxnMarkersRequest) -> "asyncio.Future[WriteTxnMarkersResponse]":
        future: asyncio.Future[WriteTxnMarkersResponse] = self.loop.create_future()
        if node in self.unreachable:
            future.set_exception(ConnectionError("gone"))
        else:
            future.set_result(self._answered(node, request))
        return future


def test_own_partitions_are_written_at_once() -> None:
    bench = Bench(1, 1)
    bench.begin("a", 0, 1)
    assert (bench.asked, bench.marked) == ([(1, [0, 1])], ["a"])


def test_a_transaction_without_partitions_is_over_at_once() -> None:
    bench = Bench(1)
    bench.begin("a")
    assert (bench.asked, bench.marked) == ([], ["a"])


def test_one_request_to_each_leader() -> None:
    bench = Bench(1, 2, 2, 3)
    bench.begin("a", 0, 1, 2, 3)
    bench.begin("bb", 1)
    bench.run(0.01)
    assert sorted(bench.asked) == [(1, [0]), (2, [1]), (2, [1, 2]), (3, [3])]
    assert sorted(bench.marked) == ["a", "bb"]


def test_a_leader_that_is_none_any_more_is_looked_for_again() -> None:
    bench = Bench(1, 2)
    bench.refuse = lambda where: ErrorCode.NOT_LEADER_OR_FOLLOWER if where.partition == 1 else ErrorCode.NONE
    bench.begin("a", 0, 1)
    bench.run(0.2)
    assert not bench.marked
    bench.lead(1, 3)
    bench.refuse = lambda where: ErrorCode.NONE
    bench.run(0.2)
    assert (bench.asked[-1], bench.marked) == ((3, [1]), ["a"])
    assert bench.asked.count((1, [0])) == 1, "what is written is not written again"


def test_without_a_leader_or_a_way_to_it_markers_wait() -> None:
    bench = Bench(NO_LEADER, 2)
    bench.unreachable.add(2)
    bench.begin("a", 0, 1)
    bench.run(0.5)
    assert not bench.marked
    bench.lead(1, 2)
    bench.unreachable.clear()
    bench.run(0.2)
    assert bench.marked == ["a"]


def test_a_topic_that_is_gone_needs_no_marker() -> None:
    bench = Bench(2)
    bench.unreachable.add(2)
    bench.begin("a", 0)
    bench.run(0.1)
    bench.lead()
    bench.run(0.1)
    assert bench.marked == ["a"]


def test_a_marker_that_comes_too_late_is_not_sent_again() -> None:
    for error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        bench = Bench(2)
        bench.refuse = lambda where, error=error: error  # type: ignore[misc]
        bench.begin("a", 0)
        bench.run(0.2)
        assert (len(bench.asked), bench.marked) == (1, ["a"])


def test_a_coordinator_that_lost_the_id_sends_nothing_more() -> None:
    bench = Bench(2)
    bench.unreachable.add(2)
    bench.begin("a", 0)
    bench.run(0.1)
    bench.markers.remove_markers("a")
    bench.unreachable.clear()
    bench.run(0.5)
    assert not bench.asked
    assert not bench.marked
