"""UpdateFeatures (57), v0-2: raise or lower feature levels of the cluster.

KIP-584. All updates of a request or none. v1 dry runs, and upgrades told from safe and unsafe downgrades
(KIP-778), v2 one error for all and no results per feature any more.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import IGNORABLE, Since, Until, int8, int16, int32, message, struct


@struct
class FeatureUpdateKey:
    feature: str = ""
    max_version_level: int16 = 0
    allow_downgrade: Annotated[bool, Until(0)] = False
    upgrade_type: Annotated[int8, Since(1)] = 1  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@message(api_key=57, versions=range(3), flexible_from=0)
class UpdateFeaturesRequest:
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: Annotated[bool, Since(1)] = False


@struct
class UpdatableFeatureResult:
    feature: str = ""
    error_code: int16 = 0
    error_message: str | None = ""


@message(api_key=57, versions=range(3), flexible_from=0)
class UpdateFeaturesResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: Annotated[list[UpdatableFeatureResult], Until(1), IGNORABLE] = field(default_factory=list)
