"""TransactionMarkerChannelManager: sends a decided transaction's markers to the leaders of its partitions.

Each leader gets one request for what is due there in one turn of the loop. What a leader refuses because it
is not the leader any more, or cannot write now, is asked again after a pause, wherever the partition is led
then; there is no other way out, because the decision stands. A partition whose topic was deleted needs no
marker, and a leader that knows a later epoch of the producer, or of the coordinator, has no use for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata, TransactionState
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# A new leader is known within milliseconds of its election; a dead one keeps readers waiting meanwhile.
RETRY_S: Final = 0.05

# Answers that end a marker's way: it is written, or another coordinator or transaction has come since.
_OVER: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)

SendMarkers = Callable[[int, WriteTxnMarkersRequest], "asyncio.Future[WriteTxnMarkersResponse]"]
WriteMarkers = Callable[
    [WriteTxnMarkersRequest], "WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]"
]


@dataclass(slots=True, eq=False)
class PendingCompleteTxn:
    """A transaction that was decided, and the partitions that have no marker yet."""

    txn: TransactionMetadata
    coordinator_epoch: int
    left: set[TopicPartition]
    asked: set[TopicPartition] = field(default_factory=set)
    retry: asyncio.TimerHandle | None = None


class TransactionMarkerChannelManager:
    """The decided transactions of this node's coordinator whose markers are not all written.

    `write_here` is for partitions that this node leads, `send` for those of other brokers.
    `on_markers_written` is called once per transaction, when no partition is left.
    """

    def __init__(
        self,
        *,
        node_id: int,
        image: MetadataImage,
        loop: asyncio.AbstractEventLoop,
        write_here: WriteMarkers,
        send: SendMarkers,
        on_markers_written: Callable[[PendingCompleteTxn], None],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._loop = loop
        self._write_here = write_here
        self._send = send
        self._on_markers_written = on_markers_written
        self._pending: dict[str, PendingCompleteTxn] = {}
        self._outgoing: dict[int, list[tuple[PendingCompleteTxn, list[TopicPartition]]]] = {}

    def add_markers_to_send(self, txn: TransactionMetadata, coordinator_epoch: int) -> None:
        """The decision is replicated: send its markers."""
        self.remove_markers(txn.transactional_id)
        pending = PendingCompleteTxn(txn, coordinator_epoch, set(txn.partitions))
        self._pending[txn.transactional_id] = pending
        self._go_on(pending)

    def remove_markers(self, transactional_id: str) -> None:
        """This node coordinates the id no longer."""
        pending = self._pending.pop(transactional_id, None)
        if pending is not None and pending.retry is not None:
            pending.retry.cancel()

    def _is_due(self, pending: PendingCompleteTxn) -> bool:
        return self._pending.get(pending.txn.transactional_id) is pending

    def _go_on(self, pending: PendingCompleteTxn) -> None:
        """Ask the leaders of all that is left, and finish where nothing is."""
        pending.retry = None
        if not self._is_due(pending):
            return
        here: list[TopicPartition] = []
        waits = False
        for topic_partition in sorted(pending.left - pending.asked):
            leader = self._leader_of(topic_partition)
            if leader is None:
                pending.left.discard(topic_partition)  # deleted: nobody will read it
            elif leader == self._node_id:
                here.append(topic_partition)
            elif leader == NO_LEADER:
                waits = True
            else:
                self._hand_over(leader, pending, topic_partition)
        if waits:
            self._retry_later(pending)
        if here:
            pending.asked.update(here)
            rows = [(pending, here)]
            answer = self._write_here(_request(rows))
            if isinstance(answer, WriteTxnMarkersResponse):
                self._take(rows, answer)
            else:
                answer.add_done_callback(lambda done: self._answered(rows, done))
        else:
            self._finish(pending)

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        topic = self._image.topics_by_name.get(topic_partition.topic)
        partition = None if topic is None else topic.partitions.get(topic_partition.partition)
        return None if partition is None else partition.leader

    def _hand_over(self, leader: int, pending: PendingCompleteTxn, topic_partition: TopicPartition) -> None:
        """Collect what goes to one broker in this turn of the loop."""
        if not self._outgoing:
            self._loop.call_soon(self._send_all)
        rows = self._outgoing.setdefault(leader, [])
        if rows and rows[-1][0] is pending:
            rows[-1][1].append(topic_partition)
        else:
            rows.append((pending, [topic_partition]))
        pending.asked.add(topic_partition)

    def _send_all(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        for leader, rows in outgoing.items():
            self._ask(leader, rows)

    def _ask(self, leader: int, rows: Sequence[tuple[PendingCompleteTxn, list[TopicPartition]]]) -> None:
        self._send(leader, _request(rows)).add_done_callback(lambda done: self._answered(rows, done))

    def _answered(
        self,
        rows: Sequence[tuple[PendingCompleteTxn, list[TopicPartition]]],
        done: "asyncio.Future[WriteTxnMarkersResponse]",
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            self._take(rows, WriteTxnMarkersResponse())
        else:
            self._take(rows, done.result())

    def _take(
        self,
        rows: Sequence[tuple[PendingCompleteTxn, list[TopicPartition]]],
        response: WriteTxnMarkersResponse,
    ) -> None:
        """Take a leader's results; partitions that it did not name are asked again."""
        results = {
            (marker.producer_id, topic.name, result.partition_index): result.error_code
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        for pending, asked in rows:
            pending.asked.difference_update(asked)
            for topic_partition in asked:
                if results.get((pending.txn.producer_id, *topic_partition)) in _OVER:
                    pending.left.discard(topic_partition)
            if pending.left - pending.asked:
                self._retry_later(pending)
            self._finish(pending)

    def _retry_later(self, pending: PendingCompleteTxn) -> None:
        if pending.retry is None and self._is_due(pending):
            pending.retry = self._loop.call_later(RETRY_S, self._go_on, pending)

    def _finish(self, pending: PendingCompleteTxn) -> None:
        if not pending.left and self._is_due(pending):
            self.remove_markers(pending.txn.transactional_id)
            self._on_markers_written(pending)


def _request(rows: Sequence[tuple[PendingCompleteTxn, list[TopicPartition]]]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=pending.txn.producer_id,
                producer_epoch=pending.txn.producer_epoch,
                transaction_result=pending.txn.state is TransactionState.PREPARE_COMMIT,
                topics=_by_topic(partitions),
                coordinator_epoch=pending.coordinator_epoch,
                transaction_version=pending.txn.version,
            )
            for pending, partitions in rows
        ]
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in topics.items()]
