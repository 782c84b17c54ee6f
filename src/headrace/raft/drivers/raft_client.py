"""The quorum's member on this node, Kafka's KafkaRaftClient: it gives the raft core time, messages and
durable
bytes, and hands the records that become committed to listeners.

Appending is group commit (`effect_queue.py`): records go to the log's end at once, and one sync makes durable
all that gathered while the one before it ran. When a majority has them they are committed, handed to the
listeners in order, and their futures answered. Nobody ever sees a record that a crash could take back.

A snapshot or a long log is handed over in slices, between which this node votes, fetches and answers; it is
neither active nor said to have started before all of it is.

A leader is active for its listeners once the record of its election is committed, and with it all that was
written before its time: at the start of a quorum of one that is when `start` returns. A follower's `start`
returns when it has all that its leader had committed. Following and answering others lie in `raft_fetcher.py`
and `request_handler.py`.

A disk that fails takes the node out: it resigns, what waits is refused with NOT_CONTROLLER, and
`on_failure` is told. One whose disk is full hands the lead to another voter, and is back when there is room;
where it is the only voter, only the append is refused.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from headrace.base.chunks import Buffer
from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_LEADER
from headrace.log.append import AppendOrigin
from headrace.log.faults import DISK_FULL
from headrace.raft.committed_mark import write_committed
from headrace.raft.core import RaftCore
from headrace.raft.drivers.delivery import Commit, CommitDelivery, RaftListener, Record
from headrace.raft.drivers.effect_queue import DeadlineTimer, EffectQueue, GroupCommit
from headrace.raft.drivers.snapshot_generator import SnapshotGenerator
from headrace.raft.messages import Effects, ElectionState, LogEnd, Message, RaftEpochStart, VoteReply
from headrace.raft.metadata_log import MetadataLog
from headrace.raft.quorum_state import FILE_NAME, encode_state
from headrace.raft.records import by_epoch, control_batch, data_batches, leader_change
from headrace.raft.snapshots import Snapshot
from headrace.wire.record_frames import ApiMessageAndVersion
from headrace.wire.schemas.quorum_records import KRaftVersionRecord

__all__ = ["Commit", "KafkaRaftClient", "RaftListener"]

logger = logging.getLogger(__name__)

MARK_S: Final = 1.0


def _nobody(message: Message) -> None:
    raise AssertionError(f"a quorum of one has nobody to write to: {message}")


class KafkaRaftClient:
    """The quorum's member on this node."""

    def __init__(
        self,
        core: RaftCore,
        log: MetadataLog,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        snapshot_generator: SnapshotGenerator,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.core = core
        self.log = log
        self.on_change: list[Callable[[], None]] = []
        """Called when the log grew or was cut, something was committed, or the leader changed."""
        self._loop = loop
        self._clock = clock
        self._snapshotting = snapshot_generator
        self._on_failure = on_failure
        self._delivery = CommitDelivery(log)
        self._delivery.register_listener(snapshot_generator)
        self._effects = EffectQueue(
            loop, persist=self._persist, carry_out=self._carry_out, on_failure=self.fail
        )
        self._syncs = GroupCommit(log.log, loop, clock, on_durable=self._durable, on_failure=self.fail)
        self._send: Callable[[Message], None] = _nobody
        self._epoch_start: int | None = None
        self._leader_committed_to = 0
        self._next_slice: asyncio.Handle | None = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._deadline = DeadlineTimer(loop, clock, self._tick)
        self._failed = self._stopped = False
        self._marked = 0
        self._marking: asyncio.TimerHandle | None = None
        self._mark_write: asyncio.Future[None] | None = None
        # For metrics: since the start of this process.
        self.appended_records = 0
        self.fetched_records = 0
        self.commits = 0
        self.commit_ns = 0

    # -- what is known ---------------------------------------------------------------------------------------

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

    @property
    def delivered(self) -> int:
        """Everything below this offset was handed to the listeners."""
        return self._delivery.delivered

    @property
    def known_high_watermark(self) -> int:
        """What the listeners know to be committed: the leader takes it for what this node has replayed."""
        return self.delivered if self.is_behind else self.high_watermark

    @property
    def is_behind(self) -> bool:
        """Whether the listeners lack some of what this node has and knows to be committed."""
        return self._delivery.loading or self.delivered < min(self.high_watermark, self.next_offset)

    @property
    def running(self) -> bool:
        return not self._failed and not self._stopped

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    # -- life ------------------------------------------------------------------------------------------------

    def register_listener(self, listener: RaftListener) -> None:
        """To be called before `start`; listeners are told in the order in which they came."""
        self._delivery.register_listener(listener)

    async def start(self, send: Callable[[Message], None] = _nobody) -> None:
        """Take part in the quorum; on return all that was committed by then is delivered, by the leader's
        word or, where this node leads, because the record of its election is. `send` takes what the core has
        to say to others; a quorum of one needs none.
        """
        self._send = send
        self._snapshotting.start(self.log, self.now_ms())
        self._delivery.begin()
        self.do(self.core.start(self.now_ms()))
        self._deliver()
        await asyncio.shield(self._ready)

    async def stop(self) -> None:
        """Let what is on its way become durable, then give up the lead."""
        await self._syncs.settle()
        await self._snapshotting.stop()
        self._stopped = True
        self.do(self.core.resign(self.now_ms()))
        self._effects.wait_no_longer()
        self._ready.cancel()
        self._deadline.cancel()
        self._delivery.refuse(ApiError(ErrorCode.NOT_CONTROLLER, "the controller is stopping"))
        if not self._failed:
            flush = self.log.log.close()
            if flush is not None:
                await self._loop.run_in_executor(None, flush.sync)
            if self._mark_write is not None:
                await self._mark_write
            await self._loop.run_in_executor(None, self._write_mark, self.delivered)

    def abandon(self) -> None:
        """Stop where it stands."""
        self._stopped = True
        self._effects.wait_no_longer()
        self._ready.cancel()
        self._deadline.cancel()

    # -- writing as the leader -------------------------------------------------------------------------------

    def append(self, entries: Sequence[ApiMessageAndVersion]) -> "asyncio.Future[int]":
        """Write records; the future gives the last one's offset once they are committed.

        NOT_CONTROLLER where this node does not lead, or no longer because its disk is full;
        KAFKA_STORAGE_ERROR where it is full and nobody else could lead. Then nothing of the call was written.
        """
        if not self.is_leader or self._epoch_start is None:
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
                self.fail(error)
            raise
        for commit in written[:-1]:
            self._delivery.expect(commit)
        self._delivery.expect(written[-1], answer)
        began_ns = self._clock.monotonic_ns()
        answer.add_done_callback(lambda done: self._note_commit(done, began_ns))
        self._syncs.request()
        self._changed()
        return answer

    def _note_commit(self, done: "asyncio.Future[int]", began_ns: int) -> None:
        if not done.cancelled() and done.exception() is None:
            self.commits += 1
            self.commit_ns += self._clock.monotonic_ns() - began_ns

    def append_control(self, messages: Sequence[Any]) -> "asyncio.Future[int]":
        """Write what the quorum says about itself; it is in force from now on, committed or not."""
        answer: asyncio.Future[int] = self._loop.create_future()
        now_ms = self._clock.now_ms()
        batch = control_batch(messages, now_ms=now_ms)
        commit = self._write(batch, (), now_ms)
        self._delivery.expect(commit, answer)
        self.log.take_control(commit.first_offset, list(messages))
        self._follow_voters()
        self._syncs.request()
        self._changed()
        return answer

    def _write(self, batch: bytearray, records: Sequence[Record], now_ms: int) -> Commit:
        """Put a batch at the log's end."""
        epoch = self.core.epoch
        try:
            result = self.log.log.append_as_leader(
                batch, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.RAFT_LEADER
            )
        except ApiError as error:
            if self.log.log.failure is not None:
                self.fail(error)
            elif error.code == ErrorCode.KAFKA_STORAGE_ERROR and len(self.core.voters) > 1:
                self._hand_over(error)
            else:
                raise
            raise ApiError(ErrorCode.NOT_CONTROLLER, error.message) from error
        self.core.log_moved(LogEnd(epoch, result.last_offset + 1))
        self.appended_records += result.last_offset + 1 - result.first_offset
        return Commit(result.first_offset, result.last_offset, epoch, now_ms, records, size=len(batch))

    def _hand_over(self, error: ApiError) -> None:
        """Who cannot write can elect no leaders for the partitions of a broker that dies: another can."""
        logger.error("handing the metadata log to another controller: %s", error)
        self.do(self.core.resign(self.now_ms()))

    # -- writing as a follower -------------------------------------------------------------------------------

    async def append_fetched(self, data: Buffer) -> None:
        """Write what the leader sent; durable on return. ApiError where it is damaged or the disk fails.

        Every epoch is made durable before the next one is begun, and its first batch before the second:
        `damage` relies on it.
        """
        following = self.core.epoch, self.core.leader_id
        for part in by_epoch(data, self.log.end.epoch):
            if following != (self.core.epoch, self.core.leader_id):
                return  # while it waited for the disk: the rest may not be in the log that is to be
            self._append_fetched(part)
            await self._syncs.durable()

    def _append_fetched(self, data: Buffer) -> None:
        first = self.next_offset
        try:
            self.log.log.append_as_follower(data, now_ms=self._clock.now_ms())
        except ApiError as error:
            if self.log.log.failure is not None:
                self.fail(error)
            raise
        self.core.log_moved(self.log.end)
        self.fetched_records += self.next_offset - first
        if self.log.take_controls(first):
            self._follow_voters()

    async def truncate(self, offset: int) -> None:
        """Cut what the leader does not have; never what is committed."""
        assert offset >= self.high_watermark, f"cutting committed records: {offset} < {self.high_watermark}"
        await self._syncs.durable()
        self.log.truncate(offset, now_ms=self._clock.now_ms())
        self.core.log_moved(self.log.end)
        self._follow_voters()
        self._changed()

    async def install(self, snapshot: Snapshot, data: bytes) -> None:
        """Begin anew with a snapshot of the leader's. ApiError where the disk does not take it: a full one
        may later.
        """
        await self._syncs.durable()
        path = self.log.path_of(snapshot.id)
        try:
            await self._loop.run_in_executor(None, self.log.disk.replace_file, path, data)
        except OSError as error:
            if error.errno not in DISK_FULL:
                self.fail(error)
            logger.error("a snapshot of the metadata log cannot be kept: %s", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error}") from error
        self.log.start_at(snapshot, now_ms=self._clock.now_ms())
        self.core.log_moved(self.log.end)
        self._delivery.load(snapshot)
        self._follow_voters()
        self.do(self.core.follow_commits(snapshot.id.end_offset))
        self._deliver()

    # -- effects ---------------------------------------------------------------------------------------------

    def do(self, effects: Effects, then: Callable[[], None] | None = None) -> None:
        """Do what the core decided, after all that it decided before."""
        if not self.core.is_leader and self._epoch_start is not None:
            self._epoch_start = None
            self._delivery.refuse(
                ApiError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")
            )
            if self.running:
                # At once: nobody may go on deciding, or take what another leader writes for its own.
                self._delivery.tell_leader(NO_LEADER, self.core.epoch)
        self._effects.add(effects, then)
        if self.running:
            self._deadline.follow(self.core.deadline_ms)

    def _tick(self) -> None:
        if self.running:
            self.do(self.core.tick(self.now_ms()))

    def hear(self, message: Message) -> "asyncio.Future[VoteReply | None]":
        """A message of another node; the future is done when it may be answered, a request for a vote with
        what is to be said."""
        answer: asyncio.Future[VoteReply | None] = self._loop.create_future()
        effects = self.core.step(message, self.now_ms())
        replies = [each for each in effects.send if isinstance(each, VoteReply)]

        def then() -> None:
            if not answer.done():
                answer.set_result(replies[0] if replies else None)

        self.do(effects, then)
        return answer

    def _persist(self, state: ElectionState) -> None:
        """Runs in a thread."""
        data = encode_state(state, kraft_version=self.log.kraft_version, voters=tuple(self.core.voters))
        self.log.disk.replace_file(f"{self.log.folder}/{FILE_NAME}", data)

    def _carry_out(self, effects: Effects) -> None:
        """In the order of the fields; what was to be remembered is on the disk."""
        start = effects.append
        if start is not None and self.is_leader and start.epoch == self.core.epoch:
            self._begin_epoch(start)
        for message in effects.send:
            if not isinstance(message, VoteReply):
                self._send(message)
        if effects.committed_to is not None:
            self._deliver()
        if not self.core.is_leader and self.running:
            leader_id = self.core.leader_id
            own = leader_id == self.core.node_id
            self._delivery.tell_leader(NO_LEADER if own else leader_id, self.core.epoch)
        self._changed()

    def _begin_epoch(self, start: RaftEpochStart) -> None:
        """Write the record of the election and, in a log that never had them, the quorum's version and
        voters.
        """
        messages: list[Any] = [leader_change(self.core.node_id, sorted(self.core.voters), start.granted_by)]
        first = self.log.log.log_end_offset == 0
        if first and self.log.kraft_version and self.log.voters is not None:
            messages.append(KRaftVersionRecord(kraft_version=self.log.kraft_version))
            messages.append(self.log.voters.to_record())
        now_ms = self._clock.now_ms()
        try:
            self.log.make_durable()  # what was fetched until now, before the epoch begins
            commit = self._write(control_batch(messages, now_ms=now_ms), (), now_ms)
            self.log.make_durable()  # before anything follows it: see `damage`
        except (ApiError, OSError) as error:
            # Without its first record a leader can never commit anything: another one must.
            if self.core.is_leader:
                self.fail(error)
            return
        self._epoch_start = commit.first_offset
        self._delivery.expect(commit)
        self._syncs.request()

    def _follow_voters(self) -> None:
        """The log has other voters now."""
        if self.log.voters is not None and self.log.voters.directories != self.core.voters:
            self.do(self.core.change_voters(self.log.voters.directories, self.now_ms()))

    # -- durability and failure ------------------------------------------------------------------------------

    def _durable(self, end_offset: int) -> None:
        effects = self.core.durable(end_offset)
        if effects.committed_to is not None:
            self.do(effects)

    def fail(self, error: Exception) -> None:
        """Take the node out: nothing it says from now on could be relied on."""
        if self._failed:
            return
        self._failed = True
        self._syncs.end()
        logger.critical("the metadata log cannot be written any more: %s", error)
        self.core.resign(self.now_ms())
        refusal = ApiError(ErrorCode.NOT_CONTROLLER, f"the metadata log failed: {error}")
        self._delivery.refuse(refusal)
        self._delivery.tell_leader(NO_LEADER, self.core.epoch)
        if not self._ready.done():
            self._ready.set_exception(refusal)
        self._changed()
        self._on_failure(error)

    # -- delivery --------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hand over what is committed, as far as this node has it; where that is much, a slice now and the
        others in turns to come."""
        committed_to = min(self.high_watermark, self.next_offset)
        self.log.log.maybe_increment_high_watermark(committed_to)
        try:
            is_more = self._delivery.deliver(committed_to)
        except Exception as error:
            # A node that cannot read its log, or make sense of it, must not look as if it could.
            self.fail(error)
            return
        if is_more:
            if self._next_slice is None and self.running:
                self._next_slice = self._loop.call_soon(self._deliver_more)
            return
        if self.is_leader and self._epoch_start is not None and self.delivered > self._epoch_start:
            self._delivery.tell_leader(self.core.node_id, self.core.epoch)
            self._be_ready()
        if 0 < self._leader_committed_to <= self.delivered:
            self._be_ready()
        self._snapshotting.consider(self.delivered, self.now_ms())
        self._mark_later()

    def _mark_later(self) -> None:
        """Write down how far the log is committed; a hint that need not keep up with every record."""
        if self._marking is None and self.running and self.delivered > self._marked:
            self._marking = self._loop.call_later(MARK_S, self._mark)

    def _mark(self) -> None:
        self._marking = None
        self._marked = self.delivered
        if self.running:
            self._mark_write = self._loop.run_in_executor(None, self._write_mark, self._marked)

    def _write_mark(self, offset: int) -> None:
        """Runs in a thread. A disk that has no room, or fails, is told of where it matters."""
        with suppress(OSError):
            write_committed(self.log.disk, self.log.folder, offset)

    def _deliver_more(self) -> None:
        self._next_slice = None
        if self.running:
            self._deliver()

    def caught_up(self, high_watermark: int) -> None:
        """The leader says how far it has committed; where this node has all of that, it is ready."""
        self._leader_committed_to = high_watermark
        self._deliver()

    def _be_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _changed(self) -> None:
        for callback in self.on_change:
            callback()
