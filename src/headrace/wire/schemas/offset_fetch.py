"""OffsetFetch (9), v1-10: what a group has committed.

v2 null asks for all partitions, v5 leader epochs, v6 flexible, v7 waits for offsets of open transactions
(KIP-447), v8 several groups in one request (KIP-709), v9 the member asks by its epoch (KIP-848), v10 topic
ids.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Nullable,
    Since,
    Until,
    int16,
    int32,
    int64,
    message,
    struct,
    uuid,
)

GROUP_ERROR_SINCE: Final = 2  # an error of the group as a whole
REQUIRE_STABLE_SINCE: Final = 7  # KIP-447
GROUPS_SINCE: Final = 8  # several groups in one request (KIP-709)
TOPIC_ID_SINCE: Final = 10


@struct
class OffsetFetchRequestTopic:
    name: str = ""
    partition_indexes: list[int32] = field(default_factory=list)


@struct
class OffsetFetchRequestTopics:
    name: Annotated[str, Until(9), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID
    partition_indexes: list[int32] = field(default_factory=list)


@struct
class OffsetFetchRequestGroup:
    group_id: str = ""
    member_id: Annotated[str | None, Since(9), IGNORABLE] = None
    member_epoch: Annotated[int32, Since(9), IGNORABLE] = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)  # null asks for all


@message(api_key=9, versions=range(1, 11), flexible_from=6)
class OffsetFetchRequest:
    group_id: Annotated[str, Until(7)] = ""
    # null asks for all
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), Nullable(2)] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = field(default_factory=list)
    # refuse offsets that an open transaction may still change (KIP-447)
    require_stable: Annotated[bool, Since(7)] = False


@struct
class OffsetFetchResponsePartition:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, Since(5), IGNORABLE] = -1
    metadata: str | None = ""
    error_code: int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = -1
    metadata: str | None = ""
    error_code: int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: Annotated[str, Until(9), IGNORABLE] = ""
    topic_id: Annotated[uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int16 = 0


@message(api_key=9, versions=range(1, 11), flexible_from=6)
class OffsetFetchResponse:
    throttle_time_ms: Annotated[int32, Since(3), IGNORABLE] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = field(default_factory=list)
    error_code: Annotated[int16, Since(2), Until(7), IGNORABLE] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = field(default_factory=list)
