"""Writing transaction markers into partitions that this node leads: for the coordinator of this node, and for
those of others, who ask with WriteTxnMarkers.

A marker is answered when every in-sync replica has it, whoever wrote it. Markers in `__consumer_offsets` go
through the group coordinator, whose pending offsets they settle.

By transaction.version 2 a marker has a higher epoch than all it ends (KIP-890). One that has not comes late,
after its producer went on, and would end a later transaction: it is refused (KIP-1228). One that was written
before is not written again.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.log.append import AppendOrigin
from headrace.log.producer_state_manager import NO_OFFSET
from headrace.records.batch import build_txn_marker
from headrace.replication.partition import Partition
from headrace.server.delayed_produce import DelayedProduce, complete_or_watch
from headrace.wire.schemas.produce import PartitionProduceResponse
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.server.parts import Parts

STRICT_SINCE: Final = 2
"""The transaction.version from which on a marker's epoch is above that of the records it ends."""


class MarkerWriting:
    """One request's markers, until all of them are written or have failed."""

    def __init__(self, parts: Parts, request: WriteTxnMarkersRequest) -> None:
        self._parts = parts
        self._left = 1  # the request itself, until all of it was looked at
        self._answer: Future[WriteTxnMarkersResponse] | None = None
        self._response = WriteTxnMarkersResponse([self._result_of(marker) for marker in request.markers])

    def answer(self) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]:
        self._left -= 1
        if not self._left:
            return self._response
        self._answer = self._parts.loop.create_future()
        return self._answer

    def _result_of(self, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        topics = []
        for topic in marker.topics:
            results = [WritableTxnMarkerPartitionResult(index) for index in topic.partition_indexes]
            topics.append(WritableTxnMarkerTopicResult(topic.name, results))
            for result in results:
                self._left += 1
                self._write(marker, topic.name, result)
        return WritableTxnMarkerResult(marker.producer_id, topics)

    def _write(self, marker: WritableTxnMarker, topic: str, result: WritableTxnMarkerPartitionResult) -> None:
        parts = self._parts
        try:
            partition = parts.replica_manager.get(TopicPartition(topic, result.partition_index))
            if partition is None:  # also where another node has it: coordinators look for the leader anyway
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if marker.transaction_version >= STRICT_SINCE and _was_written(partition, marker):
                # By a leader that is gone, or asked again before it was replicated: it can still be lost.
                self._await_replication(partition, partition.leading_log().log_end_offset, result)
                return
            batch = build_txn_marker(
                commit=marker.transaction_result,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=parts.clock.now_ms(),
            )
            if topic == OFFSETS_TOPIC:
                partition.leading_log()
                parts.groups.runtime.write_marker(
                    result.partition_index, batch, lambda error: self._done(result, error)
                )
            else:
                self._append(partition, batch, result)
        except ApiError as error:
            self._done(result, error.code)

    def _append(
        self, partition: Partition, batch: bytearray, result: WritableTxnMarkerPartitionResult
    ) -> None:
        now_ms = self._parts.clock.now_ms()
        appended = partition.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, api_version=-1)
        self._await_replication(partition, appended.last_offset + 1, result)

    def _await_replication(
        self, partition: Partition, end_offset: int, result: WritableTxnMarkerPartitionResult
    ) -> None:
        if partition.replicated_to(end_offset):
            self._done(result, ErrorCode.NONE)
            return
        answer = PartitionProduceResponse(result.partition_index, 0)
        unsafe = [DelayedProduce(partition, answer, replicated_to=end_offset, durable_to=0)]
        waiting = complete_or_watch(self._parts, self._parts.config.int("request.timeout.ms"), unsafe, answer)
        if isinstance(waiting, Future):
            waiting.add_done_callback(lambda _: self._done(result, ErrorCode(answer.error_code)))
        else:
            self._done(result, ErrorCode(answer.error_code))

    def _done(self, result: WritableTxnMarkerPartitionResult, error: ErrorCode) -> None:
        result.error_code = error
        self._left -= 1
        if not self._left and self._answer is not None and not self._answer.done():
            self._answer.set_result(self._response)


def _was_written(partition: Partition, marker: WritableTxnMarker) -> bool:
    """Whether the partition has this very marker; ApiError where it comes too late."""
    state = partition.leading_log().producer_state_manager.producers.get(marker.producer_id)
    if state is None or marker.producer_epoch > state.epoch:
        return False
    if marker.producer_epoch == state.epoch and state.txn_first_offset == NO_OFFSET:
        return True
    raise ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {marker.producer_id} has epoch {state.epoch} here, the marker has {marker.producer_epoch}",
    )


def write_markers(
    parts: Parts, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]:
    """Write what the request asks for."""
    return MarkerWriting(parts, request).answer()
