"""What a client gets from outside: an event loop, the network, the time and chance.

Nothing in this room makes these for itself except `system_environment`, so a simulator runs the very same
clients on its own.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.clock import Clock, SystemClock
from headrace.clients.config import ClientConfig
from headrace.records.columns.schema import column_kernels, loaded_column_kernels
from headrace.records.kernels.choice import load_compiled
from headrace.transport.network import Network
from headrace.transport.system_network import SocketOptions, SystemNetwork


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """What a client gets from outside. All of a client's state lives on `loop`."""

    loop: asyncio.AbstractEventLoop
    network: Network
    clock: Clock
    rng: random.Random
    # Called when much is being read: compiled kernels are worth the half second that loading them takes.
    load_kernels: Callable[[], None] = lambda: None
    # Called where the loop has something to do. A sync client's caller lets the loop's thread run: that would
    # get the interpreter's lock back from a busy caller only after 5 ms, at every system call.
    make_way: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        """Monotonic, for what is waited for."""
        return self.clock.monotonic_ms()


def system_environment(
    loop: asyncio.AbstractEventLoop, config: ClientConfig | None = None
) -> ClientEnvironment:
    """This machine's network, clock and chance, on the given loop; with the socket buffers of a config."""
    options = SocketOptions()
    if config is not None:
        options = SocketOptions(
            send_buffer_bytes=config.int("send.buffer.bytes"),
            receive_buffer_bytes=config.int("receive.buffer.bytes"),
        )
    return ClientEnvironment(loop, SystemNetwork(options), SystemClock(), random.Random(), _load_kernels)


_LOADING = threading.Lock()


def _load_kernels() -> None:
    """In a thread of its own, once in a process."""

    def load() -> None:
        load_compiled()
        column_kernels()

    if loaded_column_kernels() is None and _LOADING.acquire(blocking=False):
        threading.Thread(target=load, name="headrace-kernels", daemon=True).start()
