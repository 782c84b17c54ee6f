"""Following the quorum's leader: fetch what comes after this node's log, cut what the leader does not have,
load a snapshot where the leader has nothing older (KIP-595, KIP-630).

One fetch is under way at a time. Its offset is a promise: everything below it is on this node's disk. The
leader answers when it has something or when the wait is over; each answer says how far it has committed. A
voter fetches from the leader it knows. A node that does not vote asks around until somebody names the leader.

A leader that refuses the connection is gone, and the core is told at once; one that is only silent is left to
the core's patience.
"""

import asyncio
import contextlib
import logging
from typing import Any, Final

from headrace.base.chunks import Buffer, FileSlice
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.futures import ignore
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.core import Role
from headrace.raft.drivers.network_channel import NetworkChannel
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import NOBODY, NOTHING
from headrace.raft.metadata_log import METADATA_TOPIC_ID
from headrace.raft.snapshots import SnapshotId, decode_snapshot
from headrace.transport.node_client import NodeClient
from headrace.wire.schemas import fetch, fetch_snapshot

logger = logging.getLogger(__name__)

WAIT_MS: Final = 500
"""How long a leader may hold back an answer that has nothing new."""

PAUSE_MS: Final = (20, 500)
"""Before asking again after an answer that did not help; it doubles."""


BEHIND_MS: Final = 20
"""Before each fetch while what was fetched already is still being handed over."""


class RaftFetcher:
    """One node's fetching, as a task. The bounds are bytes of one answer, of the log and of a snapshot."""

    def __init__(
        self,
        client: KafkaRaftClient,
        channel: NetworkChannel,
        *,
        loop: asyncio.AbstractEventLoop,
        fetch_bytes: int,
        snapshot_bytes: int,
    ) -> None:
        self._client = client
        self._channels = channel
        self._loop = loop
        self._fetch_bytes = fetch_bytes
        self._snapshot_bytes = snapshot_bytes
        self._attempt = 0
        self._unhelpful = 0
        self._seen: tuple[object, ...] = ()
        self._changed: asyncio.Future[None] = loop.create_future()
        self._task: asyncio.Task[None] | None = None
        client.on_change.append(self._look)

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """A node that cannot follow must not look as if it did."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            logger.critical("the metadata log cannot be followed any more", exc_info=error)
            self._client.fail(error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _look(self) -> None:
        """Whoever is fetched from, or whether at all, may have changed."""
        core = self._client.core
        seen = (core.epoch, core.leader_id, core.role, self._client.running)
        if seen != self._seen:
            self._seen = seen
            self._attempt = self._unhelpful = 0
            if not self._changed.done():
                self._changed.set_result(None)

    async def _run(self) -> None:
        while self._client.running:
            self._changed = self._loop.create_future()
            peer = self._whom()
            if peer is None:
                await self._changed
                continue
            if self._client.is_behind:
                # It says so, and would be answered at once as long as it does.
                await asyncio.wait([self._changed], timeout=BEHIND_MS / 1000)
                if self._changed.done():
                    continue
            helpful = await self._fetch_from(peer)
            if helpful:
                self._unhelpful = 0
            else:
                self._attempt += 1
                self._unhelpful += 1
                pause_ms = min(PAUSE_MS[0] << min(self._unhelpful - 1, 10), PAUSE_MS[1])
                await asyncio.wait([self._changed], timeout=pause_ms / 1000)

    def _whom(self) -> NodeClient | None:
        core = self._client.core
        if core.seeks_leader:
            return self._channels.to_anyone(self._attempt)
        return self._channels.to_node(core.leader_id) if core.role is Role.FOLLOWER else None

    async def _fetch_from(self, peer: NodeClient) -> bool:
        """One exchange; False where it brought nothing forward."""
        client = self._client
        epoch = client.core.epoch
        asked = peer.send(self._request(), timeout_ms=WAIT_MS + self._channels.request_ms)
        asked.add_done_callback(ignore)  # this task may end, or lose interest, before it is answered
        await asyncio.wait([asked, self._changed], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            return True  # somebody else leads by now
        try:
            response = asked.result()
            return await self._take(response, epoch, peer)
        except ConnectionRefusedError:
            if peer is self._leader():
                client.core.leader_gone(client.now_ms())
                client.do(NOTHING)
                self._channels.forget_learned(client.core.leader_id)
        except (ConnectionError, InvalidBytesError, ApiError) as error:
            logger.debug("fetching the metadata log failed: %s", error)
        return False

    def _leader(self) -> NodeClient | None:
        core = self._client.core
        return self._channels.to_node(core.leader_id) if core.role is Role.FOLLOWER else None

    def _request(self) -> fetch.FetchRequest:
        core, log = self._client.core, self._client.log
        end = log.end
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=core.epoch,
            fetch_offset=end.offset,
            last_fetched_epoch=end.epoch,
            log_start_offset=log.log.log_start_offset,
            partition_max_bytes=self._fetch_bytes,
            replica_directory_id=core.directory_id,
            high_watermark=self._client.known_high_watermark,
        )
        return fetch.FetchRequest(
            cluster_id=self._channels.cluster_id,
            replica_state=fetch.ReplicaState(core.node_id, -1),
            max_wait_ms=WAIT_MS,
            max_bytes=self._fetch_bytes,
            topics=[fetch.FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])],
        )

    async def _take(self, response: fetch.FetchResponse, epoch: int, peer: NodeClient) -> bool:
        """What an answer says, first of the leader, then of the log."""
        client = self._client
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), "the quorum refuses to be followed by this node")
        data = response.responses[0].partitions[0]
        self._channels.learn(response.node_endpoints)
        leader = data.current_leader
        if leader is not None:
            sender = client.core.leader_id if peer is self._leader() else NOBODY
            client.do(
                client.core.learn(leader.leader_epoch, leader.leader_id, client.now_ms(), sender=sender)
            )
        if data.error_code or client.core.epoch != epoch or client.core.role is not Role.FOLLOWER:
            return client.core.epoch != epoch
        if peer is not self._leader():
            return True  # now it is known whom to ask
        if data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
            self._heard(0)
            await self._cut(data.diverging_epoch)
        elif data.snapshot_id is not None and data.snapshot_id.end_offset >= 0:
            self._heard(0)
            await self._load(SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch), peer, epoch)
        else:
            self._heard(data.high_watermark)
            records = _joined(data.records)
            if records:
                await client.append_fetched(records)
            client.caught_up(data.high_watermark)
        return True

    def _heard(self, high_watermark: int) -> None:
        client = self._client
        client.do(client.core.heard_leader(high_watermark, client.now_ms()))

    async def _cut(self, diverging: fetch.EpochEndOffset) -> None:
        """Keep what both logs can share: up to the end of the leader's epoch, in either log."""
        log = self._client.log.log
        epoch, end = log.leader_epoch_cache.end_offset_for(diverging.epoch, log.log_end_offset)
        if epoch < 0:
            end = diverging.end_offset
        elif epoch == diverging.epoch:
            end = min(end, diverging.end_offset)
        end = min(end, log.log_end_offset)
        logger.info("the metadata log is cut from offset %d to %d", log.log_end_offset, end)
        await self._client.truncate(end)

    async def _load(self, snapshot_id: SnapshotId, peer: NodeClient, epoch: int) -> None:
        """Fetch a snapshot piece by piece, and begin anew with it."""
        client = self._client
        pieces: list[bytes] = []
        position = 0
        while True:
            response = await peer.send(
                self._snapshot_request(snapshot_id, position, epoch), timeout_ms=self._channels.request_ms
            )
            part = response.topics[0].partitions[0] if not response.error_code else None
            code = response.error_code if part is None else part.error_code
            if part is None or code:
                raise ApiError(ErrorCode(code), f"the leader does not give snapshot {snapshot_id}")
            if client.core.epoch != epoch or client.core.role is not Role.FOLLOWER:
                return
            self._heard(0)
            piece = _joined(part.unaligned_records)
            pieces.append(piece)
            position += len(piece)
            if position >= part.size or not piece:
                break
        data = b"".join(pieces)
        logger.info("the metadata log begins anew with snapshot %s", snapshot_id.file_name)
        await client.install(decode_snapshot(snapshot_id, data), data)

    def _snapshot_request(
        self, snapshot_id: SnapshotId, position: int, epoch: int
    ) -> fetch_snapshot.FetchSnapshotRequest:
        core = self._client.core
        partition = fetch_snapshot.RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=epoch,
            snapshot_id=fetch_snapshot.SnapshotId(*snapshot_id),
            position=position,
            replica_directory_id=core.directory_id,
        )
        return fetch_snapshot.FetchSnapshotRequest(
            self._channels.cluster_id,
            core.node_id,
            self._snapshot_bytes,
            [fetch_snapshot.RequestTopicSnapshot(METADATA_TOPIC, [partition])],
        )


def _joined(records: Any) -> bytes:
    """Records as one piece of bytes, however the response holds them."""
    if records is None:
        return b""
    chunks: list[Buffer | FileSlice] = [records] if isinstance(records, Buffer) else list(records)
    return b"".join(chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks)
