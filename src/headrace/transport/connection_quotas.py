"""How many connections are let in, and how fast: Kafka's ConnectionQuotas.

The limits are Kafka's: of the broker (max.connections), of a listener (listener.name.NAME.max.connections),
of an address (max.connections.per.ip and its overrides), and of new connections in a second, of the broker
and of a listener (max.connection.creation.rate). Where the broker or a listener is full, or new ones come too
fast, the listener accepts nothing for a while, and the kernel's backlog holds the newcomers. An address above
its limit is let in and closed at once. Where addresses have quotas of new connections (KIP-612), one that is
above its own is closed after a while, in which its client waits for nothing.

The listener that brokers use among themselves is protected where clients have others: the broker's limits do
not keep it from accepting, and the connection elsewhere that has been quiet longest is closed for it.
Listeners of controllers have quotas of their own, so that clients and the quorum take no place from each
other.

Descriptors are a limit, too, and the log needs some (`descriptors`). Where so many are used that only its
reserve is left, a client that comes is refused and the quietest ones are closed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.base.rates import SampledRate, Windows
from headrace.transport.limits import ConnectionQuotaLimits, ListenerQuotaLimits

if TYPE_CHECKING:
    from headrace.transport.connection import Connection
    from headrace.transport.descriptors import Descriptors
    from headrace.transport.listener import Listener

NO_LIMITS: Final = ListenerQuotaLimits()

ADDRESSES_MAX: Final = 10_000
"""Whose new connections are counted."""


class CreationRate:
    """New connections in a second: a bucket that holds a second's worth of them."""

    def __init__(self, now_s: Callable[[], float], per_second: int) -> None:
        self._now_s = now_s
        self._at_s = now_s()
        self._per_second = per_second
        self._left = float(per_second)

    def set_rate(self, per_second: int) -> None:
        if per_second != self._per_second:
            self._per_second = per_second
            self._left = float(per_second)

    def wait_s(self) -> float:
        """How long until there may be another one."""
        if self._per_second <= 0:
            return 1.0
        now = self._now_s()
        self._left = min(self._left + (now - self._at_s) * self._per_second, float(self._per_second))
        self._at_s = now
        return 0.0 if self._left >= 1 else (1 - self._left) / self._per_second

    def take(self) -> None:
        self._left -= 1


class AddressRates:
    """How many connections addresses may make in a second: their quotas, by address, and None for others."""

    def __init__(self, now_s: Callable[[], float], windows: Windows) -> None:
        self._now_s = now_s
        self._windows = windows
        self._limits: Mapping[str | None, float] = {}
        self._rates: dict[str, SampledRate] = {}

    def follow(self, limits: Mapping[str | None, float]) -> None:
        """Hold addresses to other quotas from now on."""
        self._limits = {None if name is None else _plain(name): limit for name, limit in limits.items()}
        if not limits:
            self._rates.clear()

    def throttle_s(self, address: str) -> float:
        """Count a new connection; how long its address must wait, in which case it is not counted."""
        if not self._limits:
            return 0.0
        address = _plain(address)
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0.0
        now_ms = int(self._now_s() * 1000)
        rate = self._rates.get(address)
        if rate is None:
            rate = self._rates[address] = self._new_rate(now_ms)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._windows.size_ms)
        if throttle_ms > 0:
            rate.record(-1, now_ms)
        return throttle_ms / 1000

    def _new_rate(self, now_ms: int) -> SampledRate:
        if len(self._rates) >= ADDRESSES_MAX:
            kept = {address: rate for address, rate in self._rates.items() if not rate.is_idle(now_ms)}
            # So many came within some seconds: who is counted from the start again gains little.
            self._rates = kept if len(kept) < ADDRESSES_MAX else {}
        return SampledRate(self._windows)


def _plain(address: str) -> str:
    """One form for an address, however it is written: also for one of IPv4 on a listener of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


class AcceptThrottles:
    """How often, and for how long in all, a listener was kept from accepting, and addresses from coming."""

    __slots__ = ("address_count", "address_s", "listener_count", "listener_s")

    def __init__(self) -> None:
        self.listener_count = self.address_count = 0
        self.listener_s = self.address_s = 0.0

    def note_listener(self, wait_s: float) -> None:
        """The broker's or the listener's rate of new connections is used up."""
        self.listener_count += 1
        self.listener_s += wait_s

    def note_address(self, throttle_s: float) -> None:
        """An address is above its quota of new connections."""
        self.address_count += 1
        self.address_s += throttle_s


class ConnectionQuotas:
    """The connections of several listeners, against the limits that hold for all of them together."""

    def __init__(
        self,
        limits: ConnectionQuotaLimits | None = None,
        *,
        now_s: Callable[[], float] = lambda: 0.0,
        protected: str | None = None,
        descriptors: Descriptors | None = None,
        giving_way: ConnectionQuotas | None = None,
        windows: Windows | None = None,
    ) -> None:
        """Where others are `giving_way` theirs are closed for want of descriptors, and never those here."""
        self.limits = limits or ConnectionQuotaLimits()
        self.descriptors = descriptors
        self.count = 0
        self._now_s = now_s
        self._protected = protected
        self._giving_way = giving_way
        self._by_address: dict[str, int] = {}
        self._listeners: dict[Listener, CreationRate] = {}
        self._rate = CreationRate(now_s, self.limits.creation_rate_max)
        self.address_rates = AddressRates(now_s, windows or Windows())

    def join(self, listener: Listener) -> None:
        rate = self._of(listener).creation_rate_max
        self._listeners[listener] = CreationRate(self._now_s, rate)

    def is_protected(self, listener: Listener) -> bool:
        return listener.name == self._protected and len(self._listeners) > 1

    def has_slot(self, listener: Listener) -> bool:
        if len(listener.connections) >= self._of(listener).connections_max:
            return False
        return self.is_protected(listener) or self.count < self.limits.connections_max

    def wait_s(self, listener: Listener) -> float:
        """How long a listener must wait before it accepts another connection."""
        wait_s = self._listeners[listener].wait_s()
        return wait_s if self.is_protected(listener) else max(wait_s, self._rate.wait_s())

    def enter(self, listener: Listener, address: str) -> bool:
        """Count one more from this address; False where it has its limit of connections already."""
        self._rate.take()
        self._listeners[listener].take()
        limit = self.limits.per_address_overrides.get(address, self.limits.per_address_max)
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
        self._admit_again()

    def reconfigure(self, limits: ConnectionQuotaLimits) -> None:
        """Hold to other limits from now on; connections that are too many now are closed."""
        if limits == self.limits:
            return
        self.limits = limits
        self._rate.set_rate(limits.creation_rate_max)
        for listener, rate in self._listeners.items():
            rate.set_rate(self._of(listener).creation_rate_max)
        self.close_excess()
        self._admit_again()

    def close_excess(self) -> None:
        """The broker has more connections than it may: close those that are quietest."""
        excess = self.count - self.limits.connections_max
        if excess > 0 and self._giving_way is None:
            self.close_quietest(excess, "more connections than max.connections")

    def free_descriptors(self, count: int) -> int:
        """Close so many connections that are quiet; how many there were."""
        return (self._giving_way or self).close_quietest(count, "closed for want of descriptors")

    def close_quietest(self, count: int, reason: str) -> int:
        """Close connections that may be closed for others; how many there were."""
        found = [each for listener in self._listeners for each in self._closable(listener)]
        found.sort(key=lambda connection: (connection.waits_for_us, connection.active_at))
        for connection in found[:count]:
            connection.abort(reason)
        return min(count, len(found))

    def _closable(self, listener: Listener) -> Mapping[Connection, None]:
        return {} if self.is_protected(listener) else listener.connections

    def _of(self, listener: Listener) -> ListenerQuotaLimits:
        return self.limits.of_listeners.get(listener.name, NO_LIMITS)

    def _admit_again(self) -> None:
        for listener in self._listeners:
            listener.admit_again()
