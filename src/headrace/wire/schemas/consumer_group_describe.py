"""ConsumerGroupDescribe (69), v0-1: state and members of KIP-848 groups.

v1 tells classic members from new ones (KIP-1099).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, int8, int16, int32, message, struct, uuid


@message(api_key=69, versions=range(2), flexible_from=0)
class ConsumerGroupDescribeRequest:
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
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[int8, Since(1), IGNORABLE] = -1


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


@message(api_key=69, versions=range(2), flexible_from=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
