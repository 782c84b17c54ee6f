"""ElectLeaders (43), v0-2: make the controller elect leaders.

v1 preferred or unclean elections (KIP-460) and an error for the whole reply, v2 flexible.

Null stands for all partitions; then only those are told where something was done or failed.
ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE. See
`controller/partitions.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import Since, int8, int16, int32, message, struct


@struct
class TopicPartitions:
    topic: str = ""
    partitions: list[int32] = field(default_factory=list)


@message(api_key=43, versions=range(3), flexible_from=2)
class ElectLeadersRequest:
    election_type: Annotated[int8, Since(1)] = 0  # 0 preferred, 1 unclean
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)  # null means every partition
    timeout_ms: int32 = 60000


@struct
class PartitionResult:
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


@struct
class ReplicaElectionResult:
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(api_key=43, versions=range(3), flexible_from=2)
class ElectLeadersResponse:
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, Since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
