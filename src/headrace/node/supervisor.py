"""Keeps the processes of several nodes running: ready together, stopped together, and one that dies again.

Each node is a `headrace start` of its own. Its stdin is a pipe that this process holds: when it closes,
because this process ended in whatever way, the node stops. A node that dies comes back after a pause that
grows while it keeps dying. A signal stops all in order; a second one ends them at once. SIGUSR1 kills one
node, each in its turn, for whoever wants to see what a cluster does then.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

READY: Final = "headrace ready: "
PAUSE_S: Final = (0.2, 10.0)
STEADY_S: Final = 30.0
"""A node that has run for so long has not been dying: its next pause is the first again."""

Say = Callable[[str], None]


class FleetError(Exception):
    """A node could not be started."""


class Supervisor:
    """`commands` are those of the nodes. `on_ready` is told once of all their addresses."""

    def __init__(
        self, commands: Sequence[Sequence[str]], *, on_ready: Callable[[list[str]], Awaitable[None]], say: Say
    ) -> None:
        self._commands = commands
        self._on_ready = on_ready
        self._say = say
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._addresses: dict[int, str] = {}
        self._stopping = False
        self._was_ready = False
        self._next_victim = 0
        self._telling: asyncio.Future[None] | None = None

    async def run(self) -> int:
        """Until a signal; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        loop.add_signal_handler(signal.SIGUSR1, self._kill_one)
        keeping = [loop.create_task(self._keep(node)) for node in range(len(self._commands))]
        try:
            await asyncio.gather(*keeping)
        except FleetError as error:
            self._say(str(error))
            self._end(signal.SIGTERM)
            await asyncio.wait(keeping)
            return 1
        return 0

    def _on_signal(self) -> None:
        self._end(signal.SIGKILL if self._stopping else signal.SIGTERM)

    def _on_hangup(self) -> None:
        """The terminal has gone: stop. Without one, every node opens its log files anew."""
        if not has_terminal():
            self._tell_all(signal.SIGHUP)
        elif not self._stopping:
            self._end(signal.SIGTERM)

    def _kill_one(self) -> None:
        process = self._processes.get(self._next_victim)
        self._next_victim = (self._next_victim + 1) % len(self._commands)
        if process is not None and process.returncode is None:
            process.kill()

    def _end(self, number: int) -> None:
        self._stopping = True
        self._tell_all(number)

    def _tell_all(self, number: int) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(number)

    async def _keep(self, node: int) -> None:
        pause_s = PAUSE_S[0]
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            status = await self._run_once(node)
            if self._has_ended():
                return
            if not self._was_ready:
                raise FleetError(f"node {node + 1} did not start (exit code {status})")
            if loop.time() - started >= STEADY_S:
                pause_s = PAUSE_S[0]
            self._say(f"node {node + 1} ended with exit code {status}: it is started again")
            await asyncio.sleep(pause_s)
            if self._has_ended():
                return
            pause_s = min(2 * pause_s, PAUSE_S[1])

    def _has_ended(self) -> bool:
        return self._stopping

    async def _run_once(self, node: int) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._commands[node],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C is for this process, which passes it on.
            start_new_session=True,
        )
        self._processes[node] = process
        if self._stopping:
            process.terminate()
        assert process.stdout is not None
        async for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if text.startswith(READY):
                self._note_ready(node, text.removeprefix(READY))
            else:
                self._say(f"node {node + 1}: {text}")
        return await process.wait()

    def _note_ready(self, node: int, address: str) -> None:
        self._addresses[node] = address
        if not self._was_ready and len(self._addresses) == len(self._commands):
            self._was_ready = True
            told = self._on_ready([self._addresses[each] for each in sorted(self._addresses)])
            self._telling = asyncio.ensure_future(told)


def node_command(folder: str, log_options: Sequence[str]) -> list[str]:
    """What runs the node whose settings lie in a folder."""
    return [
        *(sys.executable, "-m", "headrace.cli.main", "start", "--supervised"),
        *("--config", os.path.join(folder, "server.properties"), *log_options),
    ]


def has_terminal() -> bool:
    """Whether somebody at a terminal started this, and not a service manager."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
