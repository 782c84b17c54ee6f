"""What a process costs: CPU seconds, memory, and how long until it answers."""

import contextlib
import os
import re
import signal
import socket
import struct
import tempfile
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
_MIB = bytes(1 << 20)


def cpu_seconds(pid: int) -> float:
    """User and system seconds of a process and its reaped children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(fields[at]) for at in (11, 12)) / TICK


def tree_cpu_seconds(root: int) -> float:
    """User and system seconds of a process and all below it, those that have ended included."""
    fields: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has just ended
                fields[int(folder.name)] = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    below, is_growing = {root}, True
    while is_growing:
        more = {pid for pid, each in fields.items() if int(each[1]) in below} - below
        below, is_growing = below | more, bool(more)
    return sum(int(fields[pid][at]) for pid in below if pid in fields for at in (11, 12, 13, 14)) / TICK


def ready_memory(gigabytes: float) -> None:
    """Have what was written before on the disk, and so much free memory that it is really there.

    A virtual machine gives memory that is free back to its host. Whoever touches it next pays for its return:
    writing a file for the first time took 2.1 s of CPU a GB on the machine of these figures, and 0.2 s once
    the memory was there. Without this, what is measured is who comes first.
    """
    os.sync()
    with tempfile.TemporaryFile() as file:
        for _ in range(int(gigabytes * 1024)):
            file.write(_MIB)


def rss_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def stop(pid: int, *, grace_s: float = 30) -> None:
    """Ask a child process to end, and make it if it does not."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        await_end(pid, grace_s=grace_s)


def await_end(pid: int, *, grace_s: float) -> None:
    """Wait for a child process that was asked to end, and make it if it does not."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def end_tidily() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that the brokers it started are stopped too."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def call(address: tuple[str, int], key: int, version: int, body: bytes) -> bytes:
    """One request with a v1 header, for brokers that may not be up yet."""
    with socket.create_connection(address, timeout=5) as connection:
        payload = struct.pack(">hhih5s", key, version, 1, 5, b"bench") + body
        connection.sendall(struct.pack(">i", len(payload)) + payload)
        return read_frame(connection)


def read_frame(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", _read(connection, 4))[0]
    return _read(connection, size)


def _read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return bytes(data)


def serves(address: tuple[str, int], brokers: int = 1) -> bool:
    """Whether Metadata lists so many brokers and a controller: the moment a client can begin."""
    try:
        data = call(address, 3, 1, struct.pack(">i", 0))
    except OSError:
        return False
    listed, at = struct.unpack_from(">i", data, 4)[0], 8
    for _ in range(listed):
        at += 4
        at += 2 + struct.unpack_from(">h", data, at)[0] + 4
        at += 2 + max(struct.unpack_from(">h", data, at)[0], 0)
    controller: int = struct.unpack_from(">i", data, at)[0]
    return listed >= brokers and controller >= 0


def wait_until_serving(address: tuple[str, int], limit_s: float = 300, brokers: int = 1) -> None:
    deadline = time.monotonic() + limit_s
    while not serves(address, brokers):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{address[0]}:{address[1]} does not serve after {limit_s} s")
        time.sleep(0.005)
