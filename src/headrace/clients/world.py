"""What a client gets from outside: an event loop, the network, the time and chance.

Nothing in this room makes these for itself except `system_world`, so a simulator runs the very same clients
on its own.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.clock import Clock, SystemClock
from headrace.records.columns_arrow import column_kernels, loaded_column_kernels
from headrace.records.kernel_choice import load_compiled
from headrace.transport.network import Network
from headrace.transport.system_network import SocketOptions, SystemNetwork


@dataclass(frozen=True, slots=True)
class World:
    """A client's surroundings. All of a client's state lives on `loop`."""

    loop: asyncio.AbstractEventLoop
    network: Network
    clock: Clock
    rng: random.Random
    # Called when much is being read: compiled kernels are worth the half second that loading them takes.
    load_kernels: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        """Monotonic, for what is waited for."""
        return self.clock.monotonic_ms()


def system_world(
    loop: asyncio.AbstractEventLoop, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
) -> World:
    """This machine's network, clock and chance, on the given loop."""
    options = SocketOptions(send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
    return World(loop, SystemNetwork(options), SystemClock(), random.Random(), _load_kernels)


_LOADING = threading.Lock()


def _load_kernels() -> None:
    """In a thread of its own, once in a process."""

    def load() -> None:
        load_compiled()
        column_kernels()

    if loaded_column_kernels() is None and _LOADING.acquire(blocking=False):
        threading.Thread(target=load, name="headrace-kernels", daemon=True).start()
