"""Before records of a transaction are appended: is each partition part of it? (KIP-890)

A partition where the producer has the transaction open already has been asked about. For any other the
coordinator is asked (`txn_partitions`). On its own node it answers at once; from another the answer takes
time, in which the records outlive their frame, and later requests of the same producer wait behind this one.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.coordinators.txn.transaction import Owner
from headrace.log.producer_states import NO_OFFSET, ProducerStates
from headrace.records.batch import HEADER_BYTES, MAGIC, read_header
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from headrace.server.context import RequestContext
    from headrace.server.parts import Parts
    from headrace.server.txn_partitions import Errors, TxnPartitions

ADDS_SINCE: Final = 12
"""The version of Produce whose clients leave adding partitions to the broker."""
ABORTABLE_SINCE: Final = 11
"""The version of Produce whose clients know TRANSACTION_ABORTABLE."""
TOPIC_IDS_SINCE: Final = 13

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
    owner: Owner
    producers: ProducerStates


Refused = Mapping[TopicPartition, UnverifiedError]
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
        append: Callable[[ProduceRequest, Refused], None],
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
        append: Callable[[ProduceRequest, Refused], None],
    ) -> None:
        self.request = request
        self.over: Future[None] = context.parts.loop.create_future()
        self._partitions = partitions
        self._version = context.api_version
        self._append = append
        self._kept = False

    def keep(self) -> None:
        """Copy the records, before their frame is used for another request."""
        if not self._kept:
            self._kept = True
            self.request = _copy(self.request)

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
            adds=self._version >= ADDS_SINCE,
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
        try:
            self._append(self.request, refused)
        finally:
            self.over.set_result(None)


def _unknown(context: RequestContext, request: ProduceRequest) -> list[_Batch]:
    """The transactional batches that the coordinator must be asked about. What cannot be appended anyway is
    left to the log, which says why."""
    parts = context.parts
    verifies = context.api_version >= ADDS_SINCE or parts.config.bool(
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
    if version >= TOPIC_IDS_SINCE:
        image = parts.image.topics_by_id.get(TopicId(topic.topic_id))
        name = "" if image is None else image.name
    topic_partition = TopicPartition(name, data.index)
    partition = parts.replicas.get(topic_partition)
    records = data.records
    if partition is None or partition.log is None or not partition.is_leader:
        return None
    if records is None or len(records) < HEADER_BYTES:
        return None
    header = read_header(records)
    producers = partition.log.producers
    state = producers.producers.get(header.producer_id)
    is_open = (
        state is not None and state.txn_first_offset != NO_OFFSET and state.epoch == header.producer_epoch
    )
    if is_open:
        return None
    return _Batch(topic_partition, Owner(header.producer_id, header.producer_epoch), producers)


def _producer_of(request: ProduceRequest) -> int:
    """The producer of a request's first batch."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and len(data.records) >= HEADER_BYTES:
                return read_header(data.records).producer_id
    return -1


def _refusal(error: ErrorCode, version: int) -> UnverifiedError:
    """What a producer of this version is told."""
    if error in _PASSING or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE):
        return UnverifiedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"it could not be verified that the partition is part of the transaction: {error.name}",
        )
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        error = ErrorCode.INVALID_TXN_STATE
    return UnverifiedError(error, "the partition is not part of the producer's transaction")


def _copy(request: ProduceRequest) -> ProduceRequest:
    topics = [
        TopicProduceData(
            topic.name,
            topic.topic_id,
            [
                PartitionProduceData(data.index, None if data.records is None else bytearray(data.records))
                for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics)
