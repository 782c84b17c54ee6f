"""Letting connections in, within limits (`connection_quotas`); closing the quiet ones, and all of them in the
end.

Accepting can fail for want of descriptors or memory. The newcomer then stays in the backlog and the listening
socket stays readable, so trying again at once would spin: accepting pauses for a moment instead.

TLS handshakes are counted (`HANDSHAKES_MAX`). Where there are as many as may be, those are closed that have
waited for their clients longest. Where all have clients that answer, as when a whole cluster's come back at
once, nobody is closed: newcomers wait in the backlog until some are through.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from headrace.telemetry.fault_log import FaultLog
from headrace.telemetry.limited_log import LimitedLog
from headrace.transport.attention import Attention
from headrace.transport.channel_builder import PLAINTEXT, ChannelBuilder
from headrace.transport.connection import Connection, OnClose, OnFrame, OnFrames
from headrace.transport.connection_quotas import AcceptThrottles, ConnectionQuotas
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import ConnectionLimits
from headrace.transport.network import ListeningSocket, Network, Socket
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.secure_connection import OnRefused, SecureConnection
from headrace.transport.sending_turns import SendingTurns
from headrace.transport.serving_turns import ServingTurns
from headrace.transport.tls import TlsSocket

log = logging.getLogger(__name__)

# Newcomers taken in one turn of the loop: a flood of them must not keep the others waiting.
ACCEPTS_PER_TURN: Final = 16
ACCEPT_PAUSE_SECONDS: Final = 0.1
# Quiet connections that are closed at once where descriptors are used up: room for some of who tries again.
CLOSED_FOR_ROOM: Final = 8
# Sockets that wait to be closed because their addresses come too fast: each takes a descriptor.
THROTTLED_MAX: Final = 256
# TLS handshakes under way: each has some 100 KiB, and anybody may begin one.
HANDSHAKES_MAX: Final = 1000
# A client that is there answers within a round trip. Beyond it may be closed for others.
HANDSHAKE_PATIENCE_S: Final = 1.0
CROWD_TOLD_EVERY_S: Final = 60.0
_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener:
    """One listening address. `on_open` sees a connection before its first frame, after its handshake where
    `channel_builder` asks for one. One that is `for_cluster`
    serves nodes without which the cluster would stand still: it may use some of the descriptors' reserve."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        *,
        memory: ReceiveMemory,
        on_frame: OnFrame,
        on_frames: OnFrames | None = None,
        attention: Attention | None = None,
        serving: ServingTurns | None = None,
        on_open: Callable[[Connection], None] | None = None,
        on_close: OnClose | None = None,
        limits: ConnectionLimits | None = None,
        faults: FaultLog | None = None,
        name: str = "",
        quotas: ConnectionQuotas | None = None,
        for_cluster: bool = False,
        channel_builder: ChannelBuilder = PLAINTEXT,
        on_refused: OnRefused | None = None,
    ) -> None:
        self._loop = loop
        self._network = network
        self._memory = memory
        self._on_frame = on_frame
        self._on_frames = on_frames
        self._attention = attention
        self._serving = serving or ServingTurns(loop)
        self._on_open = on_open
        self._on_close = on_close
        self._limits = limits or ConnectionLimits()
        self.name = name
        self._faults = faults or FaultLog(loop.time, log)
        self.connections: dict[Connection, None] = {}  # in order of arrival
        self._quotas = quotas or ConnectionQuotas()
        self._quotas.join(self)
        self._turns = SendingTurns(loop)
        self._throttled: dict[Socket, asyncio.TimerHandle] = {}  # to be closed, for their address's quota
        self._handshakes: dict[SecureConnection, None] = {}  # under way, in order of arrival
        self._told_at = -CROWD_TOLD_EVERY_S  # when it was said last that they are too many
        self._for_cluster = for_cluster
        self._channel_builder = channel_builder
        self._on_refused = on_refused
        self._idle = IdleReaper(loop, self._limits.idle_ms_max)
        self._limited_log = LimitedLog(loop.time, log, logging.INFO)
        self._lacking = LimitedLog(loop.time, log, logging.WARNING)
        self._socket: ListeningSocket | None = None
        self._admits = False
        self._accepting = False
        self._retry: asyncio.TimerHandle | None = None
        self.throttles = AcceptThrottles()
        self._emptied: asyncio.Future[None] | None = None

    def listen(self, host: str, port: int, *, backlog: int = 50, admit: bool = True) -> tuple[str, int]:
        """Open the address and begin to accept. Returns it with the port that was picked for 0.

        Without `admit` newcomers wait in the backlog until `admit` is called: a node opens its ports,
        tells the cluster which they are, and lets clients in when it can serve them.
        """
        assert self._socket is None
        self._socket = self._network.listen(host, port, backlog=backlog)
        if admit:
            self.admit()
        return self._socket.address

    @property
    def address(self) -> tuple[str, int]:
        assert self._socket is not None
        return self._socket.address

    def admit(self) -> None:
        """Let newcomers in from now on."""
        self._admits = True
        self.admit_again()

    def admit_again(self) -> None:
        """There may be room: accept, where newcomers are let in and the limits allow it."""
        if not self._admits or self._socket is None or self._accepting or self._retry is not None:
            return
        if self._has_room():
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._on_newcomers)

    def _stop_accepting(self) -> None:
        if self._accepting and self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
        self._accepting = False

    def _on_newcomers(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._socket is None or not self._has_room():
                return
            try:
                socket = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._lacks_resources(error)
                    return
                continue  # that newcomer left before it was let in
            except MemoryError as error:
                self._lacks_resources(error)
                return
            self._let_in(socket)
            if not self._accepting:
                return

    def _has_room(self) -> bool:
        if not self._quotas.has_slot(self):
            self._stop_accepting()
            return False
        wait_s = self._quotas.wait_s(self)
        if wait_s > 0:
            self.throttles.note_listener(wait_s)
            self._pause_accepting(wait_s)
            return False
        if len(self._handshakes) >= HANDSHAKES_MAX and not self._end_slow_handshakes():
            self._pause_accepting(ACCEPT_PAUSE_SECONDS)
            return False
        return True

    def _end_slow_handshakes(self) -> int:
        """Close some whose clients have not answered for long; how many there were."""
        if self._loop.time() - self._told_at >= CROWD_TOLD_EVERY_S:
            self._told_at = self._loop.time()
            self._lacking.write(
                "%s has %d TLS handshakes under way, and may have no more: those whose clients do not answer "
                "are closed, and others wait",
                *(self.name or "a listener", len(self._handshakes)),
            )
        slow = (each for each in self._handshakes if each.peer_is_late_s() >= HANDSHAKE_PATIENCE_S)
        ended = list(islice(slow, ACCEPTS_PER_TURN))
        for connection in ended:
            connection.abort("too many TLS handshakes are under way")
        return len(ended)

    def _pause_accepting(self, seconds: float) -> None:
        self._stop_accepting()
        self._retry = self._loop.call_later(seconds, self._end_pause)

    def _end_pause(self) -> None:
        self._retry = None
        self.admit_again()

    def _let_in(self, socket: Socket) -> None:
        throttle_s = self._quotas.address_rates.throttle_s(socket.peer[0])
        if throttle_s > 0:
            self.throttles.note_address(throttle_s)
            self._close_later(socket, throttle_s)
            return
        if not self._quotas.enter(self, socket.peer[0]):
            self._limited_log.write(
                "refused %s: it has as many connections as one address may (max.connections.per.ip)",
                socket.peer[0],
            )
            socket.close()
            return
        descriptors = self._quotas.descriptors
        if descriptors is not None and not descriptors.may_serve(socket.fileno(), needed=self._needed):
            self._refuse_for_descriptors(socket)
            return
        connection = self._connection(self._channel_builder.server_socket(socket))
        self.connections[connection] = None
        self._idle.watch(connection)
        if isinstance(connection, SecureConnection):
            self._handshakes[connection] = None
            connection.accept_handshake(self._opened, self._on_refused)
        else:
            self._opened(connection)
            connection.start()
        self._quotas.close_excess()

    def _connection(self, socket: Socket) -> Connection:
        parts: dict[str, Any] = {
            "memory": self._memory,
            "limits": self._limits,
            "on_frame": self._on_frame,
            "on_frames": self._on_frames,
            "on_close": self._closed,
            "idle": self._idle,
            "limited_log": self._limited_log,
            "faults": self._faults,
            "attention": self._attention,
            "turns": self._turns,
            "serving": self._serving,
        }
        if isinstance(socket, TlsSocket):
            return SecureConnection(self._loop, socket, **parts)
        return Connection(self._loop, socket, **parts)

    def _opened(self, connection: Connection) -> None:
        self._end_handshake(connection)
        if self._on_open is not None:
            self._on_open(connection)

    def _end_handshake(self, connection: Connection) -> None:
        if isinstance(connection, SecureConnection):
            self._handshakes.pop(connection, None)

    def _close_later(self, socket: Socket, seconds: float) -> None:
        """Its address makes connections faster than its quota: a client that is closed at once would come
        again at once."""
        self._limited_log.write(
            "throttled %s: it makes connections faster than its quota (connection_creation_rate)",
            socket.peer[0],
        )
        if len(self._throttled) >= THROTTLED_MAX:
            socket.close()
            return
        self._throttled[socket] = self._loop.call_later(seconds, self._close_throttled, socket)

    def _close_throttled(self, socket: Socket) -> None:
        self._throttled.pop(socket).cancel()
        socket.close()

    @property
    def _needed(self) -> bool:
        return self._for_cluster or self._quotas.is_protected(self)

    def _lacks_resources(self, error: Exception) -> None:
        """The kernel has nothing left to accept a newcomer with."""
        closed = self._quotas.free_descriptors(CLOSED_FOR_ROOM)
        self._lacking.write(
            "%s accepts nobody for a moment, for want of resources (%r); %d quiet connections are closed",
            *(self.name or "a listener", error, closed),
        )
        self._pause_accepting(ACCEPT_PAUSE_SECONDS)

    def _refuse_for_descriptors(self, socket: Socket) -> None:
        """What is left of the descriptors belongs to files: who comes later gets a quiet one's place."""
        address, taken = socket.peer[0], socket.fileno()
        socket.close()
        closed = self._quotas.free_descriptors(CLOSED_FOR_ROOM)
        self._lacking.write(
            "%s refused %s: %d descriptors are taken, and the rest is kept for files; %d quiet connections "
            "are closed. Raise the limit (ulimit -n), or lower max.connections",
            *(self.name or "a listener", address, taken, closed),
        )
        self._quotas.leave(address)
        self._pause_accepting(ACCEPT_PAUSE_SECONDS)  # a flood may cost the others no more than some a second

    def _closed(self, connection: Connection, reason: str) -> None:
        self.connections.pop(connection, None)
        self._end_handshake(connection)
        self._idle.forget(connection)
        self._quotas.leave(connection.peer[0])
        if self._on_close is not None:
            self._on_close(connection, reason)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    def close(self) -> None:
        """Accept no more and close every connection at once."""
        self.stop_listening()
        for socket in list(self._throttled):
            self._close_throttled(socket)
        for connection in list(self.connections):
            connection.abort("the listener closes")
        self._idle.close()

    def stop_listening(self) -> None:
        """Accept no more; connections live on."""
        self._stop_accepting()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def drain(self, timeout_seconds: float) -> None:
        """Accept no more, let replies that are due leave, and close; what is not done in time is cut off."""
        self.stop_listening()
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            self._emptied = self._loop.create_future()
            timer = self._loop.call_later(timeout_seconds, self.close)
            await self._emptied
            timer.cancel()
        self.close()
