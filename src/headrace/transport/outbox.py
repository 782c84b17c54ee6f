"""The sending half of a connection: chunks in order, given to the kernel with as few calls as possible.

Buffers that stand next to each other leave in one `sendmsg`, file slices by `sendfile`. A short slice is read
and joined with its neighbours instead: a fetch over many partitions would otherwise pay two calls and two
packets for each. A call that takes less than it was offered means the kernel's buffer is full (`is_blocked`),
so no further call is made to learn it.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Final

from headrace.base.chunks import Buffer, Chunk, Chunks, FileSlice
from headrace.transport.network import Socket

# Most buffers in one sendmsg, and most bytes gathered for it: enough to fill a usual socket buffer.
GATHER_COUNT_MAX: Final = 64
GATHER_BYTES_MAX: Final = 256 * 1024
# A file slice up to this size costs less to read and copy than a call and a packet of its own.
SLICE_READ_BYTES_MAX: Final = 8 * 1024


class FileEndedError(OSError):
    """A file ended before its slice, whose bytes the frame's length has promised already."""


class Outbox:
    """Chunks that the kernel has not taken yet, and how many bytes they are. `is_blocked`: it would not have
    taken more when it was last asked.
    """

    __slots__ = ("_chunks", "is_blocked", "size")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self.size = 0
        self.is_blocked = False

    def push(self, chunks: Chunks, size: int) -> None:
        """Queue chunks of `size` bytes in all."""
        self._chunks.extend(chunks)
        self.size += size

    def clear(self) -> None:
        self._chunks.clear()
        self.size = 0

    def flush(self, socket: Socket, bytes_max: int) -> int:
        """Send up to `bytes_max` bytes. Returns what the kernel took; `size` tells what is left."""
        chunks = self._chunks
        taken = 0
        self.is_blocked = False
        try:
            while chunks and taken < bytes_max:
                head = chunks[0]
                room = bytes_max - taken
                if isinstance(head, FileSlice) and head.size > SLICE_READ_BYTES_MAX:
                    offered = min(head.size, room)
                    count = self._send_file(socket, head, offered)
                elif len(chunks) == 1 and not isinstance(head, FileSlice) and len(head) <= room:
                    offered = len(head)
                    count = socket.send((head,))
                    if count == offered:
                        chunks.popleft()
                    else:
                        chunks[0] = memoryview(head)[count:]
                else:
                    run = self._gather(room)
                    offered = sum(map(len, run))
                    count = socket.send(run)
                    self._drop(count)
                taken += count
                if count < offered:
                    self.is_blocked = True
                    break
        except (BlockingIOError, InterruptedError):
            self.is_blocked = True
        self.size -= taken
        return taken

    def _send_file(self, socket: Socket, head: FileSlice, offered: int) -> int:
        try:
            count = socket.send_file(FileSlice(head.file, head.position, offered))
        except OSError as error:
            if error.errno == errno.EIO:  # everything else is about the socket
                head.file.on_fault(error)
            raise
        if count == 0:
            raise _ended_early(head, head.size)
        if count == head.size:
            self._chunks.popleft()
        else:
            self._chunks[0] = FileSlice(head.file, head.position + count, head.size - count)
        return count

    def _gather(self, bytes_max: int) -> list[Buffer]:
        """The buffers that can leave in one call, up to the next long slice; short ones are read. What goes
        beyond `bytes_max` is cut off.
        """
        run: list[Buffer] = []
        size = 0
        for index, chunk in enumerate(self._chunks):
            if isinstance(chunk, FileSlice):
                if chunk.size > SLICE_READ_BYTES_MAX:
                    break
                data: Buffer = _read_slice(chunk)
                self._chunks[index] = data
            else:
                data = chunk
            if size + len(data) > bytes_max:
                run.append(memoryview(data)[: bytes_max - size])
                break
            run.append(data)
            size += len(data)
            if size >= GATHER_BYTES_MAX or len(run) == GATHER_COUNT_MAX:
                break
        return run

    def _drop(self, count: int) -> None:
        """Forget the first `count` bytes."""
        chunks = self._chunks
        while count:
            head = chunks[0]
            size = len(head)
            if count < size:
                assert not isinstance(head, FileSlice)
                chunks[0] = memoryview(head)[count:]
                return
            chunks.popleft()
            count -= size
        # Empty chunks at the front would otherwise be offered again and again.
        while chunks and not len(chunks[0]):
            chunks.popleft()


def _read_slice(part: FileSlice) -> bytes:
    try:
        data = part.read()
    except OSError as error:
        part.file.on_fault(error)
        raise
    if len(data) != part.size:
        raise _ended_early(part, part.size - len(data))
    return data


def _ended_early(part: FileSlice, missing_bytes: int) -> FileEndedError:
    error = FileEndedError(f"it ended {missing_bytes} bytes before byte {part.position + part.size}")
    part.file.on_fault(error)
    return error
