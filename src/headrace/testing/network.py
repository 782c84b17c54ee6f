"""A network in memory: hosts by name, TCP between them, and everything that can happen on the way.

`attach` gives a process its network (`Host`, which implements `transport.network.Network`). A machine
keeps its name and address over restarts of its processes. How a process ended decides what others see of
it: the kernel of a killed process closes its connections, that of a machine without power says nothing.

Faults: `block` (one way), `partition`, `heal`, `cut` (reset connections), `silence` (connections that
swallow everything), and `conditions` for delay, loss and short reads. The connections themselves are in
`streams`.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from headrace.testing.conditions import Conditions
from headrace.testing.loop import SimulatedLoop
from headrace.testing.scheduler import NS_PER_SECOND, Scheduler
from headrace.testing.streams import RESEND_S, Stream

FIRST_EPHEMERAL_PORT: Final = 32_768
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# A host's own loopback, for which no packet travels.
_LOOPBACK_LATENCY_S: Final = 0.000_02


class Listening:
    """Implements `transport.network.ListeningSocket`."""

    def __init__(self, host: "Host", address: tuple[str, int], backlog: int) -> None:
        self.host = host
        self.address = address
        self.backlog = backlog
        self._waiting: deque[Stream] = deque()
        self._closed = False
        self._number = host.loop.open_descriptor(self)

    def fileno(self) -> int:
        return self._number

    def accept(self) -> Stream:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if not self._waiting:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._waiting.popleft()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.host.loop.close_descriptor(self._number)
        self.host.listening.pop(self.address[1], None)
        for stream in self._waiting:
            stream.send_reset()
            stream.close()

    def readable(self) -> bool:
        return bool(self._waiting)

    def writable(self) -> bool:
        return False

    def is_for(self, client: "Host") -> bool:
        return self.address[0] not in _LOOPBACK or client.machine is self.host.machine

    def has_room(self) -> bool:
        return len(self._waiting) < max(1, self.backlog)

    def offer(self, stream: Stream) -> None:
        self._waiting.append(stream)
        self.host.loop.stir(self._number)


class NetworkMachine:
    """What stays while processes come and go: name, address, and whether there is power."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_up = False
        self.host: Host | None = None
        self.next_port = FIRST_EPHEMERAL_PORT


class Host:
    """The network of one process; implements `transport.network.Network`."""

    def __init__(self, network: "VirtualNetwork", machine: NetworkMachine, loop: SimulatedLoop) -> None:
        self.network = network
        self.machine = machine
        self.loop = loop
        self.listening: dict[int, Listening] = {}
        self.streams: dict[Stream, None] = {}

    @property
    def name(self) -> str:
        return self.machine.name

    def own_name(self) -> str:
        return self.machine.address

    def lookup(self, loop: object, host: str) -> None:
        """Everybody knows everybody."""

    def listen(self, host: str, port: int, *, backlog: int) -> Listening:
        self._check_alive()
        if host not in (*_EVERY_ADDRESS, *_LOOPBACK, self.machine.name, self.machine.address):
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        if port in self.listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        shown = host if host in (*_EVERY_ADDRESS, *_LOOPBACK) else self.machine.address
        listening = Listening(self, (shown, port or self._free_port()), backlog)
        self.listening[listening.address[1]] = listening
        return listening

    def connect(self, host: str, port: int) -> Stream:
        self._check_alive()
        target = self.machine if host in _LOOPBACK else self.network.machine(host)
        if target is None:
            raise OSError(errno.EHOSTUNREACH, f"no machine has the name or address {host!r}")
        return self.network.begin_connect(self, target, port)

    def open_stream(self, local: tuple[str, int], peer: tuple[str, int], remote: "Host") -> Stream:
        stream = Stream(self, local, peer, remote)
        self.streams[stream] = None
        return stream

    def free_address(self) -> tuple[str, int]:
        return self.machine.address, self._free_port()

    def _free_port(self) -> int:
        self.machine.next_port += 1
        return self.machine.next_port

    def _check_alive(self) -> None:
        if self.machine.host is not self:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))


class VirtualNetwork:
    """All machines, the ways between them, and what is wrong with those ways."""

    def __init__(self, scheduler: Scheduler, conditions: Conditions | None = None) -> None:
        self.scheduler = scheduler
        self.conditions = conditions or Conditions()
        self.rng = scheduler.random_for("network")
        self._machines: dict[str, NetworkMachine] = {}
        self._blocked: set[tuple[str, str]] = set()

    def note(self, text: str) -> None:
        self.scheduler.note(text)

    # --- machines and processes ---

    def machine(self, name_or_address: str) -> NetworkMachine | None:
        found = self._machines.get(name_or_address)
        if found is None:
            by_address = (m for m in self._machines.values() if m.address == name_or_address)
            found = next(by_address, None)
        return found

    def attach(self, name: str, loop: SimulatedLoop) -> Host:
        """The network of a new process on the machine of that name, which then has power."""
        machine = self._machines.get(name)
        if machine is None:
            machine = self._machines[name] = NetworkMachine(name, f"10.0.0.{len(self._machines) + 1}")
        machine.is_up = True
        machine.host = Host(self, machine, loop)
        return machine.host

    def detach(self, host: Host, *, power_cut: bool) -> None:
        """The process ended. Its kernel closes its sockets, unless that is gone as well."""
        if host.machine.host is not host:
            return
        host.machine.host = None
        host.machine.is_up = not power_cut
        streams, listening = list(host.streams), list(host.listening.values())
        for stream in streams:
            if power_cut:
                stream.vanish()
            else:
                stream.close()
        for each in listening:
            each.close()

    # --- carrying ---

    def can_pass(self, source: Host, target: Host) -> bool:
        """A packet may leave one machine and reach the other."""
        if source.machine is target.machine:
            return True
        is_way_open = (source.name, target.name) not in self._blocked
        return is_way_open and source.machine.is_up and target.machine.is_up

    def latency_s(self, source: Stream, target: Stream) -> float:
        if source.host.machine is target.host.machine:
            return _LOOPBACK_LATENCY_S
        return self.conditions.latency_s(self.rng)

    def carry(
        self,
        source: Host,
        target: Host,
        arrive: Callable[[], None],
        *,
        lost: Callable[[], None] | None = None,
    ) -> None:
        """Bring one packet over: `arrive` later, or `lost` if the way is blocked by then."""

        def land() -> None:
            if self.can_pass(source, target):
                arrive()
            elif lost is not None:
                lost()

        is_local = source.machine is target.machine
        delay_s = _LOOPBACK_LATENCY_S if is_local else self.conditions.latency_s(self.rng)
        self.scheduler.after(delay_s, land)

    # --- connecting ---

    def begin_connect(self, client: Host, target: NetworkMachine, port: int) -> Stream:
        # A target without a process has no host to ask; one that never answers stands in for it.
        remote = target.host or Host(self, target, client.loop)
        stream = client.open_stream(client.free_address(), (target.address, port), remote)
        give_up_ns = self.scheduler.now_ns + round(self.conditions.connect_s_max * NS_PER_SECOND)
        self._ask(stream, target, port, give_up_ns, pause_s=1.0)
        return stream

    def _ask(
        self, stream: Stream, target: NetworkMachine, port: int, give_up_ns: int, pause_s: float
    ) -> None:
        """Send the opening packet, and again after a pause that doubles, until it is answered."""
        remote = target.host or stream.remote
        stream.remote = remote

        def again() -> None:
            if self.scheduler.now_ns >= give_up_ns:
                stream.fail(errno.ETIMEDOUT)
            elif not stream.closed:
                self.scheduler.after(
                    pause_s, lambda: self._ask(stream, target, port, give_up_ns, pause_s=pause_s * 2)
                )

        self.carry(stream.host, remote, lambda: self._answer(stream, target, port, again), lost=again)

    def _answer(self, stream: Stream, target: NetworkMachine, port: int, again: Callable[[], None]) -> None:
        """The opening packet arrived: refuse it, drop it, or let a new connection wait to be accepted."""
        if stream.closed:
            return
        host = target.host
        listening = host.listening.get(port) if host is not None else None
        if host is None or listening is None or not listening.is_for(stream.host):
            refusing = host or stream.remote
            self.carry(refusing, stream.host, lambda: stream.fail(errno.ECONNREFUSED), lost=again)
            return
        if not listening.has_room():
            again()
            return
        stream.remote = host
        accepted = host.open_stream(stream.peer, stream.local, stream.host)
        accepted.join(stream)
        stream.join(accepted)
        accepted.establish()
        listening.offer(accepted)
        self.scheduler.note_detail(f"{stream!r} reaches its target")
        self._confirm(stream, host)

    def _confirm(self, stream: Stream, host: Host) -> None:
        def again() -> None:
            if not stream.closed:
                self.scheduler.after(RESEND_S[0], lambda: self._confirm(stream, host))

        self.carry(host, stream.host, stream.establish, lost=again)

    # --- faults ---

    def block(self, source: str, target: str) -> None:
        """Nothing gets from one machine to the other; the way back stays as it is."""
        self._blocked.add((source, target))
        self.note(f"way from {source} to {target} blocked")

    def partition(self, ones: Iterable[str], others: Iterable[str]) -> None:
        """Nothing gets through between the two sides."""
        others = list(others)
        for one in ones:
            for other in others:
                self.block(one, other)
                self.block(other, one)

    def heal(self) -> None:
        """All ways are open again, and the wire is as it was."""
        if self._blocked:
            self._blocked.clear()
            self.note("all ways open")

    def connections(self, *machines: str) -> list[Stream]:
        """Open connections, one end of each, that touch all of these machines."""
        found = []
        for machine in self._machines.values():
            for stream in machine.host.streams if machine.host is not None else ():
                is_first_end = stream.other is not None and (stream.host.name, stream.local) < (
                    stream.other.host.name,
                    stream.other.local,
                )
                if is_first_end and set(machines) <= {stream.host.name, stream.remote.name}:
                    found.append(stream)
        return found

    def cut(self, stream: Stream) -> None:
        """Break a connection at both ends at once; what was on its way is lost."""
        self.note(f"{stream!r} cut")
        stream.fail(errno.ECONNRESET)
        if stream.other is not None:
            stream.other.fail(errno.ECONNRESET)

    def silence(self, stream: Stream) -> None:
        """From now on the connection swallows everything, as a forgetful firewall makes it."""
        self.note(f"{stream!r} silenced")
        for end in (stream, stream.other):
            if end is not None and end.pipe is not None:
                end.pipe.silent = True
