"""Bytes from a socket, cut into frames: a length of four bytes, then that many bytes.

A read goes into a borrowed buffer (see `receive_memory`) and may bring many frames, one frame, or a part of
one. Frames are handed out as views of that buffer without a copy. What is left of an unfinished frame stays
where it is while the frame fits behind it, and moves to the front when it does not. A frame larger than its
buffer makes the buffer double as bytes arrive: the length is a claim, and memory is only given for bytes that
came.

A connection remembers roughly how large its frames were, so that a producer of large batches gets a buffer of
that size at once and nothing is copied; the memory fades within a few reads of smaller frames.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.large_memory import grow_room
from headrace.transport.network import Socket
from headrace.transport.receive_memory import ReceiveBuffer, ReceiveMemory

LENGTH_BYTES: Final = 4
# How the first record of a TLS handshake begins: its kind, and version 3.
TLS_HANDSHAKE: Final = 0x1603
_length_at = struct.Struct(">i").unpack_from


class FrameReader:
    """The receiving half of a connection: `fill`, then `next_frame` until None, then `settle`."""

    __slots__ = (
        "_expected",
        "_largest",
        "_memory",
        "_stash",
        "buffer",
        "end",
        "frame_bytes_max",
        "start",
    )

    def __init__(self, memory: ReceiveMemory, frame_bytes_max: int) -> None:
        self._memory = memory
        # What was received and not taken yet is `buffer` from `start` to `end`.
        self.buffer: ReceiveBuffer | None = None
        self.start = 0
        self.end = 0
        self._stash = b""
        self._expected = 0
        self._largest = 0
        self.frame_bytes_max = frame_bytes_max

    def fill(self, socket: Socket) -> tuple[int, bool]:
        """Read once. Returns the bytes read (0: the peer has closed), and whether they filled the room."""
        buffer = self.buffer
        buffer = self._borrow() if buffer is None else self._make_room(buffer)
        end = self.end
        window = buffer.view[end:] if end else buffer.view
        count = socket.recv_into(window)
        self.end = end + count
        return count, count == len(window)

    def reopen(self) -> None:
        """Look again at what `settle` left, for frames that were not taken then."""
        if self.buffer is None and self._stash:
            self._borrow()

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length; None when more bytes are needed."""
        buffer = self.buffer
        begin = self.start + LENGTH_BYTES
        if buffer is None or begin > self.end:
            return None
        (length,) = _length_at(buffer.data, self.start)
        if length <= 0 or length > self.frame_bytes_max:
            hint = "; it speaks TLS, and this listener does not" if length >> 16 == TLS_HANDSHAKE else ""
            raise InvalidBytesError(
                f"a frame of {length} bytes: it must have 1 to {self.frame_bytes_max}{hint}"
            )
        end = begin + length
        if end > self.end:
            return None
        self.start = end
        if length > self._largest:
            self._largest = length
        return buffer.view[begin:end]

    @property
    def has_frame(self) -> bool:
        """Whether the next frame is there as a whole, or is none at all."""
        begin = self.start + LENGTH_BYTES
        if self.buffer is None or begin > self.end:
            return False
        return begin + int(_length_at(self.buffer.data, self.start)[0]) <= self.end

    def pass_over(self, to: int, largest: int) -> None:
        """Frames up to `to` were taken out of the buffer by another way; the `largest` had so many bytes."""
        self.start = to
        if largest > self._largest:
            self._largest = largest

    def settle(self) -> int:
        """After the last frame of a read: give the buffer back if possible. Returns the bytes still held."""
        buffer = self.buffer
        if buffer is None:
            return len(self._stash)
        if self._largest:
            self._learn_size()
        rest = self.end - self.start
        if rest > self._memory.stash_bytes_max:
            # One huge frame must not leave its buffer behind with a peer that sends small ones from then on.
            if len(buffer.data) > 4 * max(2 * rest, self._expected, self._memory.limits.buffer_bytes):
                buffer = self._move_to(self._memory.take(max(2 * rest, self._expected)))
            return len(buffer.data)
        if rest:
            self._stash = bytes(buffer.view[self.start : self.end])
        self._memory.give_back(buffer)
        self.buffer = None
        return rest

    @property
    def received_bytes(self) -> int:
        """What is there and not taken yet."""
        return len(self._stash) if self.buffer is None else self.end - self.start

    @property
    def announced_bytes(self) -> int:
        """What the unfinished frame has in all, its length included; 0 where that is not there yet."""
        if self.received_bytes < LENGTH_BYTES:
            return 0
        data, at = (self._stash, 0) if self.buffer is None else (self.buffer.data, self.start)
        return int(_length_at(data, at)[0]) + LENGTH_BYTES

    def detach(self) -> int:
        """The frame that was taken last keeps its memory: nothing else is received into it. What came behind
        it moves. Returns the bytes that it has for itself."""
        buffer = self.buffer
        if buffer is None:
            return 0
        self._stash = bytes(buffer.view[self.start : self.end])
        self.buffer = None
        self.start = self.end = 0
        self.reopen()
        return len(buffer.data)

    def discard(self) -> None:
        """The connection is gone: its buffer can serve others."""
        if self.buffer is not None:
            self._memory.give_back(self.buffer)
            self.buffer = None
        self._stash = b""
        self.start = self.end = 0

    def _borrow(self) -> ReceiveBuffer:
        buffer = self.buffer = self._memory.take(max(self._expected, len(self._stash) + LENGTH_BYTES))
        self.start = 0
        self.end = len(self._stash)
        if self.end:
            buffer.view[: self.end] = self._stash
            self._stash = b""
        return buffer

    def _make_room(self, buffer: ReceiveBuffer) -> ReceiveBuffer:
        """See that the unfinished frame at the start can go on behind what is there of it."""
        size = len(buffer.data)
        start = self.start
        rest = self.end - start
        needed = LENGTH_BYTES
        if rest >= LENGTH_BYTES:
            needed += int(_length_at(buffer.data, start)[0])
        if rest == size:
            return self._grow(buffer, min(max(needed, size + 1), 2 * size))
        if start and (not rest or start + needed > size or self.end == size):
            self._move_to(buffer)
        return buffer

    def _grow(self, buffer: ReceiveBuffer, size: int) -> ReceiveBuffer:
        """Make room behind an unfinished frame that fills its buffer: by moving pages once it is large."""
        if isinstance(buffer.data, bytearray):
            return self._move_to(self._memory.take_exactly(size))
        buffer.view.release()
        data = grow_room(buffer.data, size)
        self.buffer = grown = ReceiveBuffer(data, memoryview(data))
        return grown

    def _move_to(self, target: ReceiveBuffer) -> ReceiveBuffer:
        """What is not handled yet moves to the front of `target`, which may be the buffer it is in."""
        buffer = self.buffer
        assert buffer is not None
        rest = self.end - self.start
        if rest:
            target.view[:rest] = buffer.view[self.start : self.end]
        if target is not buffer:
            self._memory.give_back(buffer)
            self.buffer = target
        self.start = 0
        self.end = rest
        return target

    def _learn_size(self) -> None:
        largest = self._largest + LENGTH_BYTES
        self._largest = 0
        faded = self._expected - (self._expected >> 3)
        self._expected = min(max(largest, faded), self._memory.limits.buffer_bytes_expected_max)
