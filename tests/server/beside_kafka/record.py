"""Write down what a running Apache Kafka answers.

    python -m tests.server.beside_kafka.record HOST:PORT NAME...

Start the Kafka with the settings of `compare.SETTINGS`. Topics and groups of a recording have names of their
own, and stay behind.
"""

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import Mapping

from headrace.transport.system_network import SystemNetwork, SystemSocket
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.beside_kafka.compare import answers_file, load
from tests.server.beside_kafka.talk import STRANGERS, Talk
from tests.server.node_world import Client, open_client

READY_S = 0.02


class _NetworkFrom(SystemNetwork):
    """Connections from one address of this machine."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    def connect(self, host: str, port: int) -> SystemSocket:
        sock = socket.socket()
        sock.bind((self._host, 0))
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect((host, port))
        return SystemSocket(sock, (host, port))


class RunningKafka:
    """Implements `talk.Broker` on real sockets and in real time."""

    def __init__(self, host: str, port: int) -> None:
        self.prefix = f"r{random.randrange(10**6)}."
        self._host = host
        self._port = port
        self._admin: Client | None = None

    async def connect(self, client_id: str) -> Client:
        loop = asyncio.get_running_loop()
        network = _NetworkFrom(self.host_of(client_id))
        return await open_client(loop, network, self._host, self._port, client_id)

    def host_of(self, client_id: str) -> str:
        return STRANGERS.get(client_id, "127.0.0.1")

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> bytes:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(key, value) for key, value in configs.items()],
        )
        admin = await self._asking()
        reply = await admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert reply.topics[0].error_code == 0, reply
        await self._until_led(name, partitions)
        return bytes(reply.topics[0].topic_id)

    async def _until_led(self, name: str, partitions: int) -> None:
        """Kafka answers before its broker leads the new partitions."""
        admin = await self._asking()
        while True:
            reply = await admin.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
            found = [each for each in reply.topics[0].partitions if each.leader_id >= 0]
            if len(found) == partitions:
                break
            await asyncio.sleep(READY_S)
        await asyncio.sleep(0.3)

    async def delete_topic(self, name: str) -> None:
        admin = await self._asking()
        reply = await admin.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6
        )
        assert reply.responses[0].error_code == 0, reply
        await asyncio.sleep(0.5)

    async def pass_time(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def _asking(self) -> Client:
        if self._admin is None:
            self._admin = await self.connect("admin")
        return self._admin


async def record(host: str, port: int, name: str) -> None:
    talk = Talk(RunningKafka(host, port))
    await load(name).script(talk)
    talk.close()
    answers_file(name).write_text(talk.text())
    print(f"{answers_file(name)}: {len(talk.lines)} lines")


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    for name in sys.argv[2:]:
        asyncio.run(record(host, int(port), name))


if __name__ == "__main__":
    main()
