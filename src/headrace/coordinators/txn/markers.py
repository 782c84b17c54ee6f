"""Markers on their way: from a decided transaction to the leaders of all its partitions.

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
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.metadata.image import ClusterImage
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
class Unmarked:
    """A transaction that was decided, and the partitions that do not know it yet."""

    txn: Transaction
    coordinator_epoch: int
    left: set[TopicPartition]
    asked: set[TopicPartition] = field(default_factory=set)
    retry: asyncio.TimerHandle | None = None


class Markers:
    """All decided transactions of this node's coordinator.

    `write_here` is for partitions that this node leads, `send` for those of other brokers. `on_marked` is
    called once per transaction, when no partition is left.
    """

    def __init__(
        self,
        *,
        node_id: int,
        image: ClusterImage,
        loop: asyncio.AbstractEventLoop,
        write_here: WriteMarkers,
        send: SendMarkers,
        on_marked: Callable[[Unmarked], None],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._loop = loop
        self._write_here = write_here
        self._send = send
        self._on_marked = on_marked
        self._unmarked: dict[str, Unmarked] = {}
        self._outgoing: dict[int, list[tuple[Unmarked, list[TopicPartition]]]] = {}

    def begin(self, txn: Transaction, coordinator_epoch: int) -> None:
        """The decision is replicated: tell the partitions."""
        self.drop(txn.transactional_id)
        unmarked = Unmarked(txn, coordinator_epoch, set(txn.partitions))
        self._unmarked[txn.transactional_id] = unmarked
        self._go_on(unmarked)

    def drop(self, transactional_id: str) -> None:
        """This node coordinates the id no longer."""
        unmarked = self._unmarked.pop(transactional_id, None)
        if unmarked is not None and unmarked.retry is not None:
            unmarked.retry.cancel()

    def _is_due(self, unmarked: Unmarked) -> bool:
        return self._unmarked.get(unmarked.txn.transactional_id) is unmarked

    def _go_on(self, unmarked: Unmarked) -> None:
        """Ask the leaders of all that is left, and finish where nothing is."""
        unmarked.retry = None
        if not self._is_due(unmarked):
            return
        here: list[TopicPartition] = []
        waits = False
        for topic_partition in sorted(unmarked.left - unmarked.asked):
            leader = self._leader_of(topic_partition)
            if leader is None:
                unmarked.left.discard(topic_partition)  # deleted: nobody will read it
            elif leader == self._node_id:
                here.append(topic_partition)
            elif leader == NO_LEADER:
                waits = True
            else:
                self._hand_over(leader, unmarked, topic_partition)
        if waits:
            self._retry_later(unmarked)
        if here:
            unmarked.asked.update(here)
            rows = [(unmarked, here)]
            answer = self._write_here(_request(rows))
            if isinstance(answer, WriteTxnMarkersResponse):
                self._take(rows, answer)
            else:
                answer.add_done_callback(lambda done: self._answered(rows, done))
        else:
            self._finish(unmarked)

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        topic = self._image.topics_by_name.get(topic_partition.topic)
        partition = None if topic is None else topic.partitions.get(topic_partition.partition)
        return None if partition is None else partition.leader

    def _hand_over(self, leader: int, unmarked: Unmarked, topic_partition: TopicPartition) -> None:
        """Collect what goes to one broker in this turn of the loop."""
        if not self._outgoing:
            self._loop.call_soon(self._send_all)
        rows = self._outgoing.setdefault(leader, [])
        if rows and rows[-1][0] is unmarked:
            rows[-1][1].append(topic_partition)
        else:
            rows.append((unmarked, [topic_partition]))
        unmarked.asked.add(topic_partition)

    def _send_all(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        for leader, rows in outgoing.items():
            self._ask(leader, rows)

    def _ask(self, leader: int, rows: Sequence[tuple[Unmarked, list[TopicPartition]]]) -> None:
        self._send(leader, _request(rows)).add_done_callback(lambda done: self._answered(rows, done))

    def _answered(
        self,
        rows: Sequence[tuple[Unmarked, list[TopicPartition]]],
        done: "asyncio.Future[WriteTxnMarkersResponse]",
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            self._take(rows, WriteTxnMarkersResponse())
        else:
            self._take(rows, done.result())

    def _take(
        self, rows: Sequence[tuple[Unmarked, list[TopicPartition]]], response: WriteTxnMarkersResponse
    ) -> None:
        """Note what a leader said; what it did not speak of is asked again."""
        said = {
            (marker.producer_id, topic.name, result.partition_index): result.error_code
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        for unmarked, asked in rows:
            unmarked.asked.difference_update(asked)
            for topic_partition in asked:
                if said.get((unmarked.txn.producer_id, *topic_partition)) in _OVER:
                    unmarked.left.discard(topic_partition)
            if unmarked.left - unmarked.asked:
                self._retry_later(unmarked)
            self._finish(unmarked)

    def _retry_later(self, unmarked: Unmarked) -> None:
        if unmarked.retry is None and self._is_due(unmarked):
            unmarked.retry = self._loop.call_later(RETRY_S, self._go_on, unmarked)

    def _finish(self, unmarked: Unmarked) -> None:
        if not unmarked.left and self._is_due(unmarked):
            self.drop(unmarked.txn.transactional_id)
            self._on_marked(unmarked)


def _request(rows: Sequence[tuple[Unmarked, list[TopicPartition]]]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=unmarked.txn.producer_id,
                producer_epoch=unmarked.txn.producer_epoch,
                transaction_result=unmarked.txn.state is TxnState.PREPARE_COMMIT,
                topics=_by_topic(partitions),
                coordinator_epoch=unmarked.coordinator_epoch,
                transaction_version=unmarked.txn.version,
            )
            for unmarked, partitions in rows
        ]
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in topics.items()]
