"""Records of `__consumer_offsets` that every group has: committed offsets, and classic groups.

A key's number tells what the record is about; a null value deletes it. Keys 0 and 1 are the same but for
their number: 0 is what Kafka wrote before 0.9.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, NO_UUID, Since, Tag, Until, int32, int64, message, struct, uuid


@message(api_key=0, versions=range(1))
class LegacyOffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: int32 = 0


@message(api_key=0, versions=range(1))
class LegacyOffsetCommitValue:
    offset: int64 = 0
    metadata: str = ""
    commit_timestamp: int64 = 0


@message(api_key=1, versions=range(1))
class OffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: int32 = 0


@message(api_key=1, versions=range(5), flexible_from=4)
class OffsetCommitValue:
    offset: int64 = 0
    leader_epoch: Annotated[int32, Since(3), IGNORABLE] = -1
    metadata: str = ""
    commit_timestamp: int64 = 0
    # only written by old clients that asked for a retention of their own
    expire_timestamp: Annotated[int64, Since(1), Until(1), IGNORABLE] = -1
    topic_id: Annotated[uuid, Since(4), Tag(0), IGNORABLE] = NO_UUID  # zero where it is not known


@message(api_key=2, versions=range(1))
class GroupMetadataKey:
    group: str = ""


@struct
class MemberMetadata:
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(3), IGNORABLE] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[int32, Since(1), IGNORABLE] = -1
    session_timeout: int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@message(api_key=2, versions=range(5), flexible_from=4)
class GroupMetadataValue:
    protocol_type: str = ""  # consumer, connect, ...
    generation: int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Annotated[int64, Since(2), IGNORABLE] = -1
    members: list[MemberMetadata] = field(default_factory=list)
