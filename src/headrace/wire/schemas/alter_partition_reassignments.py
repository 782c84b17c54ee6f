"""AlterPartitionReassignments (45), v0-1: move replicas to other brokers, or cancel that.

KIP-455. Null replicas cancel. Each partition succeeds or fails by itself. v1 may forbid a change of the
replication factor (KIP-860).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, int16, int32, message, struct


@struct
class ReassignablePartition:
    partition_index: int32 = 0
    replicas: list[int32] | None = None  # null cancels the reassignment


@struct
class ReassignableTopic:
    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(api_key=45, versions=range(2), flexible_from=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int32 = 60000
    allow_replication_factor_change: Annotated[bool, Since(1)] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse:
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


@struct
class ReassignableTopicResponse:
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(api_key=45, versions=range(2), flexible_from=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: Annotated[bool, Since(1), IGNORABLE] = True
    error_code: int16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
