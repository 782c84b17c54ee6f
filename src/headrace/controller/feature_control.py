"""UpdateFeatures: raise or lower what the cluster has agreed to use (KIP-584).

A level must be one that this node and every registered broker and controller can run. The updates of one
request are applied together or not at all.
"""

from enum import IntEnum
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.activation import min_isr_default
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult
from headrace.metadata.brokers import ControllerRegistration, VersionRange
from headrace.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    NEEDS_METADATA_VERSION,
    NEW_RECORDS_FROM,
    SUPPORTED,
)
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.drivers.voter_changes import voters_by_registration
from headrace.raft.messages import NO_DIRECTORY
from headrace.raft.voters import Voter, VoterSet
from headrace.wire.schemas.metadata_records import FeatureLevelRecord
from headrace.wire.schemas.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

NO_DOWNGRADE: Final = "Can't downgrade to a newer version."
_NOT_THERE: Final = VersionRange(0, 0)


class UpgradeType(IntEnum):
    """Which direction the caller means to go."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    cluster: ClusterState,
    request: UpdateFeaturesRequest,
    *,
    api_version: int,
    kraft_obstacle: str | None = None,
) -> ControllerResult[UpdateFeaturesResponse]:
    """All updates, or none with the error of the first that cannot be. `kraft_obstacle` is why the quorum's
    own version cannot be raised; the quorum writes it down itself where nothing is in the way."""
    updates = {update.feature: update for update in request.feature_updates}
    proposed = cluster.image.features | {u.feature: u.max_version_level for u in updates.values()}
    records: list[MetadataRecord] = []
    try:
        for update in updates.values():
            records += _update(cluster, update, proposed, api_version, kraft_obstacle)
    except ApiError as error:
        message = (
            f"The update failed for all features since the following feature had an error: {error.message}"
        )
        return ControllerResult((), UpdateFeaturesResponse(error_code=error.code, error_message=message))
    results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in updates]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return ControllerResult(() if request.validate_only else records, response)


def _update(
    cluster: ClusterState,
    update: FeatureUpdateKey,
    proposed: dict[str, int],
    api_version: int,
    kraft_obstacle: str | None,
) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    current = cluster.image.features.get(name, 0)
    direction = _direction(update, api_version)
    if direction == UpgradeType.UNKNOWN:
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
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
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and direction != UpgradeType.UPGRADE:
        raise _invalid(name, level, NO_DOWNGRADE)
    if level == current:
        return []
    if name == METADATA_VERSION:
        _check_metadata_version(level, current, direction)
    needed = NEEDS_METADATA_VERSION.get((name, level), 0)
    if proposed.get(METADATA_VERSION, 0) < needed:
        raise _invalid(
            name,
            level,
            f"{name} could not be set to {level} because it depends on metadata.version level {needed}",
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


def _check_kraft_version(cluster: ClusterState, level: int, direction: int, obstacle: str | None) -> None:
    """The quorum's own version never goes back, and goes on only where every voter can be written down."""
    current = cluster.image.kraft_version
    if level < current:
        raise _invalid(KRAFT_VERSION, level, f"it is at {current} and never goes back")
    if level > SUPPORTED[KRAFT_VERSION].max:
        raise _invalid(KRAFT_VERSION, level, _range_told(_local(cluster), SUPPORTED[KRAFT_VERSION]))
    if level > current and direction != UpgradeType.UPGRADE:
        raise _invalid(KRAFT_VERSION, level, NO_DOWNGRADE)
    if level > current and obstacle is not None:
        raise _invalid(KRAFT_VERSION, level, obstacle)


def _check_metadata_version(level: int, current: int, direction: int) -> None:
    """A lower level may not be able to hold what the log already has; then there is no way back."""
    if not any(level < brought <= current for brought in NEW_RECORDS_FROM):
        return
    reason = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
        if direction == UpgradeType.SAFE_DOWNGRADE
        else "Unsafe metadata downgrade is not supported in this version."
    )
    raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid metadata.version {level}. {reason}")


def _why_not(cluster: ClusterState, name: str, level: int) -> str | None:
    """The first node that cannot run a level, or None."""
    if name not in SUPPORTED:
        return _range_told(_local(cluster), _NOT_THERE)
    nodes = [(_local(cluster), SUPPORTED)]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in cluster.image.brokers.values()]
    nodes += [(f"Controller {other.id}", other.features) for other in cluster.image.controllers.values()]
    for who, features in nodes:
        supported = features.get(name, _NOT_THERE)
        # Level 0 of anything but metadata.version means that the feature is not used: everybody can do that.
        if level not in supported and (level or name == METADATA_VERSION):
            return _range_told(who, supported)
    return None


def _local(cluster: ClusterState) -> str:
    return f"Local controller {cluster.config.int('node.id')}"


def _range_told(who: str, supported: VersionRange) -> str:
    if supported == _NOT_THERE:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {supported.min}-{supported.max}"


def _invalid(name: str, level: int, message: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {message}"
    )


def voters_for_upgrade(
    raft: KafkaRaftClient, image: MetadataImage, request: UpdateFeaturesRequest
) -> tuple[VoterSet | None, str | None]:
    """The voters to be written down where a request raises kraft.version from 0, whose voters are a setting,
    to 1,
    where the metadata log has them (KIP-853); or why they cannot be.

    The record that raises the version comes with the set of voters: where each listens, by its registration
    as a controller, and the directory that it fetches with. So every voter has to be there, and able to run
    it.
    """
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    if raft.log.kraft_version or not levels.get(KRAFT_VERSION):
        return None, None
    registered = {
        controller.id: Voter(
            controller.id,
            NO_DIRECTORY,
            {each.name: (each.host, each.port) for each in controller.endpoints.values()},
            _kraft_versions(controller),
        )
        for controller in image.controllers.values()
    }
    try:
        return voters_by_registration(raft.core, registered), None
    except ApiError as error:
        return None, error.message


def _kraft_versions(controller: ControllerRegistration) -> tuple[int, int]:
    supported = controller.features.get(KRAFT_VERSION)
    return (0, 0) if supported is None else (supported.min, supported.max)
