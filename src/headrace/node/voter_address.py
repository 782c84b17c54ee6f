"""A voter that listens elsewhere than the metadata log says tells the others (UpdateRaftVoter, KIP-853)."""

import logging
from collections.abc import Mapping

from headrace.base.errors import ApiError
from headrace.controller.requests import ControllerRequests
from headrace.raft.driver import RaftDriver
from headrace.wire.schemas.update_raft_voter import KRaftVersionFeature, Listener, UpdateRaftVoterRequest

logger = logging.getLogger(__name__)


async def tell_voter_address(
    raft: RaftDriver, controller: ControllerRequests, endpoints: Mapping[str, tuple[str, int]]
) -> None:
    """Nothing to do where the settings fix the voters, for one that is none or alone, or that did not move.

    A quorum that refuses goes on with what it knows: the others learn of this node's address when it leads.
    """
    core = raft.core
    voter = None if raft.log.voters is None else raft.log.voters.by_id.get(core.node_id)
    if not raft.log.kraft_version or voter is None or not core.is_voter or len(core.voters) == 1:
        return
    if voter.endpoints == endpoints:
        return
    request = UpdateRaftVoterRequest(
        cluster_id=None,
        current_leader_epoch=core.epoch,
        voter_id=core.node_id,
        voter_directory_id=core.directory_id,
        listeners=[Listener(name, host, port) for name, (host, port) in endpoints.items()],
        kraft_version_feature=KRaftVersionFeature(*voter.kraft_versions),
    )
    try:
        await controller.update_raft_voter(request)
    except ApiError as error:
        logger.warning("the quorum does not take this node's new address: %s", error)
