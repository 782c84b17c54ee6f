"""UpdateFeatures through its handler, in each of its versions."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.desk import Desk, at_desk


def test_levels_change_for_the_whole_cluster(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        down = FeatureUpdateKey("group.version", 0, allow_downgrade=True)
        assert (await desk.ask(UpdateFeaturesRequest(feature_updates=[down]), 0)).error_code == 0
        assert "group.version" not in desk.image.features
        up = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 1)])
        response = await desk.ask(up, 1)
        assert [(r.feature, r.error_code) for r in response.results] == [("group.version", 0)]
        assert desk.image.finalized_features()["group.version"] == 1
        high = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 9)])
        assert (await desk.ask(high, 2)).error_code == ErrorCode.INVALID_UPDATE_VERSION

    at_desk(tmp_path, script)
