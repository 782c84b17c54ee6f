"""ShareGroupHeartbeat (76), v1: join, stay in and leave a share group.

KIP-932. v0 was a preview and is gone.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uuid


@message(api_key=76, versions=range(1, 2), flexible_from=0)
class ShareGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@struct
class TopicPartitions:
    topic_id: uuid = NO_UUID
    partitions: list[int32] = field(default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(api_key=76, versions=range(1, 2), flexible_from=0)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None
