"""Voters that come, go and move while the quorum runs (KIP-853).

Each change is a record with the whole new set, in force as soon as it is in the log. Two sets that differ in
one voter have a majority in common, so changes go one at a time: the next one waits until the last is
committed, and the leader's own epoch with it. Whoever joins must have caught up first, or the quorum could be
stuck waiting for it. A leader that was removed leads on until that is committed, and then gives up.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import ignore, then
from headrace.raft.core import RaftCore
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import NO_DIRECTORY
from headrace.raft.voters import Voter, VoterSet
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from headrace.wire.schemas.quorum_records import KRaftVersionRecord
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from headrace.wire.schemas.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

UPGRADED: Final = 1
"""The kraft.version from which on the log has the voters."""

CAUGHT_UP_MS: Final = 60_000
"""How lately one that wants to vote must have had the whole log."""


class VoterChanges:
    """Decided by the leader alone; every refusal is an ApiError."""

    def __init__(self, client: KafkaRaftClient, cluster_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._cluster_id = cluster_id
        self._loop = loop

    def ask(self, request: Any) -> "asyncio.Future[Any]":
        """Any of the three requests."""
        if isinstance(request, AddRaftVoterRequest):
            return self._add(request)
        if isinstance(request, RemoveRaftVoterRequest):
            return self._remove(request)
        return self._update(request)

    def _add(self, request: AddRaftVoterRequest) -> "asyncio.Future[AddRaftVoterResponse]":
        voters = self._changeable(request.cluster_id)
        if request.voter_id in voters.by_id:
            raise ApiError(ErrorCode.DUPLICATE_VOTER, f"node {request.voter_id} is a voter already")
        endpoints = {each.name: (each.host, each.port) for each in request.listeners}
        self._check_endpoints(voters, endpoints)
        if not self._has_caught_up(request.voter_id, request.voter_directory_id):
            raise ApiError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {request.voter_id} has not caught up with the metadata log: is it running, with this "
                "directory, as a controller of this cluster?",
            )
        joined = Voter(request.voter_id, request.voter_directory_id, endpoints)
        written = self._write(VoterSet([*voters.by_id.values(), joined]))
        response = AddRaftVoterResponse(error_message=None)
        if request.ack_when_committed:
            return self._when(written, response)
        answer: asyncio.Future[AddRaftVoterResponse] = self._loop.create_future()
        answer.set_result(response)
        written.add_done_callback(ignore)
        return answer

    def _remove(self, request: RemoveRaftVoterRequest) -> "asyncio.Future[RemoveRaftVoterResponse]":
        voters = self._changeable(request.cluster_id)
        voter = self._find(voters, request.voter_id, request.voter_directory_id)
        if len(voters.by_id) == 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"node {voter.id} is the last voter: add another first")
        written = self._write(VoterSet(each for each in voters.by_id.values() if each.id != voter.id))
        if voter.id == self._client.core.node_id:
            written.add_done_callback(self._leave)
        return self._when(written, RemoveRaftVoterResponse(error_message=None))

    def _update(self, request: UpdateRaftVoterRequest) -> "asyncio.Future[UpdateRaftVoterResponse]":
        core = self._client.core
        if request.current_leader_epoch != core.epoch:
            old = request.current_leader_epoch < core.epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(code, f"the quorum is in epoch {core.epoch}")
        voters = self._changeable(request.cluster_id)
        voter = self._find(voters, request.voter_id, request.voter_directory_id)
        endpoints = {each.name: (each.host, each.port) for each in request.listeners}
        self._check_endpoints(voters, endpoints)
        feature = request.kraft_version_feature
        versions = (feature.min_supported_version, feature.max_supported_version)
        moved = Voter(voter.id, voter.directory_id, endpoints, versions)
        others = [each for each in voters.by_id.values() if each.id != voter.id]
        host, port = next(iter(endpoints.values()))
        leader = CurrentLeader(core.node_id, core.epoch, host, port)
        return self._when(
            self._write(VoterSet([*others, moved])), UpdateRaftVoterResponse(current_leader=leader)
        )

    # -- from kraft.version 0, whose voters are a setting, to 1 ----------------------------------------------

    def upgrade(self, voters: VoterSet) -> "asyncio.Future[int]":
        """Write version and voters down, in one batch; in force as soon as it is in the log."""
        return self._client.append_control([KRaftVersionRecord(kraft_version=UPGRADED), voters.to_record()])

    # -- checks ----------------------------------------------------------------------------------------------

    def _changeable(self, cluster_id: str | None) -> VoterSet:
        """The voters, where they may be changed now."""
        client = self._client
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {self._cluster_id}")
        if not client.log.kraft_version or client.log.voters is None:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the voters are fixed by controller.quorum.voters: changing them needs kraft.version 1, "
                "which a cluster has that was formatted with initial controllers, or that was upgraded",
            )
        leader_state = client.core.leader_state
        high_watermark = client.core.high_watermark
        pending = (
            leader_state is None or high_watermark is None or high_watermark <= leader_state.start_offset
        )
        if pending or (high_watermark or 0) <= client.log.history.changed_at:
            raise ApiError(
                ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way: try again"
            )
        return client.log.voters

    def _find(self, voters: VoterSet, voter_id: int, directory_id: bytes) -> Voter:
        voter = voters.by_id.get(voter_id)
        if voter is None or directory_id not in (voter.directory_id, NO_DIRECTORY):
            raise ApiError(
                ErrorCode.VOTER_NOT_FOUND, f"node {voter_id} is no voter, or has another directory than that"
            )
        return voter

    def _check_endpoints(self, voters: VoterSet, endpoints: dict[str, tuple[str, int]]) -> None:
        """The others must be able to reach it by the listener that they use."""
        own = voters.by_id.get(self._client.core.node_id)
        needed = next(iter(own.endpoints), "") if own is not None else ""
        if not endpoints or (needed and needed not in endpoints):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a voter tells where it listens as {needed}")

    def _has_caught_up(self, node_id: int, directory_id: bytes) -> bool:
        leader_state = self._client.core.leader_state
        replica = None if leader_state is None else leader_state.replicas.get(node_id)
        if replica is None or replica.directory_id != directory_id or replica.caught_up_ms < 0:
            return False
        return self._client.now_ms() - replica.caught_up_ms <= CAUGHT_UP_MS

    # -- writing ---------------------------------------------------------------------------------------------

    def _write(self, voters: VoterSet) -> "asyncio.Future[int]":
        return self._client.append_control([voters.to_record()])

    def _when(self, written: "asyncio.Future[int]", response: Any) -> "asyncio.Future[Any]":
        return then(written, lambda _: response, loop=self._loop, shared=True)

    def _leave(self, outcome: "asyncio.Future[int]") -> None:
        client = self._client
        if outcome.exception() is None and not client.core.is_voter:
            client.do(client.core.resign(client.now_ms()))


def voters_by_registration(core: RaftCore, registered: Mapping[int, Voter]) -> VoterSet:
    """A leader's voters as the log is to have them, from what they registered and the directories they fetch
    with. ApiError where one is not known well enough."""
    voters = []
    for voter_id in sorted(core.voters):
        known = registered.get(voter_id)
        if known is None or not known.endpoints:
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"voter {voter_id} has not registered")
        if not known.kraft_versions[0] <= UPGRADED <= known.kraft_versions[1]:
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"voter {voter_id} cannot run it")
        replica = None if core.leader_state is None else core.leader_state.replicas.get(voter_id)
        directory_id = NO_DIRECTORY if replica is None else replica.directory_id
        if voter_id == core.node_id:
            directory_id = core.directory_id
        if directory_id == NO_DIRECTORY:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION, f"voter {voter_id} is not there to tell its directory"
            )
        voters.append(Voter(voter_id, directory_id, known.endpoints, known.kraft_versions))
    return VoterSet(voters)
