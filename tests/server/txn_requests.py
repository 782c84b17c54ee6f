"""Requests of transactional producers, short enough to write scripts with."""

from headrace.wire.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.schemas.end_txn import EndTxnRequest
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest
from headrace.wire.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Who = tuple[str, int, int]
"""A transactional id, a producer id and an epoch."""

TIMEOUT_MS = 60_000


def init(
    name: str | None, *, timeout_ms: int = TIMEOUT_MS, expected: tuple[int, int] = (-1, -1)
) -> InitProducerIdRequest:
    return InitProducerIdRequest(name, timeout_ms, *expected)


def prepare(name: str, *, keep: bool = False, timeout_ms: int = TIMEOUT_MS) -> InitProducerIdRequest:
    """For two-phase commit (v6)."""
    return InitProducerIdRequest(name, timeout_ms, enable_2pc=True, keep_prepared_txn=keep)


def add(who: Who, **topics: list[int]) -> AddPartitionsToTxnRequest:
    """As clients ask (to v3)."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who[0],
        v3_and_below_producer_id=who[1],
        v3_and_below_producer_epoch=who[2],
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(ids)) for topic, ids in topics.items()],
    )


def ask_about(*rows: Who, verify: bool = True, **topics: list[int]) -> AddPartitionsToTxnRequest:
    """As brokers ask (from v4)."""
    named = [AddPartitionsToTxnTopic(topic, list(ids)) for topic, ids in topics.items()]
    return AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(*who, verify, named) for who in rows]
    )


def end(who: Who, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(*who, commit)


def add_offsets(who: Who, group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(*who, group)


def commit_offsets(
    who: Who,
    group: str,
    topic: str,
    offsets: dict[int, int],
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str = "",
) -> TxnOffsetCommitRequest:
    rows = [TxnOffsetCommitRequestPartition(at, offset, -1, metadata) for at, offset in offsets.items()]
    topics = [TxnOffsetCommitRequestTopic(topic, partitions=rows)]
    return TxnOffsetCommitRequest(who[0], group, who[1], who[2], generation, member, instance, topics)


def markers(
    producer_id: int,
    epoch: int,
    topic: str,
    *partitions: int,
    commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(topic, list(partitions))]
    marker = WritableTxnMarker(producer_id, epoch, commit, topics, coordinator_epoch, version)
    return WriteTxnMarkersRequest([marker])
