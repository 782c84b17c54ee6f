"""DescribeCluster (60), v0-2: brokers or controllers of the cluster.

KIP-700. v1 asks controllers (KIP-919), v2 includes fenced brokers (KIP-1073).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import Since, int8, int16, int32, message, struct

FENCED_BROKERS_SINCE: Final = 2  # KIP-1073


@message(api_key=60, versions=range(3), flexible_from=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[int8, Since(1)] = 1  # 1 brokers, 2 controllers (KIP-919)
    include_fenced_brokers: Annotated[bool, Since(2)] = False


@struct
class DescribeClusterBroker:
    broker_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None
    is_fenced: Annotated[bool, Since(2)] = False


@message(api_key=60, versions=range(3), flexible_from=0)
class DescribeClusterResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[int8, Since(1)] = 1  # 1 brokers, 2 controllers (KIP-919)
    cluster_id: str = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int32 = -(2**31)
