"""A node whose descriptors are used up: clients wait or go, files are opened, and nobody ends it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Admin, Producer
from headrace.node import lifecycle
from headrace.replication.drivers.log_manager_tasks import LogManagerTasks
from tests.node.test_lifecycle import PROGRAM, SECONDS
from tests.server.node_world import NodeWorld, simulated

LIMIT = 120
PARTITIONS = 200


def with_descriptors(soft: int, hard: int, words: list[str]) -> list[str]:
    """A command under limits. A shell sets them: Python code between fork and exec hangs for good where
    another thread of this process held a lock just then.
    """
    return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", *words]


def test_connections_leave_descriptors_to_the_log(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "replica.high.watermark.checkpoint.interval.ms=50"]
    process = subprocess.Popen(
        with_descriptors(LIMIT // 2, LIMIT, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            port = int(process.stdout.readline().split()[2].rstrip(")"))
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * LIMIT)]
            address = f"127.0.0.1:{port}"
            with Admin(bootstrap_servers=address) as admin:
                admin.create_topic("orders", partitions=PARTITIONS)
            with Producer(bootstrap_servers=address, batch_size=0) as producer:
                for partition in range(PARTITIONS):
                    producer.send("orders", b"x" * 100, partition=partition)
            assert len(os.listdir(f"/proc/{process.pid}/fd")) <= LIMIT
            for each in idle:
                each.close()
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert f"this process may open {LIMIT} files and connections, which is low" in told
    refusals = told.count("the rest is kept for files")
    assert 0 < refusals <= 20 * (1 + SECONDS // 10)


def test_the_soft_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(256, 1_048_576)]
    monkeypatch.setattr(lifecycle.resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(lifecycle.resource, "setrlimit", lambda kind, pair: limits.append(pair))
    assert lifecycle.system_descriptors().limit == 1_048_576


@simulated(replica_high_watermark_checkpoint_interval_ms="1000")
async def test_a_folder_is_no_worse_for_a_want_of_descriptors(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a thread does for a folder is done again later."""
    tasks = world.node._log_manager_tasks
    assert isinstance(tasks, LogManagerTasks)
    tried = []

    def without_descriptors() -> None:
        tried.append(1)
        raise OSError(errno.EMFILE, "Too many open files")

    async def run() -> None:
        tasks._in_thread(world.node.parts.log_manager.log_dirs[0], without_descriptors)

    await world.on_node(run())
    await world.until(lambda: bool(tried))
    await world.pass_time(2_000)
    assert world.node.parts.log_manager.log_dirs[0].online
    assert world.failures == []
    await world.create_topic("orders")


@simulated(max_connections="2")
async def test_the_usual_listener_holds_to_max_connections_and_the_quorum_has_its_own(
    world: NodeWorld,
) -> None:
    clients = [await world.connect() for _ in range(2)]
    controllers = [await world.connect_controller() for _ in range(2)]
    waiting = world.world.driver.create_task(world.connect())
    await world.pass_time(1_000)
    listeners = {name: listener for name, (_, listener) in world.node._listeners._open.items()}
    assert [len(each.connections) for each in listeners.values()] == [2, 2]
    assert all(each.is_open for each in (*clients, *controllers))
    clients[0].close()
    third = await waiting
    assert third.is_open
