"""One connection: whole frames in, replies out in the order of their requests, all of it bounded.

The socket is driven straight from the loop's `add_reader` and `add_writer`. A readable event reads once or
more, hands every whole frame to `on_frame`, and flushes the replies that came back at once in one call. A
reply that must wait gets a `ReplySlot`: slots leave in the order they were begun, whichever is filled first.
One that waits although it could leave (a long poll without a need) is `hold`: it gives way to whatever the
peer sends next, because the replies behind it would wait as well. How replies leave is `sending`'s.

`on_frames`, where there is one, is asked first: it may take several frames of a read at once.

A frame is valid until `on_frame` returns: its memory is then used for the next read. It is writable, and what
must live longer is copied by whoever needs it, or `keep_frame` gives it the memory it lies in.

Reading pauses, and TCP makes the peer wait, while
- replies that are ready but unsent, or requests without a reply, exceed their bound (a peer that does not
  read);
- unfinished frames hold too much memory over all connections (see `receive_memory`);
- it has used up its slice of time, until its turn comes again (see `serving_turns`);
- a request is worked on in slices (`work_on`): those behind it wait for it; or it is muted, by a quota;
- the connection is finishing: no request is taken any more, replies that are due still leave.
Frames that were read before a pause stay in the buffer and are handled when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from headrace.base.chunks import Chunks, chunks_size
from headrace.base.errors import InvalidBytesError
from headrace.telemetry.fault_log import FaultLog
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.attention import Attention
from headrace.transport.frame_reader import FrameReader
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import ConnectionLimits
from headrace.transport.network import Socket
from headrace.transport.receive_memory import SHORT_FRAME_BYTES, ReceiveMemory
from headrace.transport.reply_slot import ReplySlot
from headrace.transport.sending import Sending, SendWatch
from headrace.transport.sending_turns import SendingTurns
from headrace.transport.serving_turns import LONG_NS, SLICE_NS, ServingTurns

log = logging.getLogger(__name__)

# Replies of one read are flushed when they reach this size, so that the bound on unsent bytes counts what the
# peer does not take, and not what we have not offered yet.
FLUSH_AT_BYTES: Final = 256 * 1024

# Why reading is paused: a set of bits, because the reasons come and go on their own.
_PEER_IS_SLOW: Final = 1
_MEMORY_IS_SHORT: Final = 2
_FINISHING: Final = 4
OTHERS_FIRST: Final = 8
_AT_WORK: Final = 16
_MUTED: Final = 32

Work: TypeAlias = Generator["asyncio.Future[Any] | None", None, None]
"""A request that takes long, cut into slices. It yields between them, and where it must wait, what for."""


class Connection:
    """A socket that speaks in frames. Made by a `Listener` or a `ClientConnection`; `start` sets it going."""

    __slots__ = (
        "_attention",
        "_awaited_bytes",
        "_busy",
        "_catching_up",
        "_faults",
        "_idle",
        "_is_bulk",
        "_is_new",
        "_kept_bytes",
        "_limited_log",
        "_limits",
        "_loop",
        "_memory",
        "_on_close",
        "_on_frame",
        "_on_frames",
        "_outbox",
        "_parked_bytes",
        "_paused",
        "_reader",
        "_reads",
        "_release",
        "_sending",
        "_serving",
        "_slice_ends_ns",
        "_slots",
        "_socket",
        "_takes_long",
        "_took_long",
        "_waits_since_ns",
        "_work",
        "active_at",
        "attached",
        "closed",
        "local",
        "peer",
        "read_at_ns",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: Socket,
        *,
        memory: ReceiveMemory,
        limits: ConnectionLimits,
        on_frame: OnFrame,
        on_frames: OnFrames | None = None,
        on_close: OnClose,
        idle: IdleReaper,
        limited_log: LimitedLog,
        faults: FaultLog | None = None,
        attention: Attention | None = None,
        turns: SendingTurns | None = None,
        serving: ServingTurns | None = None,
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._memory = memory
        self._limits = limits
        self._on_frame = on_frame
        self._on_frames = None if limits.check_views else on_frames
        self._on_close = on_close
        self._limited_log = limited_log
        self._faults = faults or FaultLog(loop.time, log)
        self._attention = attention
        self._serving = serving or ServingTurns(loop)
        self._reader = FrameReader(memory, limits.frame_bytes_max)
        self._sending = Sending(
            loop,
            socket,
            limits,
            turns or SendingTurns(loop),
            on_sent=self._on_sent,
            on_failed=self.abort,
        )
        self._outbox = self._sending.outbox
        self._slots: deque[ReplySlot] = deque()
        self._parked_bytes = 0  # replies that are ready behind a slot that is not
        self._release: Callable[[], None] | None = None  # lets go of a reply that is held
        self._paused = 0
        self._reads = False  # the loop tells us when there is something to read
        self._work: Work | None = None
        self._kept_bytes = 0  # of the frame that is worked on
        self._slice_ends_ns = 0
        self.read_at_ns = 0  # when the frames that are handled now came
        self._waits_since_ns = 0  # readable, and others are first
        # The last read did; where two in a row did, so will the next. Of a newcomer nothing is known: where
        # thousands come at once it is they who wait, and not those who are known to ask for little.
        self._is_new = self._took_long = self._takes_long = True
        self._is_bulk = False  # a long frame is unfinished
        self._busy = False  # handling frames: replies are flushed together at the end
        self._awaited_bytes = 1  # the socket wakes us when so many are there
        self._catching_up = False  # a pause is over, and the frames from before it are not handled yet
        self.closed = False
        self.peer = socket.peer
        self.local = socket.local
        self.attached: Any = None  # whatever the owner keeps with its connection
        self._idle = idle
        self.active_at = idle.now

    def __repr__(self) -> str:
        return f"<connection to {self.peer[0]}:{self.peer[1]}>"

    # What its owner asks

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame the peer may send; lower before authentication."""
        return self._reader.frame_bytes_max

    @frame_bytes_max.setter
    def frame_bytes_max(self, value: int) -> None:
        self._reader.frame_bytes_max = value

    @property
    def socket(self) -> Socket:
        return self._socket

    @property
    def unsent_bytes(self) -> int:
        """Bytes of replies that are ready and that the kernel has not taken."""
        return self._outbox.size + self._parked_bytes

    @property
    def outstanding(self) -> int:
        """Requests whose replies have not been handed to the kernel's queue yet."""
        return len(self._slots)

    @property
    def waits_for_us(self) -> bool:
        """The peer waits for a reply that is not made yet, so its silence is not idleness."""
        return bool(self._slots) and not self._outbox.size

    @property
    def awaits_peer(self) -> bool:
        """An unfinished frame goes on when the peer sends or reads something, and not when we do."""
        return not self._catching_up and not self._paused & ~_PEER_IS_SLOW

    def start(self) -> None:
        """Begin to read."""
        self._read_on()

    def _read_on(self) -> None:
        if not self._reads:
            self._reads = True
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def begin_reply(self) -> ReplySlot:
        """The slot of the request being handled; its reply leaves after those of all earlier slots."""
        slot = ReplySlot(self)
        self._slots.append(slot)
        return slot

    def hold(self, release: Callable[[], None]) -> None:
        """The reply to the request being handled is kept back by choice. `release` is called once, when the
        peer sends anything more or the connection ends; that may be long after the reply has left.
        """
        assert self._release is None, "one reply is held at a time: a later request releases it"
        self._release = release

    def _let_go(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def send(self, chunks: Chunks, watch: SendWatch | None = None) -> None:
        """Answer now, behind what is waiting already: as if a new slot were filled at once."""
        if self._slots:
            self.begin_reply().send(chunks, watch)
        elif not self.closed:
            self._sending.push(chunks, chunks_size(chunks), watch)
            if not self._busy:
                self._sending.flush_soon()

    def finish(self) -> None:
        """Take no more requests, send the replies that are due, then close."""
        if self.closed:
            return
        self._pause(_FINISHING)
        self._let_go()
        if not self._close_if_finished():
            self._sending.flush_soon()

    def abort(self, reason: str = "") -> None:
        """Close at once; what was not sent is lost. Safe to call at any time, also twice."""
        if self.closed:
            return
        self.closed = True
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket.fileno())
        self._work = None
        self._sending.close()
        self._socket.close()
        self._memory.release(self)
        self._reader.discard()
        self._slots.clear()
        self._parked_bytes = 0
        self._let_go()
        self._on_close(self, reason)

    # Reading

    def _on_readable(self) -> None:
        self.active_at = self._idle.now
        if self._catching_up:
            self._go_on()  # first what is there: a buffer full of whole frames has no room for more
            if self.closed or self._paused:
                return
        serving = self._serving
        if (self._takes_long or self._is_bulk) and serving.is_crowded:
            self._waits_since_ns = serving.monotonic_ns()
            self._queue_up(in_crowd=self._is_new or self._is_bulk)
            return
        self.read_at_ns = began_ns = serving.monotonic_ns()
        self._slice_ends_ns = began_ns + SLICE_NS
        self._is_new = False
        self._read()
        spent_ns = serving.monotonic_ns() - began_ns
        if spent_ns > LONG_NS or self._takes_long or self._took_long:
            self._note_took(spent_ns)
        serving.note_spent(spent_ns)
        if self._attention is not None:
            self._attention.served()

    def _note_took(self, spent_ns: int) -> None:
        is_long = spent_ns > LONG_NS
        self._takes_long, self._took_long = is_long and self._took_long, is_long
        if is_long and spent_ns >= self._serving.slow_ns:
            self._serving.on_slow(self.attached, spent_ns)

    def _read(self) -> None:
        """Read and serve until nothing is left, a bound is reached or the slice is over."""
        if self._memory.is_short and not self._memory.may_read(self):
            self._pause(_MEMORY_IS_SHORT)
            return
        left = self._limits.turn_bytes_max
        try:
            while not self._paused and left > 0:
                count, filled = self._reader.fill(self._socket)
                if not count:
                    self.abort("closed by the peer")
                    return
                self._handle_frames()
                if not filled or self.closed:
                    break
                left -= count
                if self._serving.monotonic_ns() >= self._slice_ends_ns:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.abort(str(error))
        except Exception as error:  # else the socket stays readable, and the same is met in every turn
            self._end_for_fault(error)
        self._settle()
        self._sending.note_read()

    def _handle_frames(self) -> None:
        """Hand out the frames in the buffer until a bound is reached, then flush their replies."""
        reader = self._reader
        on_frame = self._on_frame
        on_frames = self._on_frames
        self._busy = True
        singly = 0  # frames that `on_frames` does not want
        try:
            while not self._paused:
                if self._release is not None and reader.start < reader.end:
                    self._let_go()
                if not singly and on_frames is not None:
                    singly = on_frames(self, reader)
                singly -= 1
                frame = reader.next_frame()
                if frame is None:
                    break
                if self._limits.check_views:
                    _hand_out_checked(self, frame, on_frame)
                else:
                    on_frame(self, frame)
                if self.closed:
                    return
                if self._outbox.size >= FLUSH_AT_BYTES:
                    self._sending.flush()
                self._pause_if_peer_is_slow()
                if self._serving.monotonic_ns() >= self._slice_ends_ns and reader.has_frame:
                    self._queue_up()
        except InvalidBytesError as error:
            self.refuse(error)
        except Exception as error:
            self._end_for_fault(error)
        finally:
            self._busy = False
        if self._outbox.size:
            self._sending.flush()
        elif self._paused:
            self._end_pause_if_sent()

    def _end_for_fault(self, error: Exception) -> None:
        self._faults.note("a connection is closed because what came on it could not be handled", error, self)
        self.abort(repr(error))

    def refuse(self, error: InvalidBytesError) -> None:
        """A frame is broken, and what comes behind it cannot be trusted."""
        self._limited_log.write("closing %s for a broken frame: %s", self, error)
        self._sending.flush()  # what was asked properly before has been answered
        self.abort(str(error))

    def _settle(self) -> None:
        """Return the buffer, or account for what an unfinished frame holds of it."""
        if self.closed:
            self._reader.discard()
            return
        held, announced = self._reader.settle() + self._kept_bytes, 0
        if not held:
            self._memory.release(self)
        else:
            announced, received = self._reader.announced_bytes, self._reader.received_bytes
            may_go_on = self._memory.hold(self, held, received=received, frame_bytes=announced)
            if not may_go_on and not self.closed and self._work is None:
                self._pause(_MEMORY_IS_SHORT)
        if self._work is None:
            self._kept_bytes = 0
        self._is_bulk = announced > SHORT_FRAME_BYTES
        if held or self._awaited_bytes > 1:
            self._await_rest(announced)

    def _await_rest(self, announced: int) -> None:
        """Be woken for a good part of a large frame's rest, not for every packet."""
        missing, limits = announced - self._reader.received_bytes, self._limits
        awaited = min(missing, limits.awaited_bytes_max) if missing > limits.awaited_bytes_min else 1
        if awaited != self._awaited_bytes and not self.closed:
            self._awaited_bytes = awaited
            self._socket.await_bytes(awaited)

    def _pause_if_peer_is_slow(self) -> None:
        if (
            self._outbox.size + self._parked_bytes > self._limits.unsent_bytes_max
            or len(self._slots) >= self._limits.outstanding_max
        ):
            self._pause(_PEER_IS_SLOW)

    def _pause(self, reason: int) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket.fileno())
        self._paused |= reason

    def _resume(self, reason: int) -> None:
        if self.closed or not self._paused & reason:
            return
        self._paused &= ~reason
        if not self._paused:
            self._read_on()
            # The buffer may hold whole frames from before the pause, and nothing more may ever come.
            self._catching_up = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._catching_up and not self.closed and not self._paused:
            self._catching_up = False
            self._slice_ends_ns = self._serving.monotonic_ns() + SLICE_NS
            self._serve_buffered()

    def _serve_buffered(self) -> None:
        """Hand out whole frames that were read before a pause."""
        self._reader.reopen()
        self._handle_frames()
        self._settle()

    # Taking turns

    def work_on(self, work: Work) -> None:
        """Do the request being handled in slices, when it is this connection's turn. Frames behind it wait
        until it is done, as do replies: `work` fills its slot itself.
        """
        assert self._work is None, "frames behind a request that is worked on are not handed out"
        self._work = work
        self._pause(_AT_WORK)
        self._serving.join(self)

    def keep_frame(self) -> None:
        """The frame being handled outlives `on_frame`, without a copy: nothing else is received into its
        memory, which counts as that of an unfinished one for as long as it is worked on.
        """
        if self._work is None:  # else it was copied before
            self._kept_bytes = max(self._reader.detach(), 1)

    @property
    def keeps_frame(self) -> bool:
        """Whether the frame that was handled last is kept."""
        return self._kept_bytes > 0

    def _queue_up(self, *, in_crowd: bool = False) -> None:
        if not self._paused & OTHERS_FIRST:
            self._pause(OTHERS_FIRST)
            self._serving.join(self, in_crowd=in_crowd)

    def take_turn(self) -> None:
        """Go on for a slice: with the request that is worked on, or with frames that wait and what comes."""
        if self.closed:
            return
        began_ns = self._serving.monotonic_ns()
        self._slice_ends_ns = began_ns + SLICE_NS
        if self._work is not None:
            self._go_on_working(self._work)
            return
        self._paused &= ~OTHERS_FIRST
        if self._paused or self._catching_up:
            return  # who ends that pause sees to the frames
        self._is_new = False
        self._serve_buffered()
        if not self._paused and not self.closed:
            self._read_on()
            self.read_at_ns, self._waits_since_ns = self._waits_since_ns or began_ns, 0
            self._read()
        self._note_took(self._serving.monotonic_ns() - began_ns)

    def _go_on_working(self, work: Work) -> None:
        try:
            while True:
                awaited = next(work)
                if self.closed:
                    return
                if awaited is not None and not awaited.done():
                    awaited.add_done_callback(self._awaited)
                    return
                if self._serving.monotonic_ns() >= self._slice_ends_ns:
                    self._serving.join(self)
                    return
        except StopIteration:
            pass
        except Exception as error:
            self._end_for_fault(error)
        self._work = None
        self._kept_bytes = 0
        self._resume(_AT_WORK)

    def _awaited(self, _: object) -> None:
        if not self.closed:
            self._serving.join(self)

    def mute(self) -> None:
        """Take no request until `unmute`. Replies leave meanwhile."""
        self._pause(_MUTED)

    def unmute(self) -> None:
        self.active_at = self._idle.now
        self._resume(_MUTED)

    def resume_for_memory(self) -> None:
        """There is memory for unfinished frames again. Many hear of it at once: they take turns."""
        if not self.closed and self._paused & _MEMORY_IS_SHORT:
            self._paused &= ~_MEMORY_IS_SHORT
            self._queue_up(in_crowd=True)

    # Writing

    def slot_filled(self, slot: ReplySlot) -> None:
        """A slot got its reply: it leaves now if it is the first, with the filled ones behind it."""
        if self.closed:
            return
        slots = self._slots
        if slots[0] is not slot:
            self._parked_bytes += slot.size
            return
        slots.popleft()
        self._push(slot)
        while slots and slots[0].chunks is not None:
            self._parked_bytes -= slots[0].size
            self._push(slots.popleft())
        if self._busy:
            return
        if slots:
            self._sending.flush_soon()  # others are likely to be filled by the same event
        else:
            self._sending.flush()

    def _push(self, slot: ReplySlot) -> None:
        assert slot.chunks is not None
        self._sending.push(slot.chunks, slot.size, slot.watch)

    def _on_sent(self, taken: int) -> None:
        if taken:
            self.active_at = self._idle.now
        if self._paused:
            self._end_pause_if_sent()

    def _end_pause_if_sent(self) -> None:
        """Read again or close, as what is unsent allows."""
        if self._close_if_finished():
            return
        if (
            self._paused & _PEER_IS_SLOW
            and self.unsent_bytes <= self._limits.unsent_bytes_max // 2
            and len(self._slots) <= self._limits.outstanding_max // 2
        ):
            self._resume(_PEER_IS_SLOW)

    def _close_if_finished(self) -> bool:
        if self._paused & _FINISHING and not self._slots and not self._outbox.size and not self._busy:
            self.abort("finished")
        return self.closed


OnFrame: TypeAlias = Callable[[Connection, memoryview], None]
OnFrames: TypeAlias = Callable[[Connection, FrameReader], int]
"""Takes frames from the start of the reader's buffer where it can serve them together. Returns how many of
the frames behind them it leaves to `OnFrame`: 1 at least, and no more than it has looked at.
"""
OnClose: TypeAlias = Callable[[Connection, str], None]


def _hand_out_checked(connection: Connection, frame: memoryview, on_frame: OnFrame) -> None:
    """Give the frame memory of its own; BufferError where a view of it outlives `on_frame`."""
    private = bytearray(frame)
    view = memoryview(private)
    on_frame(connection, view)
    if connection.keeps_frame:
        return
    view.release()
    private.clear()
