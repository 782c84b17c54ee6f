"""DeleteTopics (20), v1-6: delete topics.

v4 flexible, v5 messages and quota errors (KIP-599), v6 by name or by id.

Each topic succeeds or fails by itself; one that is given twice is not removed. TOPIC_DELETION_DISABLED where
delete.topic.enable is false. See `controller/topics.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Nullable,
    Since,
    Until,
    int16,
    int32,
    message,
    struct,
    uuid,
)


@struct
class DeleteTopicState:
    name: str | None = None  # null when the topic is named by id
    topic_id: uuid = NO_UUID


@message(api_key=20, versions=range(1, 7), flexible_from=4)
class DeleteTopicsRequest:
    topics: Annotated[list[DeleteTopicState], Since(6)] = field(default_factory=list)
    topic_names: Annotated[list[str], Until(5), IGNORABLE] = field(default_factory=list)
    timeout_ms: int32 = 0


@struct
class DeletableTopicResult:
    name: Annotated[str | None, Nullable(6)] = ""
    topic_id: Annotated[uuid, Since(6), IGNORABLE] = NO_UUID
    error_code: int16 = 0
    error_message: Annotated[str | None, Since(5), IGNORABLE] = None


@message(api_key=20, versions=range(1, 7), flexible_from=4)
class DeleteTopicsResponse:
    throttle_time_ms: int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
