"""BrokerRegistration (62), v0-4: a broker joins the cluster, fenced, and is given its epoch.

KIP-631. DUPLICATE_BROKER_REGISTRATION while another process with its id lives. v2 log directories (KIP-858),
v3 the epoch of a clean shutdown (KIP-966), v4 features whose lowest level may be 0.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import (
    IGNORABLE,
    NO_UUID,
    Since,
    int16,
    int32,
    int64,
    message,
    struct,
    uint16,
    uuid,
)


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


@struct
class Feature:
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(api_key=62, versions=range(5), flexible_from=0)
class BrokerRegistrationRequest:
    broker_id: int32 = 0
    cluster_id: str = ""
    incarnation_id: uuid = NO_UUID  # new at every start of the process
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    rack: str | None = ""
    is_migrating_zk_broker: Annotated[bool, Since(1)] = False  # always False here
    log_dirs: Annotated[list[uuid], Since(2), IGNORABLE] = field(default_factory=list)
    # proof of a clean shutdown, else -1 (KIP-966)
    previous_broker_epoch: Annotated[int64, Since(3), IGNORABLE] = -1


@message(api_key=62, versions=range(5), flexible_from=0)
class BrokerRegistrationResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
