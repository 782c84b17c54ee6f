"""Before records of a transaction are appended: is each partition part of it? (KIP-890)

A partition where the producer has the transaction open already has been asked about. For any other the
coordinator is asked (`txn_partitions`). On its own node it answers at once; from another the answer takes
time, in which the records outlive their frame, and later requests of the same producer wait behind this one.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.base.large_memory import LARGE_BYTES
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.log.producer_state_manager import NO_OFFSET, ProducerStateManager
from headrace.records.batch import HEADER_BYTES, MAGIC, read_header
from headrace.wire.schemas.produce import (
    TOPIC_ID_SINCE,
    TRANSACTION_ABORTABLE_SINCE,
    TRANSACTION_V2_SINCE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from headrace.server.context import RequestContext
    from headrace.server.parts import Parts
    from headrace.server.txn_partitions import Errors, TxnPartitions


_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_TRANSACTIONAL: Final = 0x10


# What stands in the way of asking will pass: the client shall send again.
_PASSING: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class UnverifiedError(ApiError):
    """The coordinator does not vouch for a batch: its log was not even looked at."""


class _Batch(NamedTuple):
    """A transactional batch whose partition has no transaction of its producer open."""

    topic_partition: TopicPartition
    owner: ProducerIdAndEpoch
    producers: ProducerStateManager


class HeldVerification:
    """What the coordinator said of a batch that is appended later: a marker that comes before makes it void.

    The records would open a transaction that nobody ends. The client sends again, and the coordinator is
    asked anew.
    """

    __slots__ = ("_producer_id", "_producers", "_topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, producers: ProducerStateManager, producer_id: int
    ) -> None:
        self._topic_partition = topic_partition
        self._producers = producers
        self._producer_id = producer_id
        producers.begin_verification(producer_id)

    @classmethod
    def of(cls, parts: Parts, topic: str, data: PartitionProduceData) -> HeldVerification | None:
        """None for a batch that belongs to no transaction, or goes nowhere."""
        topic_partition = TopicPartition(topic, data.index)
        partition = parts.replica_manager.get(topic_partition)
        if partition is None or partition.log is None or not is_transactional(data):
            return None
        if data.records is None or len(data.records) < HEADER_BYTES:
            return None
        producers = partition.log.producer_state_manager
        return cls(topic_partition, producers, read_header(data.records).producer_id)

    def check(self, parts: Parts, topic: str) -> None:
        """Refuse what is void by now, else hold on."""
        partition = parts.replica_manager.get(self._topic_partition)
        is_same = (
            partition is not None
            and partition.log is not None
            and partition.log.producer_state_manager is self._producers
            and topic == self._topic_partition.topic
        )
        if not self._producers.end_verification(self._producer_id) or not is_same:
            raise UnverifiedError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                "a transaction ended, or the partition changed, while a large batch was checked: send again",
            )
        self._producers.begin_verification(self._producer_id)

    def end(self) -> None:
        """The batch is appended, or will not be."""
        self._producers.end_verification(self._producer_id)


Refused = Mapping[TopicPartition, UnverifiedError]
Append = Callable[[ProduceRequest, Refused], "Future[Any] | None"]
"""Appends, or tells when it will have appended."""
NONE_REFUSED: Final[Refused] = {}


def is_transactional(data: PartitionProduceData) -> bool:
    """Whether a batch says that it belongs to a transaction."""
    records = data.records
    return (
        records is not None
        and len(records) > _ATTRIBUTES_AT
        and records[_MAGIC_AT] == MAGIC  # bytes that are no batch say nothing
        and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)
    )


class TxnProduce:
    """The gate for all transactional Produce requests of a node."""

    def __init__(self, partitions: TxnPartitions, loop: AbstractEventLoop) -> None:
        self._partitions = partitions
        self._loop = loop
        self._last_of: dict[int, Future[None]] = {}  # by producer id, the newest request that waits

    def verify(
        self,
        context: RequestContext,
        request: ProduceRequest,
        append: Append,
    ) -> None:
        """Call `append` with the partitions that must be refused; at once wherever that is possible. Later,
        the request that it is given is a copy: the frame is gone."""
        unknown = _unknown(context, request)
        producer_id = unknown[0].owner.producer_id if unknown else _producer_of(request)
        before = self._last_of.get(producer_id)
        if before is None and not unknown:
            append(request, NONE_REFUSED)
            return
        passage = _Passage(self._partitions, context, request, append)
        if before is None:
            passage.go(unknown)
        else:
            passage.keep()
            before.add_done_callback(lambda _: passage.go(_unknown(context, passage.request)))
        if not passage.over.done():
            passage.keep()
            self._last_of[producer_id] = passage.over
            passage.over.add_done_callback(lambda over: self._forget(producer_id, over))

    def _forget(self, producer_id: int, over: Future[None]) -> None:
        if self._last_of.get(producer_id) is over:
            del self._last_of[producer_id]


class _Passage:
    """One request on its way through the gate."""

    def __init__(
        self,
        partitions: TxnPartitions,
        context: RequestContext,
        request: ProduceRequest,
        append: Append,
    ) -> None:
        self.request = request
        self.over: Future[None] = context.parts.loop.create_future()
        self._partitions = partitions
        self._connection = context.peer.connection
        self._version = context.api_version
        self._append = append
        self._kept = False

    def keep(self) -> None:
        """Copy the records, or keep all of their frame, before it is used for another request."""
        if self._kept:
            return
        self._kept = True
        is_large = _records_bytes(self.request) > LARGE_BYTES
        if is_large:
            self._connection.keep_frame()
        self.request = _copy(self.request, with_records=not is_large)

    def go(self, unknown: list[_Batch]) -> None:
        if not unknown:
            self._finish(NONE_REFUSED)
            return
        owner = unknown[0].owner
        asked = [batch for batch in unknown if batch.owner == owner]
        transactional_id = self.request.transactional_id
        assert transactional_id is not None
        self._partitions.ask(
            transactional_id,
            owner,
            {batch.topic_partition: batch.producers for batch in asked},
            adds=self._version >= TRANSACTION_V2_SINCE,
            done=lambda errors: self._answered(unknown, errors),
        )

    def _answered(self, unknown: list[_Batch], errors: Errors) -> None:
        refused: dict[TopicPartition, UnverifiedError] = {}
        for batch in unknown:
            error = errors.get(batch.topic_partition, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            if error:
                refused[batch.topic_partition] = _refusal(error, self._version)
        self._finish(refused)

    def _finish(self, refused: Refused) -> None:
        appending: Future[Any] | None = None
        try:
            appending = self._append(self.request, refused)
        finally:
            if appending is None:
                self.over.set_result(None)
        if appending is not None:
            appending.add_done_callback(lambda _: self.over.set_result(None))


def _unknown(context: RequestContext, request: ProduceRequest) -> list[_Batch]:
    """The transactional batches that the coordinator must be asked about. What cannot be appended anyway is
    left to the log, which says why."""
    parts = context.parts
    verifies = context.api_version >= TRANSACTION_V2_SINCE or parts.config.bool(
        "transaction.partition.verification.enable"
    )
    found = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            if verifies and is_transactional(data):
                batch = _look_at(parts, context.api_version, topic, data)
                if batch is not None:
                    found.append(batch)
    return found


def _look_at(
    parts: Parts, version: int, topic: TopicProduceData, data: PartitionProduceData
) -> _Batch | None:
    name = topic.name
    if version >= TOPIC_ID_SINCE:
        image = parts.image.topics_by_id.get(TopicId(topic.topic_id))
        name = "" if image is None else image.name
    topic_partition = TopicPartition(name, data.index)
    partition = parts.replica_manager.get(topic_partition)
    records = data.records
    if partition is None or partition.log is None or not partition.is_leader:
        return None
    if records is None or len(records) < HEADER_BYTES:
        return None
    header = read_header(records)
    producers = partition.log.producer_state_manager
    state = producers.producers.get(header.producer_id)
    is_open = (
        state is not None and state.txn_first_offset != NO_OFFSET and state.epoch == header.producer_epoch
    )
    if is_open:
        return None
    return _Batch(topic_partition, ProducerIdAndEpoch(header.producer_id, header.producer_epoch), producers)


def _producer_of(request: ProduceRequest) -> int:
    """The producer of a request's first batch."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and len(data.records) >= HEADER_BYTES:
                return read_header(data.records).producer_id
    return -1


def _refusal(error: ErrorCode, version: int) -> UnverifiedError:
    """What a producer of this version is told."""
    if error in _PASSING or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < TRANSACTION_V2_SINCE):
        return UnverifiedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"it could not be verified that the partition is part of the transaction: {error.name}",
        )
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < TRANSACTION_ABORTABLE_SINCE:
        error = ErrorCode.INVALID_TXN_STATE
    return UnverifiedError(error, "the partition is not part of the producer's transaction")


def _records_bytes(request: ProduceRequest) -> int:
    return sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)


def _copy(request: ProduceRequest, *, with_records: bool) -> ProduceRequest:
    """A request of its own: the dispatcher takes the records out of the one that it knows."""

    def kept(records: Buffer | None) -> Buffer | None:
        return bytearray(records) if records is not None and with_records else records

    topics = [
        TopicProduceData(
            topic.name,
            topic.topic_id,
            [PartitionProduceData(data.index, kept(data.records)) for data in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics)
