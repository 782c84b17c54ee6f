"""FindCoordinator (10), v0-6: which broker coordinates a group, a transactional id or a share partition.

v1 adds the kind of key, v3 flexible, v4 many keys at once (KIP-699), v6 share partitions (KIP-932), whose
key is written group:topic-id:partition.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, Until, int8, int16, int32, message, struct

BATCHED_SINCE: Final = 4  # several keys in one request (KIP-699)
SHARE_SINCE: Final = 6  # share partitions (KIP-932)


@message(api_key=10, versions=range(7), flexible_from=3)
class FindCoordinatorRequest:
    key: Annotated[str, Until(3)] = ""
    key_type: Annotated[int8, Since(1)] = 0  # 0 group, 1 transaction, 2 share partition
    coordinator_keys: Annotated[list[str], Since(4)] = field(default_factory=list)


@struct
class Coordinator:
    key: str = ""
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


@message(api_key=10, versions=range(7), flexible_from=3)
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    error_code: Annotated[int16, Until(3)] = 0
    error_message: Annotated[str | None, Since(1), Until(3), IGNORABLE] = ""
    node_id: Annotated[int32, Until(3)] = 0
    host: Annotated[str, Until(3)] = ""
    port: Annotated[int32, Until(3)] = 0
    coordinators: Annotated[list[Coordinator], Since(4)] = field(default_factory=list)
