"""The Spark program as a child process: started, listened to, asked to finish, ended.

It has a session of its own, so that Ctrl-C reaches only the command, which then lets it finish. Its own
words come on stdout and wait in a queue; what Spark and its JVM have to say goes to a file, which is
quoted when something goes wrong. However this process ends, the other's input closes, and it ends too.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from headrace.spark.demo.job import Plan

JOB: Final = (sys.executable, "-m", "headrace.spark.demo.job")
# A JVM that was told to stop has this long.
_STOP_S_MAX: Final = 20
_QUOTED_LINES: Final = 15


class JobProcess:
    """Used with `with`; whatever happens, no process is left behind."""

    def __init__(self, plan: Plan, log: Path, command: Sequence[str] | None = None) -> None:
        self.log = log
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*(command or JOB), plan.as_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it has said since the last call."""
        while not self._said.empty():
            yield self._said.get()

    @property
    def is_over(self) -> bool:
        """It has ended, and all it said has been heard."""
        return self._process.poll() is not None and not self._listener.is_alive() and self._said.empty()

    def finish(self) -> None:
        """Let it read what there is, and end."""
        self._tell("finish\n")

    def kill(self) -> None:
        """End it as a power cut would: the JVM and all, nothing said."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_lines(self) -> str:
        """The end of what Spark had to say."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_QUOTED_LINES:])

    def close(self) -> None:
        """End it now: its input closes, and if that is not enough it is killed."""
        assert self._process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):  # it has ended; `is_over` says so
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it was asked for"
        for line in self._process.stdout:
            try:
                self._said.put(json.loads(line))
            except ValueError:  # a library that prints
                continue
        self._process.stdout.close()
