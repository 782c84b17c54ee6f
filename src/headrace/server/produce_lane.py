"""The short way of plain Produce requests: all that one read brought for a partition is served as one run.

Producers that do not wait for each reply have several requests in every read, one behind the other and nearly
alike. `records.produce_run` finds such a run, the partition appends it with one write, and the replies are
copies of one form with the offsets filled in. Nothing is decoded into objects.

Whatever is not plain, and whatever the partition does not take as it is, is left in the buffer for the
handler (`handlers/produce.py`), which is the one that knows what to refuse and why. So the lane must never
take what the handler would refuse. What it took may still have to wait for other replicas, and fail there:
then every request of the run is answered by itself.
"""

from __future__ import annotations

import struct
from asyncio import Future
from typing import TYPE_CHECKING, Final

from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.records.kernel_choice import kernels
from headrace.records.produce_run import IDS_FROM, RunHead, RunRow
from headrace.replication.partition import ALL_IN_SYNC, Partition
from headrace.server.produce_waiting import Unsafe, when_safe
from headrace.wire.apis import API
from headrace.wire.codec import writer
from headrace.wire.framing import response_frame
from headrace.wire.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from headrace.server.context import Peer
    from headrace.server.parts import Parts
    from headrace.transport.connection import Connection, ReplySlot
    from headrace.transport.frame_reader import FrameReader

PRODUCE: Final = 0
# Where a frame, with its length, has the number of the request kind.
_KEY_AT: Final = 4
# A frame that is shorter has no whole header.
_HEAD_BYTES: Final = 14
# Partitions whose forms are kept: some 200 bytes each.
_TARGETS_MAX: Final = 50_000

_ID: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_ID_AT: Final = 4
# Numbers to find a form's blanks by.
_SOME_OFFSET: Final = 0x1122334455667788
_SOME_START: Final = 0x0817263544536271


class _Target:
    """A partition as requests of one version name it, and the form of the replies about it."""

    __slots__ = ("_form", "_offset_at", "_size", "_start_at", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, version: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        answer = PartitionProduceResponse(topic_partition.partition, 0, _SOME_OFFSET, -1, _SOME_START)
        form = self.reply(version, 0, answer)
        self._form = form
        self._size = len(form)
        self._offset_at = form.index(_OFFSET.pack(_SOME_OFFSET))
        self._start_at = form.find(_OFFSET.pack(_SOME_START))  # only from v5 on

    def reply(self, version: int, correlation_id: int, answer: PartitionProduceResponse) -> bytearray:
        """The frame for one row, whatever became of it."""
        topic = TopicProduceResponse(self.topic_partition.topic, self.topic_id, [answer])
        body = writer(ProduceResponse, version)(ProduceResponse([topic]))
        return bytearray().join(response_frame(API[PRODUCE], version, correlation_id, body))  # type: ignore[arg-type]

    def replies(self, rows: list[RunRow], offset: int, log_start_offset: int) -> bytearray:
        """One frame for each row, the first of which begins at `offset`."""
        if self._start_at >= 0:
            _OFFSET.pack_into(self._form, self._start_at, log_start_offset)
        frames = self._form * len(rows)
        at = 0
        for row in rows:
            _ID.pack_into(frames, at + _ID_AT, row[1])
            _OFFSET.pack_into(frames, at + self._offset_at, offset)
            offset += row[4]
            at += self._size
        return frames


class ProduceLane:
    """Serves runs of a listener's connections: a `transport.Listener` gets its `take` as `on_frames`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._targets: dict[tuple[int, bytes, int], _Target] = {}

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
            run, rows = kernels.produce_run(data, at, reader.end)
            if not run.requests or run.frame_bytes_max > reader.frame_bytes_max:
                break
            taken = self._serve(connection, buffer.view, run, rows)
            if taken < run.requests:
                if not taken:
                    return run.requests
                reader.pass_over(rows[taken][0], run.frame_bytes_max)
                break
            reader.pass_over(run.end, run.frame_bytes_max)
        return 1

    def _serve(self, connection: Connection, view: memoryview, run: RunHead, rows: list[RunRow]) -> int:
        """Append a run and answer it; how many of its requests, from the first on."""
        parts = self._parts
        topic = bytes(view[run.topic_at : run.topic_at + run.topic_size])
        target = self._targets.get((run.version, topic, run.partition))
        if target is None:
            target = self._find(run, topic)
            if target is None:
                return 0
        partition = parts.replicas.get(target.topic_partition)
        if partition is None or partition.topic_id != target.topic_id != NO_TOPIC_ID:
            return 0
        log = partition.log
        if log is None:
            return 0
        first_offset = log.log_end_offset
        taken = partition.append_run(view, run, rows, now_ms=parts.clock.now_ms())
        if taken:
            if taken < run.requests:
                rows = rows[:taken]
            if run.acks != ALL_IN_SYNC or partition.replicated_to(log.log_end_offset):
                connection.send((target.replies(rows, first_offset, log.log_start_offset),))
            else:
                self._reply_when_safe(connection.begin_reply(), target, partition, run, rows, first_offset)
        return taken

    def _reply_when_safe(
        self,
        slot: ReplySlot,
        target: _Target,
        partition: Partition,
        run: RunHead,
        rows: list[RunRow],
        offset: int,
    ) -> None:
        """Answer when the in-sync replicas have the run, or when that has become impossible."""
        log = partition.log
        start_offset = -1 if log is None else log.log_start_offset
        end_offset = offset + sum(row[4] for row in rows)
        answer = PartitionProduceResponse(run.partition, 0, offset, -1, start_offset)
        whole = Unsafe(partition, answer, replicated_to=end_offset, durable_to=0)

        def reply(_: object) -> None:
            if answer.error_code:
                slot.send(_replies_one_by_one(target, run, rows, whole))
            else:
                slot.send((target.replies(rows, offset, start_offset),))

        waiting = when_safe(self._parts, run.timeout_ms, [whole], answer)
        if isinstance(waiting, Future):
            waiting.add_done_callback(reply)
        else:
            reply(waiting)

    def _find(self, run: RunHead, topic: bytes) -> _Target | None:
        """Look at a name or id for the first time; None where clients cannot write there."""
        topic_id = NO_TOPIC_ID
        if run.version >= IDS_FROM:
            topic_id = TopicId(topic)
            image = self._parts.image.topics_by_id.get(topic_id)
            name = "" if image is None else image.name
        else:
            name = topic.decode()
        topic_partition = TopicPartition(name, run.partition)
        if name in INTERNAL_TOPICS or self._parts.replicas.get(topic_partition) is None:
            return None
        if len(self._targets) >= _TARGETS_MAX:
            self._targets.clear()
        target = _Target(topic_partition, topic_id, run.version)
        self._targets[run.version, topic, run.partition] = target
        return target


def _replies_one_by_one(target: _Target, run: RunHead, rows: list[RunRow], whole: Unsafe) -> list[bytearray]:
    """A run that did not become safe as a whole: its first requests may have."""
    replies = []
    offset = whole.result.base_offset
    for row in rows:
        answer = PartitionProduceResponse(run.partition, 0, offset, -1, whole.result.log_start_offset)
        offset += row[4]
        part = Unsafe(whole.partition, answer, replicated_to=offset, durable_to=0)
        part.leader_epoch = whole.leader_epoch
        if not part.settle():
            answer.error_code = whole.result.error_code
        replies.append(target.reply(run.version, row[1], answer))
    return replies
