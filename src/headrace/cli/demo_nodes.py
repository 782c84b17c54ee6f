"""Nodes for a demonstration, in a child process that is stopped in order at the end.

They run as `headrace start` in a session of their own, so that Ctrl-C reaches only this process.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

import click

READY: Final = "headrace ready: "
_STOP_SECONDS: Final = 15


class RunningNodes(NamedTuple):
    """`kill_one` kills a node (kill -9), which is started again."""

    address: str
    kill_one: Callable[[], None]


@contextmanager
def running_nodes(count: int, port: int, data: str) -> Iterator[RunningNodes]:
    """A cluster of `count` nodes with its files in `data`."""
    command = [sys.executable, "-m", "headrace.cli.main", "start"]
    command += ["--nodes", str(count), "--port", str(port), "--data", data]
    command += ["--set", "transaction.two.phase.commit.enable=true"]
    nodes = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield RunningNodes(_wait_until_ready(nodes), partial(nodes.send_signal, signal.SIGUSR1))
    finally:
        _stop(nodes)


def _wait_until_ready(nodes: "subprocess.Popen[str]") -> str:
    assert nodes.stdout is not None, "the output was asked for"
    for line in nodes.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    # It has said on stderr why.
    raise click.ClickException(f"the cluster did not start (exit code {nodes.wait()})")


def _stop(nodes: "subprocess.Popen[str]") -> None:
    if nodes.poll() is None:
        nodes.terminate()
    try:
        nodes.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        nodes.kill()
        nodes.wait()
    assert nodes.stdout is not None, "the output was asked for"
    nodes.stdout.close()
