"""DeleteShareGroupOffsets (92), v0: forget topics of an empty share group.

KIP-932.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = ""


@message(api_key=92, versions=range(1), flexible_from=0)
class DeleteShareGroupOffsetsRequest:
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: uuid = NO_UUID
    error_code: int16 = 0
    error_message: str | None = None


@message(api_key=92, versions=range(1), flexible_from=0)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
