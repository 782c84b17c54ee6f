"""A node as a process: from its settings to `ready`, and from a signal to a clean stop.

The first SIGTERM or SIGINT stops in order: no new connections, waiting requests answered, logs closed. A
second one ends the process at once, which is what a person who presses Ctrl-C again wants; the logs then
recover at the next start.
"""

import asyncio
import contextlib
import gc
import logging
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.base.clock import SystemClock
from headrace.log.system_disk import SystemDisk
from headrace.node.assembly import Node, start_node
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.sources import Source
from headrace.tiered.stores.opening import open_store
from headrace.transport.attention import Attention
from headrace.transport.system_network import SocketOptions, SystemNetwork

logger = logging.getLogger(__name__)

# Requests are freed by reference counts; the collector only finds rare cycles, so it looks seldom.
GC_THRESHOLDS: Final = (50_000, 20, 100)
# A start loads millions of objects that stay: looking through them again and again took a third of its time.
GC_THRESHOLDS_OF_START: Final = (200_000, 50, 100)

STDIN: Final = 0

OnReady = Callable[[list[tuple[str, int]]], None]
"""Called with the addresses for clients once they can be served."""


def run(
    config: BrokerConfig,
    on_ready: OnReady,
    *,
    on_progress: Callable[[str], None] | None = None,
    supervised: bool = False,
) -> int:
    """Run a node until a signal ends it; one that is supervised, also until stdin is closed. Returns the
    exit status; start-up errors are raised."""
    allow_many_files()
    gc.set_threshold(*GC_THRESHOLDS_OF_START)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_serve(config, on_ready, on_progress, supervised))


def allow_many_files() -> None:
    """Segments and connections are descriptors: take as many as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Where the hard limit is none (macOS), the kernel may still refuse it: then the soft one stays.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed; asyncio's own loop serves as well, at half the pace."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def system_network(config: BrokerConfig) -> SystemNetwork:
    """Socket buffers as the user wants them; left to the kernel otherwise, because Kafka's default of 100
    KiB turns its own sizing off and doubles the CPU per byte produced.
    """

    def buffer_bytes(setting: str) -> int:
        return -1 if config.source(setting) is Source.DEFAULT else config.int(setting)

    return SystemNetwork(
        SocketOptions(
            send_buffer_bytes=buffer_bytes("socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer_bytes("socket.receive.buffer.bytes"),
        )
    )


async def _serve(
    config: BrokerConfig, on_ready: OnReady, on_progress: Callable[[str], None] | None, supervised: bool
) -> int:
    loop = asyncio.get_running_loop()
    stop = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, stop, number)
    if supervised:
        loop.add_reader(STDIN, _on_stdin, loop, stop)
    disk = SystemDisk()
    starting = loop.create_task(
        start_node(
            config,
            loop=loop,
            clock=SystemClock(),
            disk=disk,
            network=system_network(config),
            rng=random.SystemRandom(),
            on_progress=on_progress,
            on_failure=partial(_on_failure, stop),
            attention=Attention(loop, time.perf_counter_ns, getattr(os, "sched_yield", int)),
            # A controller alone decides which topics may be tiered, and never touches what is in the store.
            remote_store=open_store(config, disk) if "broker" in config.roles else None,
        )
    )
    # A node of a cluster may wait for the others for as long as it takes: a signal ends that, too.
    await asyncio.wait([starting, stop], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return 0 if stop.exception() is None else 1
    node = starting.result()
    on_ready(node.addresses)
    load_kernels_behind(loop)
    return await _until_stopped(node, stop)


async def _until_stopped(node: Node, stop: "asyncio.Future[int]") -> int:
    status = 0
    try:
        number = await stop
        logger.info("stopping on %s", signal.Signals(number).name)
    except Exception as error:
        logger.critical("stopping because of a fault: %s", error)
        status = 1
    await node.stop()
    return status


def _on_stdin(loop: asyncio.AbstractEventLoop, stop: "asyncio.Future[int]") -> None:
    """Nobody writes there: it is readable when the process at its other end has ended."""
    if not os.read(STDIN, 1):
        loop.remove_reader(STDIN)
        if not stop.done():
            stop.set_result(signal.SIGTERM)


def _on_failure(stop: "asyncio.Future[int]", error: Exception) -> None:
    if not stop.done():
        stop.set_exception(error)


def _on_signal(stop: "asyncio.Future[int]", number: int) -> None:
    if stop.done():
        os._exit(128 + number)
    stop.set_result(number)


def load_kernels_behind(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    """Load the compiled kernels in a thread, while their plain twins already serve.

    numba alone is a hundred thousand objects that live as long as the process. A full collection walks them
    for 100 ms in which nobody is served, so there is none while they load, and afterwards they are set aside
    for good.
    """
    from headrace.records.kernel_choice import load_compiled

    gc.disable()

    def load() -> None:
        try:
            load_compiled()
        finally:
            loop.call_soon_threadsafe(_set_aside_for_good)

    thread = threading.Thread(target=load, name="kernels", daemon=True)
    thread.start()
    return thread


def _set_aside_for_good() -> None:
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
