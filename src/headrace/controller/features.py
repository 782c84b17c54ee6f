"""UpdateFeatures: raise or lower what the cluster has agreed to use (KIP-584).

A level must be one that this node and every registered broker and controller can run. The updates of one
request are applied together or not at all.
"""

from enum import IntEnum

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.activation import min_isr_default
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision
from headrace.metadata.brokers import VersionRange
from headrace.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    NEEDS_METADATA_VERSION,
    NEW_RECORDS_FROM,
    SUPPORTED,
)
from headrace.metadata.image import MetadataRecord
from headrace.wire.schemas.metadata_records import FeatureLevelRecord
from headrace.wire.schemas.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class UpgradeType(IntEnum):
    """Which direction the caller means to go."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    cluster: Cluster, request: UpdateFeaturesRequest, *, api_version: int, kraft_obstacle: str | None = None
) -> Decision[UpdateFeaturesResponse]:
    """All updates, or none with the error of the first that cannot be. `kraft_obstacle` is why the quorum's
    own version cannot be raised; the quorum writes it down itself where nothing is in the way."""
    updates = {update.feature: update for update in request.feature_updates}
    proposed = cluster.image.features | {u.feature: u.max_version_level for u in updates.values()}
    records: list[MetadataRecord] = []
    try:
        for update in updates.values():
            records += _update(cluster, update, proposed, api_version, kraft_obstacle)
    except ApiError as error:
        message = f"no feature was changed, because one cannot be: {error.message}"
        return Decision((), UpdateFeaturesResponse(error_code=error.code, error_message=message))
    results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in updates]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision(() if request.validate_only else records, response)


def _update(
    cluster: Cluster,
    update: FeatureUpdateKey,
    proposed: dict[str, int],
    api_version: int,
    kraft_obstacle: str | None,
) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    current = cluster.image.features.get(name, 0)
    direction = _direction(update, api_version)
    if direction == UpgradeType.UNKNOWN:
        raise _invalid(
            name, level, "upgrade types are 1 (upgrade), 2 (safe downgrade) and 3 (unsafe downgrade)"
        )
    if level < 0:
        raise _invalid(name, level, "levels begin at 0, which turns a feature off")
    if name == KRAFT_VERSION:
        _check_kraft_version(cluster, level, direction, kraft_obstacle)
        return []
    reason = _why_not(cluster, name, level)
    if reason is not None:
        raise _invalid(name, level, reason)
    if level < current and direction == UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            f"it is at {current}, and going back has to be asked for as a safe or unsafe downgrade",
        )
    if level > current and direction != UpgradeType.UPGRADE:
        raise _invalid(name, level, f"it is at {current}, so this is no downgrade: ask for an upgrade")
    if level == current:
        return []
    if name == METADATA_VERSION:
        _check_metadata_version(level, current, direction)
    needed = NEEDS_METADATA_VERSION.get((name, level), 0)
    if proposed.get(METADATA_VERSION, 0) < needed:
        raise _invalid(
            name,
            level,
            f"it builds on metadata.version {needed}: raise that first, or in the same request",
        )
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level)]
    if name == ELR_VERSION and level and not current:
        records += min_isr_default(cluster)
    return records


def _direction(update: FeatureUpdateKey, api_version: int) -> int:
    if api_version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return (
        update.upgrade_type if update.upgrade_type in UpgradeType._value2member_map_ else UpgradeType.UNKNOWN
    )


def _check_kraft_version(cluster: Cluster, level: int, direction: int, obstacle: str | None) -> None:
    """The quorum's own version never goes back, and goes on only where every voter can be written down."""
    current = cluster.image.kraft_version
    if level < current:
        raise _invalid(KRAFT_VERSION, level, f"it is at {current} and never goes back")
    if level > SUPPORTED[KRAFT_VERSION].max:
        raise _invalid(KRAFT_VERSION, level, f"this release can run up to {SUPPORTED[KRAFT_VERSION].max}")
    if level > current and direction != UpgradeType.UPGRADE:
        raise _invalid(KRAFT_VERSION, level, f"it is at {current}: this is no downgrade, ask for an upgrade")
    if level > current and obstacle is not None:
        raise _invalid(KRAFT_VERSION, level, obstacle)


def _check_metadata_version(level: int, current: int, direction: int) -> None:
    """A lower level may not be able to hold what the log already has; then there is no way back."""
    if not any(level < brought <= current for brought in NEW_RECORDS_FROM):
        return
    reason = "the log has records that the lower level cannot hold"
    if direction == UpgradeType.UNSAFE_DOWNGRADE:
        reason = "this release cannot take out the records that the lower level cannot hold"
    raise ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"metadata.version cannot go back from {current} to {level}: {reason}",
    )


def _why_not(cluster: Cluster, name: str, level: int) -> str | None:
    """The first node that cannot run a level, or None."""
    local = SUPPORTED.get(name)
    if local is None:
        return f"there is no such feature, only {', '.join(sorted(SUPPORTED))}"
    nodes: list[tuple[str, dict[str, VersionRange]]] = [
        (f"controller {cluster.config.int('node.id')}", SUPPORTED)
    ]
    nodes += [(f"broker {broker.id}", broker.features) for broker in cluster.image.brokers.values()]
    nodes += [(f"controller {other.id}", other.features) for other in cluster.image.controllers.values()]
    for who, features in nodes:
        supported = features.get(name, VersionRange(0, 0))
        # Level 0 of anything but metadata.version means that the feature is not used: everybody can do that.
        if level in supported or (level == 0 and name != METADATA_VERSION):
            continue
        if supported == VersionRange(0, 0):
            return f"{who} does not have it"
        return f"{who} can run {supported.min} to {supported.max}"
    return None


def _invalid(name: str, level: int, message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot be set to {level}: {message}")
