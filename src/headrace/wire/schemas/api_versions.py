"""ApiVersions (18), v0-5: which requests the other side takes, in which versions.

v1 throttle time, v3 flexible with the client's name and version (KIP-511) and the cluster's features
(KIP-584), v4 features whose lowest level may be 0, v5 whom the client means to
ask (KIP-1242). The response header stays that of v0 for ever, since the
client can't know yet what the broker speaks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from headrace.wire.notation import IGNORABLE, Since, Tag, int16, int32, int64, message, struct

CLIENT_SOFTWARE_SINCE: Final = 3  # KIP-511
DESTINATION_SINCE: Final = 5  # KIP-1242
ZERO_LEVELS_SINCE: Final = 4  # features whose lowest level is 0 are told


@message(api_key=18, versions=range(6), flexible_from=3)
class ApiVersionsRequest:
    client_software_name: Annotated[str, Since(3), IGNORABLE] = ""
    client_software_version: Annotated[str, Since(3), IGNORABLE] = ""
    cluster_id: Annotated[str | None, Since(5), IGNORABLE] = None
    node_id: Annotated[int32, Since(5), IGNORABLE] = -1


@struct
class ApiVersion:
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


@struct
class SupportedFeatureKey:
    name: str = ""
    min_version: int16 = 0
    max_version: int16 = 0


@struct
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0


@message(api_key=18, versions=range(6), flexible_from=3)
class ApiVersionsResponse:
    error_code: int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[int32, Since(1), IGNORABLE] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Since(3), Tag(0), IGNORABLE] = field(
        default_factory=list
    )
    # offset of the metadata log that set them, -1 if unknown
    finalized_features_epoch: Annotated[int64, Since(3), Tag(1), IGNORABLE] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Since(3), Tag(2), IGNORABLE] = field(
        default_factory=list
    )
    # always False: there is no ZooKeeper
    zk_migration_ready: Annotated[bool, Since(3), Tag(3), IGNORABLE] = False
