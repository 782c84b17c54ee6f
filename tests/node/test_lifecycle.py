"""A node as a process: ready, stopped by a signal, ended by a second one, and by a fault."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.node import lifecycle
from headrace.node.config import load
from headrace.node.fleet import format_fleet
from headrace.transport.system_network import free_ports

PROGRAM = """
import sys
from headrace.node.config import load
from headrace.node.lifecycle import run

def ready(addresses):
    print("ready", *addresses, flush=True)

settings = dict(pair.split("=", 1) for pair in sys.argv[2:])
try:
    sys.exit(run(load(port=0, data=sys.argv[1], overrides=settings), ready))
except OSError as error:
    print("refused", error, flush=True)
    sys.exit(3)
"""
SECONDS = 30


@contextmanager
def process_of(folder: Path, *settings: str) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-c", PROGRAM, str(folder), *settings]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with process_of(tmp_path) as process:
        assert first_line(process).startswith("ready ('127.0.0.1', ")
        process.send_signal(number)
        assert process.wait(SECONDS) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_killed_process_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    with process_of(tmp_path) as process:
        first_line(process)
        process.kill()
        process.wait(SECONDS)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with process_of(tmp_path) as process:
        assert first_line(process).startswith("ready")


def test_a_second_process_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with process_of(tmp_path) as first:
        first_line(first)
        with process_of(tmp_path) as second:
            told = first_line(second)
            assert "refused" in told
            assert f"{tmp_path} is in use by another process" in told
            assert second.wait(SECONDS) == 3
        assert first.poll() is None


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with process_of(tmp_path / "a") as first:
        port = first_line(first).rstrip(")\n").rpartition(", ")[2]
        listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
        with process_of(tmp_path / "b", listeners) as second:
            told = first_line(second)
            assert f"PLAINTEXT://127.0.0.1:{port}" in told
            assert second.wait(SECONDS) == 3


def test_a_controller_alone_lets_topics_be_tiered_and_needs_no_store(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "remote.log.storage.system.enable": "true",
    }
    config = load(data=str(tmp_path), overrides=settings)
    format_fleet([config], random.SystemRandom())
    with process_of(tmp_path, *(f"{name}={value}" for name, value in settings.items())) as process:
        assert first_line(process).startswith("ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    async def script() -> int:
        stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        lifecycle._on_signal(stop, signal.SIGTERM)
        assert codes == []
        with pytest.raises(asyncio.InvalidStateError):  # not reached where the process is gone
            lifecycle._on_signal(stop, signal.SIGTERM)
        return stop.result()

    assert asyncio.run(script()) == signal.SIGTERM
    assert codes == [128 + signal.SIGTERM]


def test_a_fault_stops_the_node_with_a_status_that_tells() -> None:
    class Stopping:
        stopped = False

        async def stop(self) -> None:
            self.stopped = True

    async def script() -> int:
        stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for text in ("the disk is gone", "and the other one too"):
            lifecycle._on_failure(stop, OSError(text))
        return await lifecycle._until_stopped(node, stop)  # type: ignore[arg-type]

    node = Stopping()
    assert asyncio.run(script()) == 1
    assert node.stopped
