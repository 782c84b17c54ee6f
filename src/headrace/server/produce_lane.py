"""The short way of plain Produce requests: all that one read brought for a partition is served as one run.

Producers that do not wait for each reply have several requests in every read, one behind the other and nearly
alike. `records.kernels.produce` finds such a run, the partition appends it with one write, and the replies
are copies of one form with the offsets filled in. Nothing is decoded into objects.

Whatever is not plain, and whatever the partition does not take as it is, is left in the buffer for the
handler (`handlers/produce.py`), which is the one that knows what to refuse and why. So the lane must never
take what the handler would refuse. What it took may still have to wait for other replicas, and fail there:
then every request of the run is answered by itself.

Where produced bytes or the time of requests have quotas, a run of a client that one binds is measured as a
whole, and its last reply says for how long the client must wait.
"""

from __future__ import annotations

import struct
from asyncio import Future
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.base.chunks import Buffer
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.base.large_memory import LARGE_BYTES
from headrace.records.kernels.choice import kernels
from headrace.records.kernels.produce import RunHead, RunRow
from headrace.replication.partition import ALL_IN_SYNC, Partition
from headrace.server.authorizer import Operation, Resource, is_configured
from headrace.server.delayed_produce import DelayedProduce, complete_or_watch
from headrace.telemetry.metrics.request_metrics import SAMPLED_DATA, RequestTimes
from headrace.transport.frame_reader import LENGTH_BYTES
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import writer
from headrace.wire.framing import response_frame
from headrace.wire.schemas.produce import (
    TOPIC_ID_SINCE,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headrace.server.context import Peer
    from headrace.server.parts import Parts
    from headrace.transport.connection import Connection
    from headrace.transport.frame_reader import FrameReader

# Where a frame, with its length, has the number of the request kind.
_KEY_AT: Final = 4
# A frame that is shorter has no whole header.
_HEAD_BYTES: Final = 14
# Partitions whose forms are kept: some 200 bytes each.
_TARGETS_MAX: Final = 50_000

_VERSIONS: Final = range(API[ApiKey.PRODUCE].max_version + 1)

_ID: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_SHORT: Final = struct.Struct(">h")
_ID_AT: Final = 4
# Where a frame, with its length, has the client's id, and the length of that.
_CLIENT_AT: Final = 12
# Numbers to find a form's blanks by.
_SOME_OFFSET: Final = 0x1122334455667788
_SOME_START: Final = 0x0817263544536271
_SOME_THROTTLE: Final = 0x41526374


Meter: TypeAlias = Callable[[int], int]
"""Told a run's bytes, it makes the client wait if it must, and gives the milliseconds."""


class _Target:
    """A partition as requests of one version name it, and the form of the replies about it."""

    __slots__ = ("_form", "_offset_at", "_size", "_start_at", "_throttle_at", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, version: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        answer = PartitionProduceResponse(topic_partition.partition, 0, _SOME_OFFSET, -1, _SOME_START)
        form = self.reply(version, 0, answer, throttle_ms=_SOME_THROTTLE)
        self._form = form
        self._size = len(form)
        self._offset_at = form.index(_OFFSET.pack(_SOME_OFFSET))
        self._start_at = form.find(_OFFSET.pack(_SOME_START))  # only from v5 on
        self._throttle_at = form.index(_ID.pack(_SOME_THROTTLE))
        _ID.pack_into(form, self._throttle_at, 0)

    def reply(
        self, version: int, correlation_id: int, answer: PartitionProduceResponse, *, throttle_ms: int = 0
    ) -> bytearray:
        """The frame for one row, whatever became of it."""
        topic = TopicProduceResponse(self.topic_partition.topic, self.topic_id, [answer])
        body = writer(ProduceResponse, version)(ProduceResponse([topic], throttle_ms))
        return bytearray().join(response_frame(API[ApiKey.PRODUCE], version, correlation_id, body))  # type: ignore[arg-type]

    def replies(
        self, rows: list[RunRow], offset: int, log_start_offset: int, throttle_ms: int = 0
    ) -> bytearray:
        """One frame for each row, the first of which begins at `offset`; the last tells the time to wait."""
        if self._start_at >= 0:
            _OFFSET.pack_into(self._form, self._start_at, log_start_offset)
        frames = self._form * len(rows)
        at = 0
        for row in rows:
            _ID.pack_into(frames, at + _ID_AT, row[1])
            _OFFSET.pack_into(frames, at + self._offset_at, offset)
            offset += row[4]
            at += self._size
        if throttle_ms:
            _ID.pack_into(frames, at - self._size + self._throttle_at, throttle_ms)
        return frames


class ProduceLane:
    """Serves runs of a listener's connections: a `transport.Listener` gets its `take` as `on_frames`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._quotas = parts.quotas
        self._targets: dict[tuple[int, bytes, int], _Target] = {}
        self._runs = 0
        metrics = parts.request_log.metrics
        kind = API[ApiKey.PRODUCE].name
        self._metrics = [metrics.of(kind, version) for version in _VERSIONS]
        self._authorizer = parts.authorizer if is_configured(parts.authorizer) else None

    def take(self, connection: Connection, reader: FrameReader) -> int:
        """Serve the runs at the start of what was read; how many frames behind them are not for the lane."""
        peer: Peer = connection.attached
        while peer.authenticated:
            buffer, at = reader.buffer, reader.start
            if buffer is None or reader.end - at < _HEAD_BYTES:
                break
            data = buffer.data
            if data[at + _KEY_AT] or data[at + _KEY_AT + 1]:
                break
            end = reader.end
            if end - at > LARGE_BYTES:
                end = at + LARGE_BYTES  # what is larger than that is for the handler, which has it checked
            run, rows = kernels.produce_run(data, at, end)  # type: ignore[arg-type] # a mapping is one, too
            if not run.requests or run.frame_bytes_max > reader.frame_bytes_max:
                break
            peer.last_request = None
            self._runs += 1
            times = None if self._runs & SAMPLED_DATA else self._look_at(connection, run)
            meter: Meter | None = None
            if self._quotas.limits_produce:
                client_id = _client_id(data, rows)  # type: ignore[arg-type] # a mapping is one, too
                if client_id is None:
                    break
                meter = self._quotas.lane_meter(peer, client_id)
            taken = self._serve(connection, buffer.view, run, rows, meter, times)
            self._metrics[run.version].count += taken
            if taken < run.requests:
                if not taken:
                    return run.requests
                reader.pass_over(rows[taken][0], run.frame_bytes_max)
                break
            reader.pass_over(run.end, run.frame_bytes_max)
            if meter is not None:
                break  # its client may have to wait
        return 1

    def _look_at(self, connection: Connection, run: RunHead) -> RequestTimes:
        kind, now_ns = self._metrics[run.version].kind, self._parts.clock.monotonic_ns
        return RequestTimes(kind, now_ns, read_ns=connection.read_at_ns, request_bytes=run.frame_bytes_max)

    def _serve(
        self,
        connection: Connection,
        view: memoryview,
        run: RunHead,
        rows: list[RunRow],
        meter: Meter | None,
        times: RequestTimes | None,
    ) -> int:
        """Append a run and answer it; how many of its requests, from the first on."""
        parts = self._parts
        topic = bytes(view[run.topic_at : run.topic_at + run.topic_size])
        target = self._targets.get((run.version, topic, run.partition))
        if target is None:
            target = self._find(run, topic)
            if target is None:
                return 0
        partition = parts.replica_manager.get(target.topic_partition)
        if partition is None or partition.topic_id != target.topic_id != NO_TOPIC_ID:
            return 0
        log = partition.log
        if log is None or (self._authorizer is not None and not self._may_write(connection, partition)):
            return 0
        first_offset = log.log_end_offset
        taken = partition.append_run(view, run, rows, now_ms=parts.clock.now_ms())
        if taken:
            throttle_ms = 0
            if meter is not None:
                end = run.end if taken == run.requests else rows[taken][0]
                throttle_ms = meter(end - rows[0][0] - taken * LENGTH_BYTES)
            if taken < run.requests:
                rows = rows[:taken]
            if run.acks != ALL_IN_SYNC or partition.replicated_to(log.log_end_offset):
                replies = target.replies(rows, first_offset, log.log_start_offset, throttle_ms)
                if times is not None:
                    times.requests = taken
                    times.replied(throttle_ms)
                connection.send((replies,), times)
            else:
                self._reply_when_replicated(
                    connection, target, partition, run, rows, first_offset, throttle_ms, times
                )
        return taken

    def _may_write(self, connection: Connection, partition: Partition) -> bool:
        """Asked for every run; whom it refuses is told so by the handler."""
        assert self._authorizer is not None
        peer: Peer = connection.attached
        return self._authorizer.allows(
            peer.principal, peer.host, Operation.WRITE, Resource.TOPIC, partition.topic_partition.topic
        )

    def _reply_when_replicated(
        self,
        connection: Connection,
        target: _Target,
        partition: Partition,
        run: RunHead,
        rows: list[RunRow],
        offset: int,
        throttle_ms: int,
        times: RequestTimes | None,
    ) -> None:
        """Answer when the in-sync replicas have the run, or when that has become impossible."""
        slot = connection.begin_reply()
        if times is not None:
            times.requests = len(rows)
            times.pause()
        log = partition.log
        start_offset = -1 if log is None else log.log_start_offset
        end_offset = offset + sum(row[4] for row in rows)
        answer = PartitionProduceResponse(run.partition, 0, offset, -1, start_offset)
        whole = DelayedProduce(partition, answer, replicated_to=end_offset, durable_to=0)

        def reply(_: object) -> None:
            if times is not None:
                times.replied(throttle_ms)
            if answer.error_code:
                slot.send(_replies_one_by_one(target, run, rows, whole), times)
            else:
                slot.send((target.replies(rows, offset, start_offset, throttle_ms),), times)

        waiting = complete_or_watch(self._parts, run.timeout_ms, [whole], answer, who=connection.attached)
        if isinstance(waiting, Future):
            waiting.add_done_callback(reply)
        else:
            reply(waiting)

    def _find(self, run: RunHead, topic: bytes) -> _Target | None:
        """Look at a name or id for the first time; None where clients cannot write there."""
        topic_id = NO_TOPIC_ID
        if run.version >= TOPIC_ID_SINCE:
            topic_id = TopicId(topic)
            image = self._parts.image.topics_by_id.get(topic_id)
            name = "" if image is None else image.name
        else:
            name = topic.decode()
        topic_partition = TopicPartition(name, run.partition)
        if name in INTERNAL_TOPICS or self._parts.replica_manager.get(topic_partition) is None:
            return None
        if len(self._targets) >= _TARGETS_MAX:
            self._targets.clear()
        target = _Target(topic_partition, topic_id, run.version)
        self._targets[run.version, topic, run.partition] = target
        return target


def _client_id(data: Buffer, rows: list[RunRow]) -> str | None:
    """Who sent a run; None where not all of it has the same id."""
    at = rows[0][0] + _CLIENT_AT
    size = max(_SHORT.unpack_from(data, at)[0], 0) + _SHORT.size
    name = bytes(data[at : at + size])
    for row in rows:
        at = row[0] + _CLIENT_AT
        if data[at : at + size] != name:
            return None
    return name[_SHORT.size :].decode()


def _replies_one_by_one(
    target: _Target, run: RunHead, rows: list[RunRow], whole: DelayedProduce
) -> list[bytearray]:
    """A run that did not become safe as a whole: its first requests may have."""
    replies = []
    offset = whole.result.base_offset
    for row in rows:
        answer = PartitionProduceResponse(run.partition, 0, offset, -1, whole.result.log_start_offset)
        offset += row[4]
        part = DelayedProduce(whole.partition, answer, replicated_to=offset, durable_to=0)
        part.leader_epoch = whole.leader_epoch
        if not part.try_complete():
            answer.error_code = whole.result.error_code
        replies.append(target.reply(run.version, row[1], answer))
    return replies
