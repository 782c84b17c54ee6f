"""A controller that makes itself a voter when it starts (controller.quorum.auto.join.enable, KIP-853).

It follows the log as an observer until it has all of it; then it asks the leader to be added. Where the log
has a voter of its id with another directory, that was this node before it lost its disk: it is taken out
first. Once it votes, or has been removed later on, nothing more is done: who removes a voter means it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from headrace.base.errors import ApiError
from headrace.controller.requests import ControllerRequests
from headrace.raft.driver import RaftDriver
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest

logger = logging.getLogger(__name__)

AGAIN_S: Final = 0.5
TIMEOUT_MS: Final = 30_000


async def join_quorum(
    raft: RaftDriver, controller: ControllerRequests, endpoints: Mapping[str, tuple[str, int]]
) -> None:
    """Return when this node votes. Where the voters are a setting it can only wait."""
    while not raft.core.is_voter:
        try:
            if raft.log.kraft_version and raft.log.voters is not None:
                await _ask_to_join(raft, controller, endpoints)
        except ApiError as error:
            logger.info("this controller does not vote yet: %s", error)
        await asyncio.sleep(AGAIN_S)
    logger.info("this controller votes")


async def _ask_to_join(
    raft: RaftDriver, controller: ControllerRequests, endpoints: Mapping[str, tuple[str, int]]
) -> None:
    core, voters = raft.core, raft.log.voters
    assert voters is not None
    former = voters.by_id.get(core.node_id)
    if former is not None:
        await controller.remove_raft_voter(RemoveRaftVoterRequest(None, core.node_id, former.directory_id))
    listeners = [Listener(name, host, port) for name, (host, port) in endpoints.items()]
    await controller.add_raft_voter(
        AddRaftVoterRequest(None, TIMEOUT_MS, core.node_id, core.directory_id, listeners)
    )
