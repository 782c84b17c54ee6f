"""A node on the system's own disk, network and clock: what simulation cannot vouch for."""

import asyncio
import errno
import random
from pathlib import Path

import pytest

from headrace.base.clock import SystemClock
from headrace.log.append import AppendOrigin
from headrace.log.system_disk import SystemDisk
from headrace.node.assembly import Node, start_node
from headrace.node.config import load
from headrace.node.lifecycle import system_network
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, open_client


async def start(folder: Path, port: int = 0) -> Node:
    config = load(port=port, data=str(folder), overrides={"auto.create.topics.enable": "true"})
    return await start_node(
        config,
        loop=asyncio.get_running_loop(),
        clock=SystemClock(),
        disk=SystemDisk(),
        network=system_network(config),
        rng=random.Random(1),
    )


async def connect(node: Node) -> Client:
    host, port = node.addresses[0]
    loop = asyncio.get_running_loop()
    return await open_client(loop, system_network(node.config), host, port)


def test_records_and_groups_over_a_restart(tmp_path: Path) -> None:
    async def script() -> None:
        node = await start(tmp_path)
        client = await connect(node)
        await client.ask(ask_for(6, "g"), 6)  # makes a topic of fifty partitions
        partition = next(iter(node.parts.replica_manager))
        assert partition.topic_partition.topic == "__consumer_offsets"
        await node.stop()
        node = await start(tmp_path)
        client = await connect(node)
        assert len(node.parts.replica_manager) == 50
        assert (await client.ask(ask_for(6, "g"), 6)).coordinators[0].error_code == 0
        await node.stop()

    asyncio.run(script())


def test_records_go_out_as_they_came_in(tmp_path: Path) -> None:
    """The real sendfile, and a batch that is larger than any socket buffer."""

    async def script() -> None:
        node = await start(tmp_path)
        client = await connect(node)
        await client.ask(ask_for(6, "g"), 6)
        partition = next(iter(node.parts.replica_manager))
        large = batch(10, size=3_000_000)
        partition.append(large, now_ms=0, origin=AppendOrigin.COORDINATOR, api_version=-1)
        request = fetch(
            "__consumer_offsets",
            partitions=(partition.topic_partition.partition,),
            max_bytes=10**8,
            partition_max_bytes=10**8,
        )
        response = await client.ask(request, 12)
        assert bytes(response.responses[0].partitions[0].records)[61:] == bytes(large)[61:]
        refused = await client.ask(produce("__consumer_offsets", batch()), 12)
        assert refused.responses[0].partition_responses[0].error_code == 17
        await node.stop()

    asyncio.run(script())


def test_one_node_to_a_folder_and_to_a_port(tmp_path: Path) -> None:
    async def script() -> None:
        node = await start(tmp_path / "a")
        with pytest.raises(BlockingIOError, match="a is in use by another process"):
            await start(tmp_path / "a")
        port = node.addresses[0][1]
        with pytest.raises(OSError, match=str(port)) as refused:
            await start(tmp_path / "b", port)
        assert refused.value.errno == errno.EADDRINUSE
        other = await start(tmp_path / "b")
        await other.stop()
        await node.stop()

    asyncio.run(script())
