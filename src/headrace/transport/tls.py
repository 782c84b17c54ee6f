"""TLS as a stage of a connection: a socket around another one, which encrypts what goes through it.

`ssl` works on two buffers in memory (MemoryBIO), so that frames, limits and turns above it are the same code
as without TLS, and a simulated socket below it would do. Three things are different from a kernel's socket:

- What was received may still lie in here though the kernel has nothing more: `has_more` says so, and whoever
  reads has to read again without being woken (`secure_connection`).
- What was encrypted cannot be taken back. Where the kernel takes a part only, one byte less than that is
  told as sent: the caller offers that byte again, is told to wait, and so comes back until all has left.
- A file cannot be sent by the kernel: it is read and encrypted in pieces.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import Final, cast

from headrace.base.chunks import Buffer, FileSlice
from headrace.transport.network import Socket

# Encrypted at once, before the kernel is asked to take it: eight TLS records.
PIECE_BYTES: Final = 128 * 1024
RECEIVED_BYTES_MAX: Final = 128 * 1024
# A TLS record with all that may come around it. As much may lie in here unread, unfinished.
RECORD_BYTES_MAX: Final = 18 * 1024
# The first byte of whoever speaks TLS: a handshake's record.
_HANDSHAKE_RECORD: Final = 0x16

NOT_TLS: Final = "TLS: the other side does not speak it: is its security.protocol another one?"


class _Received(threading.local):
    """What came, for all sockets of a thread: it moves on before another one reads. Other threads have loops
    of their own, and read while the kernel fills this."""

    def __init__(self) -> None:
        self.bytes = memoryview(bytearray(RECEIVED_BYTES_MAX))


_received: Final = _Received()


class TlsError(ConnectionError):
    """TLS could not be agreed on, or was broken later: the reason, for a person."""


class TlsSocket:
    """TLS over a connected socket. `shake_hands` comes first, until it is through."""

    __slots__ = (
        *("_ended", "_heard", "_incoming", "_outgoing", "_owed", "_socket", "_ssl", "_unsent"),
        *("handshake_done", "has_more", "local", "peer"),
    )

    def __init__(
        self, socket: Socket, context: ssl.SSLContext, *, server_side: bool, server_name: str | None = None
    ) -> None:
        """A client checks the certificate against `server_name`, where its context asks for that."""
        self._socket = socket
        self.local, self.peer = socket.local, socket.peer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self._unsent: Buffer = b""  # encrypted, and not taken by the kernel yet
        self._owed = 0  # bytes that were encrypted and not told as sent: they will be offered again
        self._ended = False
        self._heard = False  # the other side has sent anything
        self.handshake_done = False
        self.has_more = False
        """What was received was not read to its end: read again without waiting for the kernel."""

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """The kernel did not take all: go on when it is writable."""
        return bool(self._unsent)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the other side has shown and that was verified, as DER."""
        return self._ssl.getpeercert(binary_form=True) if self.handshake_done else None

    @property
    def version(self) -> str:
        """TLSv1.2 or TLSv1.3."""
        return self._ssl.version() or ""

    # The handshake

    def shake_hands(self) -> bool:
        """Go on as far as what came allows: whether it is through. TlsError where it cannot be."""
        while True:
            try:
                self._ssl.do_handshake()
                self.handshake_done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                with contextlib.suppress(OSError):
                    self._flush()  # the alert that tells the other side why
                raise TlsError(_reason(error)) from error
            self._flush()
            if self.handshake_done:
                self.has_more = bool(self._incoming.pending)
                return True
            count = self._receive()
            if not count and not self._ended:
                return False
            if count and not self._heard and _received.bytes[0] != _HANDSHAKE_RECORD:
                raise TlsError(NOT_TLS)
            self._heard = True

    # Receiving

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        view = memoryview(buffer)
        room, filled = len(view), 0
        if self.has_more:
            filled = self._decrypt(view, 0)
        while filled < room and not self._ended:
            count = self._receive()
            if not count and not self._ended:
                break
            filled = self._decrypt(view, filled)
            if count < RECEIVED_BYTES_MAX:
                break  # the kernel had no more
        self.has_more = bool(
            self._ended or (filled == room and (self._incoming.pending or self._ssl.pending()))
        )
        if self._outgoing.pending:
            self._flush()  # an answer of TLS itself, as to new keys
        if filled or self._ended:
            return filled
        raise BlockingIOError

    def _decrypt(self, view: memoryview, filled: int) -> int:
        """Go on to fill the view with what was received; how far it is filled. Some clients make a record of
        each of their messages: few steps for one."""
        incoming, read, room = self._incoming, self._ssl.read, len(view)
        try:
            while filled < room:
                count = cast(int, read(room - filled, view[filled:]))  # given a buffer, it is a count
                if not count:
                    self._ended = True  # the other side said goodbye
                    break
                filled += count
                if not incoming.pending:
                    break
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return filled

    def _receive(self) -> int:
        """Bytes from the kernel; 0 where it has none, or the other side has closed (`_ended`)."""
        received = _received.bytes
        try:
            count = self._socket.recv_into(received)
        except (BlockingIOError, InterruptedError):
            return 0
        if count:
            self._incoming.write(received[:count])
        else:
            self._ended = True
            self._incoming.write_eof()
        return count

    def await_bytes(self, count: int) -> None:
        # A part of what is awaited may be here already, in a record that is not finished.
        self._socket.await_bytes(max(1, count - RECORD_BYTES_MAX))

    # Sending

    def send(self, buffers: Sequence[Buffer]) -> int:
        if self._unsent and not self._flush():
            raise BlockingIOError
        taken = 0
        for piece in _pieces(buffers):
            taken += len(piece)
            if not self._send_piece(piece):
                return self._told(taken)
        return taken

    def send_file(self, part: FileSlice) -> int:
        if self._unsent and not self._flush():
            raise BlockingIOError
        taken = 0
        while taken < part.size:
            piece = part.file.read(part.position + taken, min(PIECE_BYTES, part.size - taken))
            if not piece:
                break
            taken += len(piece)
            if not self._send_piece(piece):
                return self._told(taken)
        return taken

    def _send_piece(self, piece: Buffer) -> bool:
        """Encrypt and offer it; whether the kernel took all. What is owed was encrypted before."""
        if self._owed:
            skipped = min(self._owed, len(piece))
            self._owed -= skipped
            piece = memoryview(piece)[skipped:]
        while len(piece):
            try:
                written = self._ssl.write(piece)
            except ssl.SSLError as error:
                raise TlsError(_reason(error)) from error
            if written == len(piece):
                break
            piece = memoryview(piece)[written:]
        return self._flush()

    def _told(self, taken: int) -> int:
        self._owed = 1
        if taken == 1:
            raise BlockingIOError
        return taken - 1

    def _flush(self) -> bool:
        """Give the kernel what is encrypted; whether it took all."""
        unsent = self._unsent or self._outgoing.read()
        while unsent:
            try:
                count = self._socket.send((unsent,))
            except (BlockingIOError, InterruptedError):
                count = 0
            if count < len(unsent):
                self._unsent = memoryview(unsent)[count:]
                return False
            self._unsent = b""
            unsent = self._outgoing.read()
        return True

    def close(self) -> None:
        """Say goodbye where that can be said at once, so that nobody takes the end for an attack."""
        if self.handshake_done and not self._unsent:
            with contextlib.suppress(OSError):
                self._ssl.unwrap()  # asks for the other's goodbye, which is not waited for
            with contextlib.suppress(OSError):
                self._flush()
        self._socket.close()


def _pieces(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """The same bytes in pieces that are worth a record: short buffers joined, long ones cut."""
    if len(buffers) == 1 and len(buffers[0]) <= PIECE_BYTES:
        if len(buffers[0]):
            yield buffers[0]
        return
    short: list[Buffer] = []
    size = 0
    for buffer in buffers:
        if size + len(buffer) > PIECE_BYTES and short:
            yield b"".join(short)
            short, size = [], 0
        if len(buffer) > PIECE_BYTES:
            view = memoryview(buffer)
            for at in range(0, len(view), PIECE_BYTES):
                yield view[at : at + PIECE_BYTES]
        elif len(buffer):
            short.append(buffer)
            size += len(buffer)
    if short:
        yield b"".join(short)


_ADVICE: Final = {
    "CERTIFICATE_VERIFY_FAILED": "",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and ssl.client.auth=required asks for one",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side asks for a certificate: give ssl.keystore.*",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust this side's certificate: see its trust store",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not take this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not take this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this side's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "this side's certificate has been revoked",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other side has no cipher in common, or wants a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "no TLS version in common: see ssl.enabled.protocols",
    "UNSUPPORTED_PROTOCOL": "no TLS version in common: see ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "no cipher in common: see ssl.cipher.suites",
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS: is its security.protocol another one?",
    "HTTP_REQUEST": "the other side speaks HTTP",
}


HUNG_UP: Final = "TLS: the other side hung up in the middle of it"
"""Also what checks of health do, which only try whether a port is open."""


def _reason(error: ssl.SSLError) -> str:
    """What went wrong in TLS, in words and with OpenSSL's name for it."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return HUNG_UP
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the other side's certificate is not accepted: {error.verify_message}"
    name = error.reason or type(error).__name__
    advice = _ADVICE.get(name, "")
    return f"TLS: {advice} ({name})" if advice else f"TLS: {name}"


async def handshake(loop: asyncio.AbstractEventLoop, socket: TlsSocket, timeout_ms: int) -> None:
    """A client's handshake from beginning to end; TlsError or another OSError where it fails."""
    through: asyncio.Future[None] = loop.create_future()
    descriptor = socket.fileno()

    def go_on() -> None:
        if through.done():
            return
        try:
            done = socket.shake_hands()
        except OSError as error:
            through.set_exception(error)
            return
        if socket.has_unsent:
            loop.add_writer(descriptor, go_on)  # also for the last message: the other side waits for it
        elif done:
            through.set_result(None)
        else:
            loop.remove_writer(descriptor)

    def is_late() -> None:
        if not through.done():
            through.set_exception(TimeoutError(f"no TLS with {socket.peer} within {timeout_ms} ms"))

    loop.add_reader(descriptor, go_on)
    timer = loop.call_later(timeout_ms / 1000, is_late)
    try:
        go_on()
        await through
    finally:
        timer.cancel()
        loop.remove_reader(descriptor)
        loop.remove_writer(descriptor)
