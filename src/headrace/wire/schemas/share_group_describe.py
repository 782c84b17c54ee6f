"""ShareGroupDescribe (77), v1: state and members of share groups.

KIP-932. v0 was a preview and is gone.
"""

from __future__ import annotations

from dataclasses import field

from headrace.wire.notation import NO_UUID, int16, int32, message, struct, uuid


@message(api_key=77, versions=range(1, 2), flexible_from=0)
class ShareGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class TopicPartitions:
    topic_id: uuid = NO_UUID
    topic_name: str = ""
    partitions: list[int32] = field(default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@struct
class Member:
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int32 = -(2**31)


@message(api_key=77, versions=range(1, 2), flexible_from=0)
class ShareGroupDescribeResponse:
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
