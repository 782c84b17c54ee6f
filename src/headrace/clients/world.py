"""What a client gets from outside: an event loop, the network, the time and chance.

Nothing in this room makes these for itself except `system_world`, so a simulator runs the very same clients
on its own.
"""

import asyncio
import random
from dataclasses import dataclass

from headrace.base.clock import Clock, SystemClock
from headrace.transport.network import Network
from headrace.transport.system_network import SocketOptions, SystemNetwork


@dataclass(frozen=True, slots=True)
class World:
    """A client's surroundings. All of a client's state lives on `loop`."""

    loop: asyncio.AbstractEventLoop
    network: Network
    clock: Clock
    rng: random.Random

    def now_ms(self) -> int:
        """Monotonic, for what is waited for."""
        return self.clock.monotonic_ms()


def system_world(
    loop: asyncio.AbstractEventLoop, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
) -> World:
    """This machine's network, clock and chance, on the given loop."""
    options = SocketOptions(send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
    return World(loop, SystemNetwork(options), SystemClock(), random.Random())
