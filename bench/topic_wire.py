"""Requests about many partitions at once, over raw sockets: Metadata, CreateTopics, ListOffsets, Produce.

A client library would keep a record of every partition and be slower than what is measured. The bytes are
made by headrace's own codecs, the same for every broker.
"""

import socket
import time
from collections import defaultdict
from typing import Any, TypeVar

from bench.machine import read_frame
from headrace.base.chunks import FileSlice
from headrace.records.batch import Record, build_batch
from headrace.wire.framing import read_response, request_frame
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataResponse
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

R = TypeVar("R")

LATEST = -1
TIMEOUT_MS = 120_000

Led = dict[int, dict[str, list[int]]]
"""By leader, topics with the partitions it leads."""


def ask(connection: socket.socket, request: Any, response: type[R], version: int) -> R:
    """One request and its answer."""
    frame = request_frame(request, version, 1, "bench")
    connection.sendall(b"".join(bytes(chunk) for chunk in frame if not isinstance(chunk, FileSlice)))
    return read_response(response, version, read_frame(connection))


class Connections:
    """One connection to each node, found by Metadata."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap.split(",")[0]
        self._sockets: dict[str, socket.socket] = {}
        self._addresses: dict[int, str] = {}

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()
        self._sockets.clear()

    def ask(self, request: Any, response: type[R], version: int, *, node: int | None = None) -> R:
        address = self._bootstrap if node is None else self._addresses[node]
        if address not in self._sockets:
            host, _, port = address.rpartition(":")
            self._sockets[address] = socket.create_connection((host, int(port)), timeout=TIMEOUT_MS / 1000)
        return ask(self._sockets[address], request, response, version)

    def metadata(self) -> MetadataResponse:
        found = self.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse, 12)
        self._addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in found.brokers}
        return found

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """The controller's answer may come from any node."""
        asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
        request = CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)
        answer = self.ask(request, CreateTopicsResponse, 5).topics[0]
        if answer.error_code:
            raise RuntimeError(f"{topic} was refused: {answer.error_code} {answer.error_message}")

    def led(self) -> Led:
        """Who leads what, of topics that are whole."""
        found: Led = defaultdict(dict)
        for topic in self.metadata().topics:
            for partition in topic.partitions:
                if partition.leader_id >= 0 and topic.name is not None:
                    found[partition.leader_id].setdefault(topic.name, []).append(partition.partition_index)
        return found

    def unserved(self, led: Led) -> Led:
        """Those of them whose leader does not tell where they end yet."""
        left: Led = defaultdict(dict)
        for node, topics in led.items():
            for name, indexes in topics.items():
                partitions = [
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes
                ]
                request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, partitions)])
                answer = self.ask(request, ListOffsetsResponse, 5, node=node)
                bad = [each.partition_index for each in answer.topics[0].partitions if each.error_code]
                if bad:
                    left[node][name] = bad
        return left

    def write_to_all(self, led: Led, acks: int) -> None:
        """One record of 100 bytes to each."""
        batch = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, ())]))
        for node, topics in led.items():
            for name, indexes in topics.items():
                data = [PartitionProduceData(index, batch) for index in indexes]
                request = ProduceRequest(
                    acks=acks,
                    timeout_ms=TIMEOUT_MS,
                    topic_data=[TopicProduceData(name=name, partition_data=data)],
                )
                answer = self.ask(request, ProduceResponse, 9, node=node)
                bad = [each for each in answer.responses[0].partition_responses if each.error_code]
                if bad:
                    raise RuntimeError(f"{len(bad)} partitions of {name} took no record: {bad[0]}")


def count(led: Led) -> int:
    return sum(len(indexes) for topics in led.values() for indexes in topics.values())
