"""A node as a process: from its settings to `ready`, and from a signal to a clean stop.

The first SIGTERM or SIGINT stops in order: no new connections, waiting requests answered, logs closed. A
second one ends the process at once, which is what a person who presses Ctrl-C again wants; the logs then
recover at the next start. SIGHUP stops in order, too, where the node has a terminal, which has gone then;
a node without one opens its log files anew.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import random
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.base.clock import SystemClock
from headrace.log.system_disk import SystemDisk
from headrace.node.assembly import Node, start_node
from headrace.node.free_memory import FreeMemory, system_heap
from headrace.node.supervisor import has_terminal
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource
from headrace.telemetry import log_output
from headrace.telemetry.fault_log import FaultLog
from headrace.tiered.stores.opening import open_store
from headrace.transport.attention import Attention
from headrace.transport.descriptors import Descriptors
from headrace.transport.system_network import SocketOptions, SystemNetwork

if TYPE_CHECKING:
    from headrace.node.metrics.process import ProcessFigures

logger = logging.getLogger(__name__)

# Requests are freed by reference counts; the collector only finds rare cycles, so it looks seldom. Of a
# request with a million objects it looks at a fifth at a time: all of them would take a tenth of a second.
GC_THRESHOLDS: Final = (50_000, 4, 500)
# A start loads millions of objects that stay: looking through them again and again took a third of its time.
GC_THRESHOLDS_OF_START: Final = (200_000, 50, 100)

STDIN: Final = 0

DESCRIPTORS_LOW: Final = 4096
"""Below this a broker of a few hundred partitions has little left for clients."""

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
    descriptors = system_descriptors()
    gc.set_threshold(*GC_THRESHOLDS_OF_START)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_serve(config, on_ready, on_progress, supervised, descriptors))


def system_descriptors() -> Descriptors:
    """Those of this process, as many as this user may have; a low limit is said."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Where the hard limit is none (macOS), the kernel may still refuse it: then the soft one stays.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = 2**31 - 1 if soft == resource.RLIM_INFINITY else soft
    descriptors = Descriptors(limit, lambda: _lowest_free(limit))
    if limit < DESCRIPTORS_LOW:
        logger.warning(
            "this process may open %d files and connections, which is low: each partition needs one or more, "
            "each client one. %d are kept for files; clients beyond %d are refused. Raise the hard limit "
            "(ulimit -Hn, or LimitNOFILE= of a systemd unit) to 100000",
            *(limit, descriptors.reserve, limit - descriptors.reserve),
        )
    return descriptors


def _lowest_free(limit: int) -> int:
    try:
        number = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return limit
        raise
    os.close(number)
    return number


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
        return -1 if config.source(setting) is ConfigSource.DEFAULT else config.int(setting)

    return SystemNetwork(
        SocketOptions(
            send_buffer_bytes=buffer_bytes("socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer_bytes("socket.receive.buffer.bytes"),
        )
    )


async def _serve(
    config: BrokerConfig,
    on_ready: OnReady,
    on_progress: Callable[[str], None] | None,
    supervised: bool,
    descriptors: Descriptors,
) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(_on_loop_fault, FaultLog(loop.time, logger)))
    stop = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _on_signal, stop, number)
    loop.add_signal_handler(signal.SIGHUP, on_hangup, stop)
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
            descriptors=descriptors,
            process=_process_figures(config),
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
    heap = system_heap()
    if heap is not None:
        FreeMemory(loop, heap).watch()
    return await _until_stopped(node, stop)


def _process_figures(config: BrokerConfig) -> "ProcessFigures | None":
    """What metrics tell of this process, where somebody can ask for them."""
    if not config.str("headrace.metrics.listener"):
        return None
    from headrace.node.metrics.process import ProcessFigures

    return ProcessFigures()


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


def on_hangup(stop: "asyncio.Future[int]") -> None:
    """The terminal has gone, which stops what was started from it; a service is asked to open its log files
    anew, as after somebody moved them away."""
    if has_terminal():
        if not stop.done():
            stop.set_result(signal.SIGHUP)
        return
    reopen_log_files()
    logger.info("log files were opened anew on SIGHUP; settings are changed with `headrace config`")


def reopen_log_files() -> None:
    """Close the files that log lines go to; the next line opens them again, by their names."""
    log_output.reopen()
    for name in (None, *logging.root.manager.loggerDict):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.FileHandler):
                handler.close()


def _on_loop_fault(faults: FaultLog, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught. Texts name the callback with its address, so only their beginning tells kinds
    apart."""
    text = str(context.get("message", "the event loop met a fault"))
    error = context.get("exception") or RuntimeError(text)
    faults.note(re.split(r"[<(:]", text, maxsplit=1)[0].strip(), error, text)


def load_kernels_behind(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    """Load the compiled kernels in a thread, while they already serve as plain Python.

    numba alone is a hundred thousand objects that live as long as the process. A full collection walks them
    for 100 ms in which nobody is served, so there is none while they load, and afterwards they are set aside
    for good.
    """
    from headrace.records.kernels.choice import load_compiled

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
