"""Producers that nobody closes: records are written when the program ends, or are said to be lost."""

import socket
import subprocess
import sys

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin
from headrace.testing import Cluster

SYNC = """
import sys
from headrace import Producer
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=600_000, delivery_timeout_ms=1_200_000)
for number in range(100):
    producer.send("t", b"%d" % number)
"""
ASYNC = """
import asyncio, sys
from headrace import AsyncProducer
async def main():
    producer = AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=600_000, delivery_timeout_ms=1_200_000)
    for number in range(7):
        await producer.send("t", b"%d" % number)
asyncio.run(main())
"""
FORKED = SYNC + "import os\nif not os.fork():\n    sys.exit(0)\nos.wait()\n"
# The broker is gone when the program ends; so long a wait as for a person would take the test too long.
GONE = (
    "import headrace.clients.internals.producer.unclosed as unclosed\nunclosed.EXIT_MS = 200\n"
    + SYNC
    + "print('sent', flush=True)\nsys.stdin.readline()\n"
)


def end_of(script: str, address: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, address], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def cluster() -> "Cluster":
    return Cluster()


def test_records_of_an_unclosed_producer(cluster: Cluster) -> None:
    with cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        cluster.create_topic("t")

        def end() -> int:
            return admin.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]

        assert end_of(SYNC, cluster.bootstrap_servers) == ""
        assert end() == 100
        assert end_of(FORKED, cluster.bootstrap_servers) == ""
        assert end() == 200
        said = end_of(ASYNC, cluster.bootstrap_servers)
        assert said.startswith("7 records were never written, because the program ended before: close")
        assert end() == 200


def test_what_cannot_be_sent_at_the_end_is_said(cluster: Cluster) -> None:
    with cluster:
        cluster.create_topic("t")
        address = cluster.bootstrap_servers
        program = subprocess.Popen(
            [sys.executable, "-c", GONE, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "sent\n"
        cluster.stop_node(1)
    with socket.socket() as nobody:
        host, _, port = address.rpartition(":")
        assert nobody.connect_ex((host, int(port)))
    _, said = program.communicate("\n", timeout=100)
    assert program.returncode == 0
    assert "100 records were never written" in said
