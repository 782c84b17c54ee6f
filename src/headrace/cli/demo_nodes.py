"""Nodes for a demonstration, in a child process that is stopped in order at the end.

They run as `headrace start` in a session of their own, so that Ctrl-C reaches only this process.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

READY: Final = "headrace ready: "
_STOP_SECONDS: Final = 15


@contextmanager
def running_nodes(count: int, port: int, data: str) -> Iterator[str]:
    """A cluster of `count` nodes with its files in `data`; gives the addresses for clients."""
    command = [sys.executable, "-m", "headrace.cli.main", "start"]
    command += ["--nodes", str(count), "--port", str(port), "--data", data]
    nodes = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield _wait_until_ready(nodes)
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
