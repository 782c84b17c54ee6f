"""What this member of the quorum answers: votes, announcements of leaders, and as the leader the log itself.

A fetch at the end of the log waits until there is something: records, a higher high watermark than the
replica knows, another leader, or the end of its patience (KIP-595). Errors of the epoch name the leader and
where it listens, so whoever asked the wrong node knows whom to ask (KIP-853). A replica that needs what the
log has no more is sent to a snapshot (KIP-630); one whose log differs, to where the two part.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_LEADER
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.drivers.network_channel import NetworkChannel, epoch_ended, only_partition, vote_asked
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import NO_DIRECTORY, NOTHING, EpochBegan, EpochEnded, VoteReply, VoteRequest
from headrace.raft.metadata_log import METADATA_TOPIC_ID
from headrace.raft.snapshots import SnapshotId
from headrace.telemetry.limited_log import LimitedLog
from headrace.wire.schemas import begin_quorum_epoch as begin_wire
from headrace.wire.schemas import end_quorum_epoch as end_wire
from headrace.wire.schemas import fetch as fetch_wire
from headrace.wire.schemas import fetch_snapshot as snapshot_wire
from headrace.wire.schemas import vote as vote_wire

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Fetch:
    """A fetch that is being answered, now or when there is something to get."""

    replica_id: int
    asked: fetch_wire.FetchPartition
    api_version: int
    wait_ms: int
    answer: "asyncio.Future[fetch_wire.FetchResponse]"
    timer: asyncio.TimerHandle | None = None
    high_watermark: int = 0
    """What the replica knows, or would have been told when it began to wait."""


class RaftRequestHandler:
    """Answers in the wire's own words; what depends on a promise, when that is on the disk."""

    def __init__(
        self, client: KafkaRaftClient, channel: NetworkChannel, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._client = client
        self._channels = channel
        self._loop = loop
        self._waiting: dict[int, _Fetch] = {}
        self._refused = LimitedLog(loop.time, logger, logging.WARNING)
        client.on_change.append(self._look)

    # -- votes and leaders -----------------------------------------------------------------------------------

    def vote(
        self, request: vote_wire.VoteRequest, *, api_version: int
    ) -> "asyncio.Future[vote_wire.VoteResponse]":
        """Whether this node votes, or would vote, for a candidate."""
        self._check_cluster(request.cluster_id)
        asked = only_partition(request.topics)
        core = self._client.core
        said = vote_wire.ResponsePartitionData()
        answer: asyncio.Future[vote_wire.VoteResponse] = self._loop.create_future()

        def reply(granted: bool, epoch: int, leader_id: int) -> None:
            said.vote_granted, said.leader_epoch, said.leader_id = granted, epoch, leader_id
            _settle(
                answer,
                vote_wire.VoteResponse(
                    topics=[vote_wire.ResponseTopicData(METADATA_TOPIC, [said])],
                    node_endpoints=self._endpoints(vote_wire.NodeEndpoint, leader_id, api_version >= 1),
                ),
            )

        if not self._is_meant(request.voter_id, asked.voter_directory_id):
            said.error_code = ErrorCode.INVALID_VOTER_KEY
        elif asked.replica_epoch < core.epoch:
            said.error_code = ErrorCode.FENCED_LEADER_EPOCH
        if said.error_code:
            self._client.do(NOTHING, lambda: reply(False, core.epoch, self._leader_id()))
            return answer

        def heard(done: "asyncio.Future[VoteReply | None]") -> None:
            given = done.result()
            assert given is not None
            reply(given.granted, given.epoch, given.leader_id)

        message = vote_asked(core.node_id, asked)
        self._is_believed(message)
        self._client.hear(message).add_done_callback(heard)
        return answer

    def begin_quorum_epoch(
        self, request: begin_wire.BeginQuorumEpochRequest, *, api_version: int
    ) -> "asyncio.Future[begin_wire.BeginQuorumEpochResponse]":
        """A leader makes itself known."""
        self._check_cluster(request.cluster_id)
        asked = only_partition(request.topics)
        core = self._client.core
        said = begin_wire.ResponsePartitionData()
        if not self._is_meant(request.voter_id, asked.voter_directory_id):
            said.error_code = ErrorCode.INVALID_VOTER_KEY
        elif asked.leader_epoch < core.epoch:
            said.error_code = ErrorCode.FENCED_LEADER_EPOCH
        message = EpochBegan(core.node_id, asked.leader_epoch, asked.leader_id)
        if not said.error_code and self._is_believed(message):
            self._channels.learn_leader(asked.leader_id, request.leader_endpoints)

        def response() -> begin_wire.BeginQuorumEpochResponse:
            said.leader_id, said.leader_epoch = self._leader_id(), core.epoch
            return begin_wire.BeginQuorumEpochResponse(
                topics=[begin_wire.ResponseTopicData(METADATA_TOPIC, [said])],
                node_endpoints=self._endpoints(begin_wire.NodeEndpoint, said.leader_id, api_version >= 1),
            )

        return self._after(None if said.error_code else message, response)

    def end_quorum_epoch(
        self, request: end_wire.EndQuorumEpochRequest, *, api_version: int
    ) -> "asyncio.Future[end_wire.EndQuorumEpochResponse]":
        """A leader gives up."""
        self._check_cluster(request.cluster_id)
        asked = only_partition(request.topics)
        core = self._client.core
        said = end_wire.ResponsePartitionData()
        if asked.leader_epoch < core.epoch:
            said.error_code = ErrorCode.FENCED_LEADER_EPOCH
        message = epoch_ended(core.node_id, asked)
        if not said.error_code and self._is_believed(message):
            self._channels.learn_leader(asked.leader_id, request.leader_endpoints)

        def response() -> end_wire.EndQuorumEpochResponse:
            said.leader_id, said.leader_epoch = self._leader_id(), core.epoch
            return end_wire.EndQuorumEpochResponse(
                topics=[end_wire.ResponseTopicData(METADATA_TOPIC, [said])],
                node_endpoints=self._endpoints(end_wire.NodeEndpoint, said.leader_id, api_version >= 1),
            )

        return self._after(None if said.error_code else message, response)

    def _is_believed(self, message: VoteRequest | EpochBegan | EpochEnded) -> bool:
        """Whether the core will take a request in. The sender of one that it will not is told as a voter
        would be that is behind, which changes nothing for it."""
        reason = self._client.core.why_refused(message, self._client.now_ms())
        if reason is not None:
            sender = message.candidate_id if isinstance(message, VoteRequest) else message.leader_id
            self._refused.write(
                "refused %s of node %d for epoch %d: %s. Who may reach the controllers' listener decides "
                "over the cluster: let only its nodes",
                *(type(message).__name__, sender, message.epoch, reason),
            )
        return reason is None

    def _after(self, message: Any, response: Any) -> "asyncio.Future[Any]":
        """Answer when a message, if there is one, has been taken in and all before it is on the disk."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if message is None:
            self._client.do(NOTHING, lambda: _settle(answer, response()))
        else:
            self._client.hear(message).add_done_callback(lambda _: _settle(answer, response()))
        return answer

    # -- the log ---------------------------------------------------------------------------------------------

    def fetch(
        self, request: fetch_wire.FetchRequest, *, api_version: int
    ) -> "asyncio.Future[fetch_wire.FetchResponse]":
        """Records behind a replica's log, now or when there are some."""
        if request.cluster_id is not None:
            self._check_cluster(request.cluster_id)
        asked = _fetched_partition(request)
        answer: asyncio.Future[fetch_wire.FetchResponse] = self._loop.create_future()
        fetch = _Fetch(_replica_of(request), asked, api_version, request.max_wait_ms, answer)
        self._client.do(NOTHING, lambda: self._fetch(fetch))
        return answer

    def _fetch(self, fetch: _Fetch) -> None:
        asked = fetch.asked
        self._end_waiting(fetch.replica_id)
        data = self._refusal(asked) or self._elsewhere(asked)
        if data is None:
            client = self._client
            before = client.high_watermark
            if fetch.replica_id >= 0:
                effects = client.core.fetched(
                    fetch.replica_id, asked.replica_directory_id, asked.fetch_offset, client.now_ms()
                )
                client.do(effects)
                self._note_commits(fetch)
            known = min(asked.high_watermark, before)
            nothing = asked.fetch_offset >= client.next_offset and known >= client.high_watermark
            if nothing and fetch.wait_ms > 0:
                fetch.high_watermark = known
                self._waiting[fetch.replica_id] = fetch
                fetch.timer = self._loop.call_later(fetch.wait_ms / 1000, self._end_waiting, fetch.replica_id)
                return
            data = self._records(asked)
        self._reply(fetch, data)

    def _note_commits(self, fetch: _Fetch) -> None:
        """From v18 on a replica tells what it knows to be committed (KIP-1166)."""
        leader_state = self._client.core.leader_state
        if fetch.api_version >= fetch_wire.HIGH_WATERMARK_SINCE and leader_state is not None:
            replica = leader_state.of(fetch.replica_id)
            replica.committed_to = min(fetch.asked.high_watermark, fetch.asked.fetch_offset)

    def _look(self) -> None:
        """Answer those whose wait has come to something."""
        client = self._client
        for replica_id, waiting in list(self._waiting.items()):
            if (
                not client.is_leader
                or client.core.epoch != waiting.asked.current_leader_epoch
                or waiting.asked.fetch_offset < client.next_offset
                or waiting.high_watermark < client.high_watermark
            ):
                self._end_waiting(replica_id)

    def _end_waiting(self, replica_id: int) -> None:
        """Give a replica what there is; one that asks again has given up its earlier request."""
        waiting = self._waiting.pop(replica_id, None)
        if waiting is not None:
            assert waiting.timer is not None
            waiting.timer.cancel()
            self._reply(waiting, self._refusal(waiting.asked) or self._records(waiting.asked))

    def close(self) -> None:
        for replica_id in list(self._waiting):
            self._end_waiting(replica_id)

    def _refusal(self, asked: fetch_wire.FetchPartition) -> fetch_wire.PartitionData | None:
        """Not the leader, or not of the epoch that the replica believes in."""
        core = self._client.core
        code = self._epoch_error(asked.current_leader_epoch)
        if code is ErrorCode.NONE:
            return None
        return fetch_wire.PartitionData(
            error_code=code,
            high_watermark=-1,
            current_leader=fetch_wire.LeaderIdAndEpoch(self._leader_id(), core.epoch),
        )

    def _epoch_error(self, epoch: int) -> ErrorCode:
        core = self._client.core
        if epoch < core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > core.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self._client.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _elsewhere(self, asked: fetch_wire.FetchPartition) -> fetch_wire.PartitionData | None:
        """Where a replica must go on whose log does not continue in this one."""
        log = self._client.log
        if log.needs_snapshot(asked.fetch_offset, asked.last_fetched_epoch):
            latest = log.snapshots[-1]
            return self._data(snapshot_id=fetch_wire.SnapshotId(latest.end_offset, latest.epoch))
        epoch, end = self._end_of(asked.last_fetched_epoch)
        if epoch != asked.last_fetched_epoch or end < asked.fetch_offset:
            return self._data(diverging_epoch=fetch_wire.EpochEndOffset(epoch, end))
        return None

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one that the log or the snapshot before it has, and where it ends."""
        log = self._client.log
        if epoch > log.end.epoch:
            return log.end.epoch, log.log.log_end_offset
        found, end = log.log.leader_epoch_cache.end_offset_for(epoch, log.log.log_end_offset)
        return (found, end) if found >= 0 else (epoch, log.log.log_start_offset)

    def _records(self, asked: fetch_wire.FetchPartition) -> fetch_wire.PartitionData:
        log = self._client.log.log
        if asked.fetch_offset >= log.log_end_offset:
            return self._data(records=b"")
        return self._data(records=log.read(asked.fetch_offset, max_bytes=asked.partition_max_bytes).chunk)

    def _data(self, **fields: Any) -> fetch_wire.PartitionData:
        client = self._client
        known = client.core.high_watermark
        return fetch_wire.PartitionData(
            high_watermark=-1 if known is None else known,
            log_start_offset=client.log.log.log_start_offset,
            current_leader=fetch_wire.LeaderIdAndEpoch(self._leader_id(), client.core.epoch),
            **fields,
        )

    def _reply(self, fetch: _Fetch, data: fetch_wire.PartitionData) -> None:
        leader = data.current_leader
        leader_id = NO_LEADER if leader is None else leader.leader_id
        response = fetch_wire.FetchResponse(
            responses=[fetch_wire.FetchableTopicResponse(METADATA_TOPIC, METADATA_TOPIC_ID, [data])],
            node_endpoints=self._endpoints(
                fetch_wire.NodeEndpoint, leader_id, fetch.api_version >= fetch_wire.CURRENT_LEADER_SINCE
            ),
        )
        _settle(fetch.answer, response)

    # -- snapshots -------------------------------------------------------------------------------------------

    def fetch_snapshot(
        self, request: snapshot_wire.FetchSnapshotRequest, *, api_version: int
    ) -> snapshot_wire.FetchSnapshotResponse:
        """A piece of a snapshot's file."""
        if request.cluster_id is not None:
            self._check_cluster(request.cluster_id)
        found = [(topic.name, part) for topic in request.topics for part in topic.partitions]
        if len(found) != 1 or found[0][0] != METADATA_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the quorum has one log, {METADATA_TOPIC}-0")
        asked = found[0][1]
        core = self._client.core
        part = snapshot_wire.ResponsePartitionSnapshot(
            snapshot_id=asked.snapshot_id,
            current_leader=snapshot_wire.LeaderIdAndEpoch(self._leader_id(), core.epoch),
        )
        part.error_code = self._epoch_error(asked.current_leader_epoch)
        if not part.error_code:
            self._read_snapshot(asked, request.max_bytes, part)
        if not part.error_code and core.leader_state is not None:
            core.leader_state.of(request.replica_id).fetched_ms = self._client.now_ms()
        return snapshot_wire.FetchSnapshotResponse(
            topics=[snapshot_wire.ResponseTopicSnapshot(METADATA_TOPIC, [part])],
            node_endpoints=self._endpoints(snapshot_wire.NodeEndpoint, self._leader_id(), api_version >= 1),
        )

    def _read_snapshot(
        self,
        asked: snapshot_wire.RequestPartitionSnapshot,
        max_bytes: int,
        part: snapshot_wire.ResponsePartitionSnapshot,
    ) -> None:
        log = self._client.log
        snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        path = log.path_of(snapshot_id)
        if snapshot_id not in log.snapshots or not log.disk.exists(path):
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            return
        file = log.disk.open(path, writable=False)
        try:
            part.size, part.position = file.size(), asked.position
            if not 0 <= asked.position < part.size:
                part.error_code = ErrorCode.POSITION_OUT_OF_RANGE
                return
            part.unaligned_records = file.read(asked.position, min(max_bytes, part.size - asked.position))
        finally:
            file.close()

    # -- shared ----------------------------------------------------------------------------------------------

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._channels.cluster_id:
            raise ApiError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"this is a node of cluster {self._channels.cluster_id}, not of {cluster_id}",
            )

    def _is_meant(self, voter_id: int, directory_id: bytes) -> bool:
        """Whether a request is for this very replica; one that does not say so is."""
        core = self._client.core
        return voter_id in (-1, core.node_id) and directory_id in (NO_DIRECTORY, core.directory_id)

    def _leader_id(self) -> int:
        """The leader as others should know it: one that has resigned is none."""
        core = self._client.core
        return NO_LEADER if core.leader_id == core.node_id and not core.is_leader else core.leader_id

    def _endpoints(self, kind: type[Any], leader_id: int, wanted: bool) -> list[Any]:
        """Where the leader listens, in versions that can tell it."""
        known = wanted and leader_id >= 0
        address = self._channels.public_address_of(leader_id) if known else None
        return [] if address is None else [kind(leader_id, *address)]


def _fetched_partition(request: fetch_wire.FetchRequest) -> fetch_wire.FetchPartition:
    found = [(topic, part) for topic in request.topics for part in topic.partitions]
    named = len(found) == 1 and (
        found[0][0].topic == METADATA_TOPIC or found[0][0].topic_id == METADATA_TOPIC_ID
    )
    if not named or found[0][1].partition != 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a controller gives {METADATA_TOPIC}-0 and nothing else")
    asked: fetch_wire.FetchPartition = found[0][1]
    if asked.fetch_offset < 0 or asked.last_fetched_epoch < 0 or asked.current_leader_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a fetch of the metadata log tells its offset and epochs")
    return asked


def _replica_of(request: fetch_wire.FetchRequest) -> int:
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def _settle(answer: "asyncio.Future[Any]", response: Any) -> None:
    if not answer.done():
        answer.set_result(response)
