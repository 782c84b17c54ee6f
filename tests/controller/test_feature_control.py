"""UpdateFeatures, held to what Apache Kafka 4.3.1 was seen to answer."""

import pytest

from headrace.controller.core import ControllerCore
from headrace.controller.feature_control import UpgradeType, update_features
from headrace.metadata.features import BOOTSTRAP_LEVELS
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.controller.building import apply, new_core, registration

UNKNOWN, UPGRADE, SAFE, UNSAFE = UpgradeType
PREFIX = "The update failed for all features since the following feature had an error: Invalid "


def update(
    core: ControllerCore, *updates: tuple[str, int, int], api_version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(n, level, upgrade_type=kind) for n, level, kind in updates],
        validate_only=validate_only,
    )
    reply: UpdateFeaturesResponse = apply(
        core, update_features(core.cluster, request, api_version=api_version)
    )
    return reply


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        (
            "group.version",
            0,
            UPGRADE,
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        ("group.version", 9, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("foo", 1, UPGRADE, "Local controller 1 does not support this feature."),
        (
            "metadata.version",
            29,
            SAFE,
            "metadata.version 29. Refusing to perform the requested downgrade",
        ),
        ("metadata.version", 29, UNSAFE, "metadata.version 29. Unsafe metadata downgrade is not supported"),
        ("metadata.version", 99, UPGRADE, "Local controller 1 only supports versions 7-32"),
        ("metadata.version", 1, SAFE, "Local controller 1 only supports versions 7-32"),
        ("group.version", 1, UNKNOWN, "The controller does not support the given upgrade type."),
        ("group.version", 1, 7, "The controller does not support the given upgrade type."),
        ("kraft.version", 0, SAFE, "it is at 1 and never goes back"),
        ("kraft.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("streams.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
    ],
)
def test_levels_that_cannot_be(name: str, level: int, kind: int, message: str) -> None:
    core = new_core(1)
    core.image.kraft_version = 1
    before = dict(core.image.features)
    reply = update(core, (name, level, kind))
    assert reply.error_code == 95
    assert str(reply.error_message).startswith(PREFIX)
    assert message in str(reply.error_message)
    assert core.image.features == before


def test_levels_go_down_and_up_again() -> None:
    core = new_core(1)
    core.image.kraft_version = 1
    assert update(core, ("group.version", 0, SAFE)).error_code == 0
    assert "group.version" not in core.image.features
    assert update(core, ("group.version", 1, SAFE)).error_code == 95, "that is no way down"
    assert update(core, ("group.version", 1, UPGRADE), ("kraft.version", 1, UPGRADE)).error_code == 0
    assert core.image.features["group.version"] == 1
    assert update(core, ("transaction.version", 0, SAFE), validate_only=True).error_code == 0
    assert core.image.features["transaction.version"] == 2


def test_all_updates_of_a_request_or_none() -> None:
    core = new_core(1)
    assert update(core, ("group.version", 0, SAFE), ("foo", 1, UPGRADE)).error_code == 95
    assert core.image.features["group.version"] == 1


def test_the_first_versions_told_each_result() -> None:
    core = new_core(1)
    reply = update(core, ("group.version", 1, UPGRADE), api_version=1)
    assert [(r.feature, r.error_code, r.error_message) for r in reply.results] == [
        ("group.version", 0, "NONE")
    ]
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey("group.version", 0, allow_downgrade=True)]
    )
    assert apply(core, update_features(core.cluster, request, api_version=0)).error_code == 0
    assert "group.version" not in core.image.features


def test_every_node_must_be_able_to_run_a_level() -> None:
    core = new_core(1)
    older = registration(2)
    older.features = [f for f in older.features if f.name != "group.version"]
    core.replay([older, wire.FeatureLevelRecord(name="group.version", feature_level=0)])
    reply = update(core, ("group.version", 1, UPGRADE))
    assert str(reply.error_message).endswith("Broker 2 does not support this feature.")


def test_a_release_of_kafka_is_taken_as_a_whole() -> None:
    """What `kafka-features upgrade --release-version 4.3` sends, streams groups among it."""
    core = new_core(1)
    core.image.kraft_version = 1
    assert update(core, *((name, level, UPGRADE) for name, level in BOOTSTRAP_LEVELS.items())).error_code == 0
    assert core.image.features["streams.version"] == 1


def test_streams_groups_may_stay_and_go() -> None:
    core = new_core(1)
    core.replay([wire.FeatureLevelRecord(name="streams.version", feature_level=1)])
    assert update(core, ("streams.version", 1, UPGRADE)).error_code == 0
    assert update(core, ("streams.version", 0, SAFE)).error_code == 0
    assert update(core, ("streams.version", 1, UPGRADE)).error_code == 0


def test_a_lower_metadata_version_is_fine_where_no_record_is_new() -> None:
    core = new_core(1)
    core.replay([wire.FeatureLevelRecord(name="metadata.version", feature_level=29)])
    assert update(core, ("metadata.version", 24, SAFE)).error_code == 0
    assert core.image.metadata_version == 24
    assert update(core, ("metadata.version", 22, SAFE)).error_code == 95, "23 brought eligible leaders"


def test_eligible_leaders_need_their_metadata_version_and_fix_the_minimum() -> None:
    core = new_core(1, elr=False, min_insync_replicas=2)
    core.replay([wire.FeatureLevelRecord(name="metadata.version", feature_level=22)])
    name = "eligible.leader.replicas.version"
    reply = update(core, (name, 1, UPGRADE))
    assert "it depends on metadata.version level 23" in str(reply.error_message)
    assert update(core, ("metadata.version", 30, UPGRADE), (name, 1, UPGRADE)).error_code == 0
    assert core.image.config_of(4, "") == {"min.insync.replicas": "2"}


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_the_quorums_version_does_not_rise_by_a_downgrade(kind: int) -> None:
    core = new_core(1)
    core.image.kraft_version = 0
    reply = update(core, ("kraft.version", 1, kind), validate_only=True)
    assert (reply.error_code, "Can't downgrade to a newer version." in str(reply.error_message)) == (95, True)
