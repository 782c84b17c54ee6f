"""The quorum's member on this node: it gives the raft core time and durable bytes, and the records it
commits to others.

Appending is group commit. Records go to the log's end at once; while a sync runs in a thread, further
appends gather behind it, and one sync makes all of them durable. Only then are they committed, handed to
the subscribers in order, and their futures answered. Nobody ever sees a record that a crash could take
back.

At the start a snapshot and the log behind it are handed over in the same way, after the node has been
elected: what was written by an earlier epoch is committed by the first record of the new one.

A disk that fails takes the node out: it resigns, what waits is refused with NOT_CONTROLLER, and
`on_failure` is told. A disk that is full refuses only the append.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.append import Origin
from headrace.log.flush import Flush
from headrace.raft.core import Effects, EpochStart, LogEnd, RaftCore
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.quorum_state import FILE_NAME, encode_state
from headrace.raft.records import Entry, control_batch, data_batches, read_control, read_data
from headrace.raft.snapshots import Snapshot
from headrace.raft.snapshotting import Snapshotting
from headrace.wire.schemas.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)

logger = logging.getLogger(__name__)

Record = Any
"""One of the classes in `wire.schemas.metadata_records`."""

NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed batch of metadata records. `size` is what it takes on disk."""

    first_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Record]
    size: int


class Subscriber(Protocol):
    """Who follows the metadata log. Calls come on the loop, in the log's order."""

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Forget everything, and begin with this."""
        ...

    def commit(self, commit: Commit) -> None: ...

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """The quorum has another leader, or none that is known (-1)."""
        ...


@dataclass(slots=True)
class _Waiting:
    """An appended batch that is not committed yet."""

    commit: Commit
    answer: "asyncio.Future[int] | None"


class RaftDriver:
    """The quorum's member on this node."""

    def __init__(
        self,
        core: RaftCore,
        log: MetadataLog,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        snapshotting: Snapshotting,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.core = core
        self.log = log
        self._loop = loop
        self._clock = clock
        self._snapshotting = snapshotting
        self._on_failure = on_failure
        self._subscribers: list[Subscriber] = []
        self._waiting: deque[_Waiting] = deque()
        self._delivered = 0
        self._flushing: Flush | None = None
        self._idle: asyncio.Future[None] | None = None
        self._failed = False

    @property
    def is_leader(self) -> bool:
        return self.core.is_leader and not self._failed

    @property
    def next_offset(self) -> int:
        """Where the next record will be."""
        return self.log.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.core.high_watermark or 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """To be called before `start`; subscribers are told in the order in which they came."""
        self._subscribers.append(subscriber)

    async def start(self) -> None:
        """Take part in the quorum; a node that is alone leads, and all that is committed is delivered, on
        return.
        """
        snapshot = self.log.loaded
        if snapshot is not None:
            self._delivered = snapshot.id.end_offset
            for subscriber in self._subscribers:
                subscriber.load_snapshot(snapshot)
        else:
            self._delivered = self.log.log.log_start_offset
        self._snapshotting.start(self.log, self._clock.monotonic_ms())
        await self._perform(self.core.start(self._clock.monotonic_ms()))

    async def stop(self) -> None:
        """Let what is on its way become durable, then give up the lead."""
        while self._flushing is not None and not self._failed:
            self._idle = self._loop.create_future()
            await self._idle
        await self._snapshotting.stop()
        self.core.resign(self._clock.monotonic_ms())
        self._refuse_waiting(ApiError(ErrorCode.NOT_CONTROLLER, "the controller is stopping"))
        if not self._failed:
            flush = self.log.log.close()
            if flush is not None:
                await self._loop.run_in_executor(None, flush.sync)

    def append(self, entries: Sequence[Entry]) -> "asyncio.Future[int]":
        """Write records; the future gives the last one's offset once they are committed.

        NOT_CONTROLLER where this node does not lead, KAFKA_STORAGE_ERROR where the disk is full: then
        nothing of the call was written.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        assert entries, "an append writes something"
        answer: asyncio.Future[int] = self._loop.create_future()
        now_ms = self._clock.now_ms()
        written: list[Commit] = []
        try:
            for batch, part in data_batches(entries, now_ms=now_ms):
                written.append(self._write(batch, [entry.record for entry in part], now_ms))
        except ApiError as error:
            if written:
                # Half a change is in the log and will be committed, though its writer is told that it failed.
                self._fail(error)
            raise
        self._waiting += (_Waiting(commit, None) for commit in written[:-1])
        self._waiting.append(_Waiting(written[-1], answer))
        self._flush()
        return answer

    def _write(self, batch: bytearray, records: Sequence[Record], now_ms: int) -> Commit:
        """Put a batch at the log's end."""
        try:
            result = self.log.log.append_as_leader(
                batch, leader_epoch=self.core.epoch, now_ms=now_ms, origin=Origin.RAFT_LEADER
            )
        except ApiError as error:
            if self.log.log.failure is not None:
                self._fail(error)
                raise ApiError(ErrorCode.NOT_CONTROLLER, error.message) from error
            raise
        self.core.log_moved(LogEnd(self.core.epoch, result.last_offset + 1))
        return Commit(
            result.first_offset, result.last_offset, self.core.epoch, now_ms, records, size=len(batch)
        )

    # -- effects ---------------------------------------------------------------------------------------------

    async def _perform(self, effects: Effects) -> None:
        """Do what the core decided, in the order of the fields."""
        if effects.persist is not None:
            data = encode_state(
                effects.persist, kraft_version=self.log.kraft_version, voters=self.core.voters
            )
            path = f"{self.log.folder}/{FILE_NAME}"
            await self._loop.run_in_executor(None, self.log.disk.replace_file, path, data)
        if effects.append is not None:
            self._begin_epoch(effects.append)
            await self._until_committed()
        assert not effects.send, "a quorum of one has nobody to write to"
        if effects.persist is not None:
            for subscriber in self._subscribers:
                subscriber.follow_leader(self.core.leader_id, self.core.epoch)

    def _begin_epoch(self, start: EpochStart) -> None:
        """Write the record of the election and, in a log that never had them, the quorum's version and
        voters.
        """
        voters = sorted(self.core.voters)
        messages: list[Any] = [
            LeaderChangeMessage(
                leader_id=self.core.node_id,
                voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in voters],
                granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in start.granted_by],
            )
        ]
        first = self.log.log.log_end_offset == 0
        if first and self.log.kraft_version and self.log.voters is not None:
            messages.append(KRaftVersionRecord(kraft_version=self.log.kraft_version))
            messages.append(self.log.voters.to_record())
        now_ms = self._clock.now_ms()
        commit = self._write(control_batch(messages, now_ms=now_ms), (), now_ms)
        self._waiting.append(_Waiting(commit, self._loop.create_future()))
        self._flush()

    async def _until_committed(self) -> None:
        answer = self._waiting[-1].answer
        assert answer is not None
        await answer

    # -- durability ------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Start a sync, unless one is under way: then the next one follows it."""
        if self._flushing is not None or self._failed:
            return
        try:
            flush = self.log.log.begin_flush()
        except ApiError as error:
            self._fail(error)
            return
        if flush is None:
            return
        self._flushing = flush
        self._loop.run_in_executor(None, flush.sync).add_done_callback(self._flushed)

    def _flushed(self, outcome: "asyncio.Future[None]") -> None:
        flush, self._flushing = self._flushing, None
        assert flush is not None
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if isinstance(error, OSError):
            self._fail(self.log.log.abandon_flush(flush, error))
        elif error is not None:
            self._fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
        else:
            self.log.log.finish_flush(flush, now_ms=self._clock.now_ms())
            effects = self.core.durable(self.core.node_id, flush.offset)
            if effects.committed_to is not None:
                self._deliver(effects.committed_to)
            self._flush()
        if self._flushing is None and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _fail(self, error: Exception) -> None:
        if self._failed:
            return
        self._failed = True
        logger.critical("the metadata log cannot be written any more: %s", error)
        self.core.resign(self._clock.monotonic_ms())
        self._refuse_waiting(ApiError(ErrorCode.NOT_CONTROLLER, f"the metadata log failed: {error}"))
        for subscriber in self._subscribers:
            subscriber.follow_leader(-1, self.core.epoch)
        self._on_failure(error)

    def _refuse_waiting(self, error: ApiError) -> None:
        while self._waiting:
            answer = self._waiting.popleft().answer
            if answer is not None and not answer.done():
                answer.set_exception(error)

    # -- delivery --------------------------------------------------------------------------------------------

    def _deliver(self, committed_to: int) -> None:
        """Hand over everything below an offset, then answer those who wait for it."""
        self.log.log.advance_high_watermark(committed_to)
        in_memory = self._waiting[0].commit.first_offset if self._waiting else committed_to
        for commit in self._read(min(in_memory, committed_to)):
            self._hand_over(commit)
        while self._waiting and self._waiting[0].commit.last_offset < committed_to:
            waiting = self._waiting.popleft()
            self._hand_over(waiting.commit)
            if waiting.answer is not None and not waiting.answer.done():
                waiting.answer.set_result(waiting.commit.last_offset)
        self._snapshotting.consider(self._delivered, self._clock.monotonic_ms())

    def _read(self, end: int) -> Iterator[Commit]:
        """Committed batches that are not in memory: what earlier epochs wrote."""
        for header, batch in self.log.batches_between(self._delivered, end):
            if header.is_control:
                self.log.take_control(read_control(batch))
            yield Commit(
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.max_timestamp,
                () if header.is_control else read_data(batch),
                size=header.size,
            )

    def _hand_over(self, commit: Commit) -> None:
        self._delivered = commit.last_offset + 1
        self._snapshotting.note(commit.size, commit.epoch, commit.timestamp_ms)
        for subscriber in self._subscribers:
            subscriber.commit(commit)
