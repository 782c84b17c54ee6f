"""Letting connections in, within limits; closing the quiet ones, and all of them in the end.

Limits are Kafka's. `Admission` counts over all listeners of a node: at `max.connections` a listener stops
accepting until a connection ends, and the kernel's backlog holds the newcomers. The listener that brokers use
among themselves is let through even then, at the cost of the connection elsewhere that has been quiet
longest. An address above its own limit is accepted and closed at once.

Accepting can fail for want of descriptors or memory. The newcomer then stays in the backlog and the listening
socket stays readable, so trying again at once would spin: accepting pauses for a moment instead.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Final

from headrace.transport.attention import Attention
from headrace.transport.complaints import Complaints
from headrace.transport.connection import Connection, OnClose, OnFrame, OnFrames
from headrace.transport.idle import IdleReaper
from headrace.transport.limits import AdmissionLimits, ConnectionLimits
from headrace.transport.network import ListeningSocket, Network, Socket
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.sending_turns import SendingTurns

log = logging.getLogger(__name__)

# Newcomers taken in one turn of the loop: a flood of them must not keep the others waiting.
ACCEPTS_PER_TURN: Final = 64
ACCEPT_PAUSE_SECONDS: Final = 0.1
_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Admission:
    """The connections of all listeners of a node, against the limits that hold for all of them."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self.limits = limits or AdmissionLimits()
        self._by_address: dict[str, int] = {}
        self._overrides = dict(self.limits.per_address_overrides)
        self._listeners: list[Listener] = []
        self.count = 0

    def join(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def is_full(self) -> bool:
        return self.count >= self.limits.connections_max

    def enter(self, address: str) -> bool:
        """Count one more from this address; False where it has its limit of connections already."""
        limit = self._overrides.get(address, self.limits.per_address_max)
        there = self._by_address.get(address, 0)
        if there >= limit:
            return False
        self._by_address[address] = there + 1
        self.count += 1
        return True

    def leave(self, address: str) -> None:
        there = self._by_address[address] - 1
        if there:
            self._by_address[address] = there
        else:
            del self._by_address[address]
        self.count -= 1
        for listener in self._listeners:
            listener.admit_again()

    def close_quietest(self, spared: Listener) -> None:
        """Make room for a listener that may not be kept out, if any connection is not its own."""
        others = [c for listener in self._listeners if listener is not spared for c in listener.connections]
        if others:
            quietest = min(others, key=lambda connection: connection.active_at)
            quietest.abort("made room for a connection between brokers")


class Listener:
    """One listening address. `on_open` sees a connection before its first frame."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        *,
        memory: ReceiveMemory,
        on_frame: OnFrame,
        on_frames: OnFrames | None = None,
        attention: Attention | None = None,
        on_open: Callable[[Connection], None] | None = None,
        on_close: OnClose | None = None,
        limits: ConnectionLimits | None = None,
        admission: Admission | None = None,
        between_brokers: bool = False,
    ) -> None:
        self._loop = loop
        self._network = network
        self._memory = memory
        self._on_frame = on_frame
        self._on_frames = on_frames
        self._attention = attention
        self._on_open = on_open
        self._on_close = on_close
        self._limits = limits or ConnectionLimits()
        self._admission = admission or Admission()
        self._admission.join(self)
        self._turns = SendingTurns(loop)
        self._between_brokers = between_brokers
        self._idle = IdleReaper(loop, self._limits.idle_ms_max)
        self._complaints = Complaints(loop, log, logging.INFO)
        self._socket: ListeningSocket | None = None
        self._admits = False
        self._accepting = False
        self._retry: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self.connections: dict[Connection, None] = {}  # in order of arrival

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
                    self._pause_accepting(error)
                    return
                continue  # that newcomer left before it was let in
            self._let_in(socket)

    def _has_room(self) -> bool:
        if self._between_brokers or not self._admission.is_full():
            return True
        self._stop_accepting()
        return False

    def _pause_accepting(self, error: OSError) -> None:
        log.warning("cannot accept connections for want of resources, trying again shortly: %s", error)
        self._stop_accepting()
        self._retry = self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._end_pause)

    def _end_pause(self) -> None:
        self._retry = None
        self.admit_again()

    def _let_in(self, socket: Socket) -> None:
        if self._admission.is_full():
            self._admission.close_quietest(self)
        if not self._admission.enter(socket.peer[0]):
            self._complaints.write(
                "refused %s: it has as many connections as one address may", socket.peer[0]
            )
            socket.close()
            return
        connection = Connection(
            self._loop,
            socket,
            memory=self._memory,
            limits=self._limits,
            on_frame=self._on_frame,
            on_frames=self._on_frames,
            on_close=self._closed,
            idle=self._idle,
            complaints=self._complaints,
            attention=self._attention,
            turns=self._turns,
        )
        self.connections[connection] = None
        self._idle.watch(connection)
        if self._on_open is not None:
            self._on_open(connection)
        connection.start()

    def _closed(self, connection: Connection, reason: str) -> None:
        self.connections.pop(connection, None)
        self._idle.forget(connection)
        self._admission.leave(connection.peer[0])
        if self._on_close is not None:
            self._on_close(connection, reason)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    def close(self) -> None:
        """Accept no more and close every connection at once."""
        self.stop_listening()
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
