"""From kraft.version 0, whose voters are a setting, to 1, where the metadata log has them (KIP-853).

The record that raises the version comes with the set of voters: where each listens, by its registration as a
controller, and the directory that it fetches with. So every voter has to be there, and able to run it.
"""

from headrace.base.errors import ApiError
from headrace.metadata.brokers import ControllerImage
from headrace.metadata.features import KRAFT_VERSION
from headrace.metadata.image import ClusterImage
from headrace.raft.driver import RaftDriver
from headrace.raft.messages import NO_DIRECTORY
from headrace.raft.voter_changes import voters_by_registration
from headrace.raft.voters import Voter, VoterSet
from headrace.wire.schemas.update_features import UpdateFeaturesRequest


def voters_for_upgrade(
    raft: RaftDriver, image: ClusterImage, request: UpdateFeaturesRequest
) -> tuple[VoterSet | None, str | None]:
    """The voters to be written down where a request raises kraft.version; or why they cannot be."""
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


def _kraft_versions(controller: ControllerImage) -> tuple[int, int]:
    supported = controller.features.get(KRAFT_VERSION)
    return (0, 0) if supported is None else (supported.min, supported.max)
