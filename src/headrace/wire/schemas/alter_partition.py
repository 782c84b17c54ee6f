"""AlterPartition (56), v2-3: a leader changes its in-sync set.

v2 topic ids (KIP-841), v3 the broker epoch of each in-sync replica, so that a restarted one is not taken
for its former self (KIP-903).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import NO_UUID, Since, Until, int8, int16, int32, int64, message, struct, uuid

ISR_WITH_EPOCHS_SINCE: Final = 3  # KIP-903


@struct
class BrokerState:
    broker_id: int32 = 0
    broker_epoch: int64 = -1


@struct
class RequestPartitionData:
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: Annotated[list[int32], Until(2)] = field(default_factory=list)
    new_isr_with_epochs: Annotated[list[BrokerState], Since(3)] = field(default_factory=list)
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


@struct
class RequestTopicData:
    topic_id: uuid = NO_UUID
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(api_key=56, versions=range(2, 4), flexible_from=0)
class AlterPartitionRequest:
    broker_id: int32 = 0
    broker_epoch: int64 = -1  # fences a broker that has been registered again since
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = field(default_factory=list)
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


@struct
class ResponseTopicData:
    topic_id: uuid = NO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@message(api_key=56, versions=range(2, 4), flexible_from=0)
class AlterPartitionResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
