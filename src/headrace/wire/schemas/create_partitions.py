"""CreatePartitions (37), v0-3: give topics more partitions.

v2 flexible, v3 may answer with a quota error (KIP-599).

Each topic succeeds or fails by itself. Checks, in order: named twice? topic known? more than there are?
assignments given for all of the new ones, and of the replication factor of the old ones? See
`controller/topics.py`.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import int16, int32, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int32] = field(default_factory=list)


@struct
class CreatePartitionsTopic:
    name: str = ""
    count: int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@message(api_key=37, versions=range(4), flexible_from=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int32 = 0
    validate_only: bool = False


@struct
class CreatePartitionsTopicResult:
    name: str = ""
    error_code: int16 = 0
    error_message: str | None = None


@message(api_key=37, versions=range(4), flexible_from=2)
class CreatePartitionsResponse:
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
