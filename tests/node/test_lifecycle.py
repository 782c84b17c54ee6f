"""A node as a process: ready, stopped by a signal, ended by a second one, and by a fault."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.node import lifecycle
from headrace.node.config import controller_port, load
from headrace.node.fleet import format_fleet
from headrace.telemetry import log_output
from headrace.telemetry.fault_log import FaultLog
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually

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
SECONDS = 200


@contextmanager
def process_of(
    folder: Path, *settings: str, before: str = "", stdin: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-c", before + PROGRAM, str(folder), *settings]
    process = subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


def test_a_hangup_of_a_service_opens_log_files_anew_and_stops_nothing(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    opening = f"import logging; logging.basicConfig(filename={str(file)!r}, level='INFO')\n"
    with process_of(tmp_path / "data", before=opening) as process:
        first_line(process)
        file.rename(tmp_path / "moved.log")
        process.send_signal(signal.SIGHUP)
        eventually(file.exists, "the log file")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    assert "stopping on SIGTERM" in file.read_text()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()


def test_a_hangup_reaches_the_log_file_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reopened: list[bool] = []
    monkeypatch.setattr(log_output, "reopen", lambda: reopened.append(True))
    lifecycle.reopen_log_files()
    assert reopened == [True]


def test_a_hangup_of_a_terminal_stops_in_order(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with process_of(tmp_path, stdin=theirs) as process:
        first_line(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS) == 0
    os.close(ours)
    os.close(theirs)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_faults_that_nobody_caught_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def script() -> None:
        loop = asyncio.get_running_loop()
        faults = FaultLog(loop.time, lifecycle.logger)
        loop.set_exception_handler(partial(lifecycle._on_loop_fault, faults))

        def starved() -> None:
            raise MemoryError

        for _ in range(1_000):
            loop.call_soon(partial(starved))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert faults.count == 1_000

    asyncio.run(script())
    assert len([each for each in caplog.records if each.name == lifecycle.logger.name]) == 1


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
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"PLAINTEXT://127.0.0.1:{other.getsockname()[1]}"
        with process_of(tmp_path, f"listeners={place}") as process:
            assert place in first_line(process)
            assert process.wait(SECONDS) == 3


def test_the_controller_of_a_single_node_takes_a_port_that_is_free(tmp_path: Path) -> None:
    """Where it was guessed, 10,000 above the clients' port, another program may be."""
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", controller_port(port))):
        for _ in range(2):  # its folder remembers no port
            with process_of(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}") as process:
                assert first_line(process) == f"ready ('127.0.0.1', {port})\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(SECONDS) == 0


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
