"""ConsumerGroupHeartbeat (68), v0-1: join, stay in and leave a group of the KIP-848 protocol.

The protocol's only request: it also subscribes and acknowledges what was revoked. Fields that have not
changed since the last heartbeat are null. v1 subscription by regular expression, and member ids made by the
client (KIP-1082).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import NO_UUID, Since, int16, int32, message, struct, uuid

REGEX_SINCE: Final = 1  # SubscribedTopicRegex
CONSUMER_GENERATED_MEMBER_ID_SINCE: Final = 1  # KIP-1082


@struct
class TopicPartitions:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@message(api_key=68, versions=range(2), flexible_from=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0  # 0 joins, -1 leaves, -2 leaves but keeps a static seat
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1  # -1 unchanged
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, Since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None  # what the member owns; null unchanged


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(api_key=68, versions=range(2), flexible_from=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None  # null unchanged
