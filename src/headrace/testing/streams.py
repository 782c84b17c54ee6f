"""Simulated TCP connections: two ends, and a pipe of bytes in each direction.

Bytes of one connection arrive in order and unharmed, as TCP promises; everything else may happen to them.
They arrive late and in other pieces than they were sent. The pipe is bounded: what the receiver does not
read makes the sender wait. While the way is blocked, packets are sent again with growing pauses. A peer
that went without a word is only noticed by who sends to it, and the packet that says so (RST) is itself
lost if the way back is blocked.
"""

import errno
import os
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.base.chunks import Buffer, FileSlice
from headrace.testing.scheduler import NS_PER_SECOND

if TYPE_CHECKING:
    from headrace.testing.network import Host

# Retransmission pauses double from the first to the second (Linux: 200 ms to 120 s). The cap is low so that a
# healed network is used again soon, as clients' own time-outs would make it.
RESEND_S: Final = (0.2, 1.6)

_FIN: Final = b""  # the packet that says there will be no more


class Stream:
    """One end of a connection; implements `transport.network.Socket`."""

    def __init__(self, host: "Host", local: tuple[str, int], peer: tuple[str, int], remote: "Host") -> None:
        self.host = host
        self.local = local
        self.peer = peer
        self.remote = remote
        self.other: Stream | None = None
        self.pipe: Pipe | None = None
        self.connected = False
        self.closed = False
        self.received = bytearray()
        self._ended = False  # the peer has sent all it will
        self._broken = False  # nothing can be sent any more
        self._error = 0
        self._loop = host.loop
        self._number = self._loop.open_descriptor(self)

    def __repr__(self) -> str:
        return f"<stream {self.host.name}:{self.local[1]} to {self.remote.name}:{self.peer[1]}>"

    # --- the Socket protocol ---

    def fileno(self) -> int:
        return self._number

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        self._check_open()
        if self.received:
            network = self.host.network
            count = network.conditions.perhaps_fewer(network.rng, min(len(self.received), len(buffer)))
            buffer[:count] = self.received[:count]
            del self.received[:count]
            self._loop.spend(count * self._loop.byte_ns)
            if self.other is not None and self.other.pipe is not None:
                self.other.pipe.was_read(count)
            return count
        self._raise_error()
        if self._ended or self._broken:
            return 0
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def await_bytes(self, count: int) -> None:
        """Woken too often rather than too late."""

    def send(self, buffers: Sequence[Buffer]) -> int:
        room = self._room()
        data = b"".join(buffers) if len(buffers) != 1 else bytes(buffers[0])
        if not data:
            return 0
        count = self._fewer(min(len(data), room))
        self._push(data[:count])
        return count

    def send_file(self, part: FileSlice) -> int:
        data = part.file.read(part.position, self._fewer(min(part.size, self._room())))
        if data:
            self._push(data)
        return len(data)

    def close(self) -> None:
        """What was sent still arrives. With bytes unread, the peer gets a reset, as from Linux."""
        if self.closed:
            return
        self.closed = True
        self._loop.close_descriptor(self._number)
        self.host.streams.pop(self, None)
        if self.other is None or self._broken:
            return
        if self.received or not self.connected:
            self.send_reset()
        elif self.pipe is not None:
            self.pipe.push(_FIN)

    def readable(self) -> bool:
        return bool(self.received) or self._ended or self._broken or self._error != 0

    def writable(self) -> bool:
        if self._broken or self._error:
            return True
        return self.connected and self.pipe is not None and self.pipe.has_room()

    # --- what the network does to it ---

    def join(self, other: "Stream") -> None:
        """The two are the ends of one connection."""
        self.other = other
        self.pipe = Pipe(self, other)

    def establish(self) -> None:
        if not self.closed and not self._broken:
            self.connected = True
            self.stir()

    def take(self, data: bytes) -> None:
        """A packet arrived."""
        if self._broken:
            return
        if data:
            self.received += data
        else:
            self._ended = True
        self.stir()

    def fail(self, code: int) -> None:
        """The connection is no more; the next call says why, unless there are bytes left to read."""
        if self._broken or self.closed:
            return
        self._broken = True
        self._error = code
        if self.pipe is not None:
            self.pipe.discard()
        self.host.network.note(f"{self!r} fails: {errno.errorcode[code]}")
        self.stir()

    def vanish(self) -> None:
        """The machine lost power: this end stops to exist, and nobody is told."""
        self.closed = self._broken = True
        if self.pipe is not None:
            self.pipe.discard()

    def send_reset(self) -> None:
        """Tell the other end that this one is gone. The telling itself is not repeated if it gets lost."""
        if self.pipe is not None:
            self.pipe.discard()
        other = self.other
        if other is not None:
            self.host.network.carry(self.host, self.remote, lambda: other.fail(errno.ECONNRESET))

    def stir(self) -> None:
        if not self.closed:
            self._loop.stir(self._number)

    # --- shared parts ---

    def _check_open(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _raise_error(self) -> None:
        if self._error:
            code, self._error = self._error, 0
            raise OSError(code, os.strerror(code))

    def _room(self) -> int:
        """Bytes that can be sent now; raises where the answer is none."""
        self._check_open()
        self._raise_error()
        if self._broken:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = self.pipe.room() if self.connected and self.pipe is not None else 0
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return room

    def _fewer(self, count: int) -> int:
        network = self.host.network
        return network.conditions.perhaps_fewer(network.rng, count)

    def _push(self, data: bytes) -> None:
        assert self.pipe is not None
        self._loop.spend(len(data) * self._loop.byte_ns)
        self.pipe.push(data)


class Pipe:
    """One direction of a connection: packets on their way, and bytes that the receiver has not read yet."""

    def __init__(self, source: Stream, target: Stream) -> None:
        self.source = source
        self.target = target
        self.silent = False
        self._network = source.host.network
        self._packets: deque[tuple[int, bytes]] = deque()  # (earliest arrival, data)
        self._held_bytes = 0
        self._read_bytes = 0
        self._read_ns = 0
        self._is_awaited = False
        self._is_telling = False
        self._under_way = False
        self._blocked_since_ns = 0
        self._pause_s = RESEND_S[0]

    def room(self) -> int:
        """Bytes that the sender believes to have room for."""
        if self._read_bytes:
            self._hear_of_room()
        room = self._network.conditions.buffer_bytes - self._held_bytes
        if room <= 0:
            self._await_room()
        return room

    def has_room(self) -> bool:
        """As Linux: writable again only once a third is free."""
        has_room = self.room() * 3 >= self._network.conditions.buffer_bytes
        if not has_room:
            self._await_room()
        return has_room

    def push(self, data: bytes) -> None:
        network = self._network
        self._held_bytes += len(data)
        for piece in network.conditions.pieces(network.rng, data) if data else [_FIN]:
            arrival_ns = network.scheduler.now_ns + round(network.latency_s(self.source, self.target) * 1e9)
            if self._packets:
                arrival_ns = max(arrival_ns, self._packets[-1][0])
            self._packets.append((arrival_ns, piece))
        self._send_head()

    def discard(self) -> None:
        """What was on its way is lost."""
        self._packets.clear()

    def was_read(self, count: int) -> None:
        """The receiver made room; the sender hears of it when that news has travelled back.

        A packet for that is only sent to a sender that waits. Others hear of it when they next want room, if
        by then the news would have come.
        """
        self._read_bytes += count
        self._read_ns = self._network.scheduler.now_ns
        if self._is_awaited:
            self._tell_of_room()

    def _hear_of_room(self) -> None:
        network = self._network
        travelled_s = (network.scheduler.now_ns - self._read_ns) / NS_PER_SECOND
        is_through = network.can_pass(self.target.host, self.source.host)
        if is_through and travelled_s > network.conditions.latency_s_max:
            self._held_bytes -= self._read_bytes
            self._read_bytes = 0

    def _await_room(self) -> None:
        self._is_awaited = True
        if self._read_bytes:
            self._tell_of_room()

    def _send_head(self) -> None:
        if self._packets and not self._under_way:
            self._under_way = True
            self._network.scheduler.at(self._packets[0][0], self._arrive)

    def _arrive(self) -> None:
        self._under_way = False
        if not self._packets:
            return
        if self.silent or not self._network.can_pass(self.source.host, self.target.host):
            self._send_again()
            return
        self._blocked_since_ns, self._pause_s = 0, RESEND_S[0]
        _, data = self._packets.popleft()
        if self.target.closed:
            self.target.send_reset()
            self._packets.clear()
            return
        scheduler = self._network.scheduler
        scheduler.trace.add_packet(scheduler.now_ns, self.source, len(data))
        self.target.take(data)
        self._send_head()

    def _send_again(self) -> None:
        scheduler, network = self._network.scheduler, self._network
        self._blocked_since_ns = self._blocked_since_ns or scheduler.now_ns
        waited_s = (scheduler.now_ns - self._blocked_since_ns) / NS_PER_SECOND
        if waited_s > network.conditions.unacknowledged_s_max:
            self.source.fail(errno.ETIMEDOUT)
            return
        self._under_way = True
        scheduler.after(self._pause_s * network.rng.uniform(0.9, 1.1), self._arrive)
        self._pause_s = min(self._pause_s * 2, RESEND_S[1])

    def _tell_of_room(self) -> None:
        if self._is_telling:
            return
        self._is_telling = True
        network = self._network

        def told() -> None:
            self._is_awaited = self._is_telling = False
            self._held_bytes -= self._read_bytes
            self._read_bytes = 0
            self.source.stir()

        def lost() -> None:
            self._is_telling = False
            if not self.source.closed:
                network.scheduler.after(RESEND_S[0], self._tell_of_room)

        network.carry(self.target.host, self.source.host, told, lost=None if self.silent else lost)
