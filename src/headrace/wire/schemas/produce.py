"""Produce (0), v3-13: append record batches to partitions.

Acks -1 waits for the in-sync set, 1 for the leader's log, 0 for nothing: then no response is sent at all.
Versions 0-2 carried the old message formats and are only advertised, never parsed. Request: v13 names
topics by id. Response: v5 log start offset, v8 errors per record (KIP-467), v10 the current leader so that
a client need not ask for metadata (KIP-951). v9 is the first flexible version. v7 promises zstd, v11 that
the client knows TRANSACTION_ABORTABLE, and with v12 a batch joins its transaction without
AddPartitionsToTxn (KIP-890).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    OMITTED_IS_NONE,
    Since,
    Tag,
    Until,
    int16,
    int32,
    int64,
    message,
    records_buffer,
    struct,
    uuid,
)

ZSTD_SINCE: Final = 7  # KIP-110
CURRENT_LEADER_SINCE: Final = 10  # KIP-951
TRANSACTION_ABORTABLE_SINCE: Final = 11  # clients know that error (KIP-890)
TRANSACTION_V2_SINCE: Final = 12  # a batch adds its partition to the transaction (KIP-890)
TOPIC_ID_SINCE: Final = 13


@struct
class PartitionProduceData:
    index: int32 = 0
    records: records_buffer | None = None  # one batch of format v2; Kafka takes no more than one here


@struct
class TopicProduceData:
    name: Annotated[str, Until(12), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(13), IGNORABLE] = NO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(api_key=0, versions=range(3, 14), flexible_from=9)
class ProduceRequest:
    transactional_id: str | None = None  # null outside of transactions
    acks: int16 = 0  # -1 all in sync, 1 the leader, 0 none and no reply
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int32 = 0  # the record's place in its batch
    batch_index_error_message: str | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = -1
    leader_epoch: int32 = -1


@struct
class PartitionProduceResponse:
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = -1  # -1 unless the topic stamps records with the broker's time
    log_start_offset: Annotated[int64, Since(5), IGNORABLE] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Since(8), IGNORABLE] = field(
        default_factory=list
    )
    error_message: Annotated[str | None, Since(8), IGNORABLE] = None
    # sent with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)
    current_leader: Annotated[LeaderIdAndEpoch | None, Since(10), Tag(0), OMITTED_IS_NONE] = None


@struct
class TopicProduceResponse:
    name: Annotated[str, Until(12), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(13), IGNORABLE] = NO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@message(api_key=0, versions=range(3, 14), flexible_from=9)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int32 = 0
    # where those leaders are
    node_endpoints: Annotated[list[NodeEndpoint], Since(10), Tag(0)] = field(default_factory=list)
