"""A cluster that answers by script: no sockets, no threads, no time that passes by itself.

A `ScriptedCluster` is the network, the clock and the waiter of a client at once. Requests are decoded when
they are sent, handed to the handler of their API, and the answer can be read at once. Waiting for what
never comes moves the clock to the deadline.
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.chunks import Buffer, FileSlice
from headrace.clients.cluster import Cluster
from headrace.clients.connection import World
from headrace.wire.apis import API
from headrace.wire.codec import decode, encode_chunks
from headrace.wire.framing import read_request_header, response_frame
from headrace.wire.schemas.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.schemas.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID = bytes(range(16))

Handler = Callable[[Any, int], Any]


class ScriptedSocket:
    """A connection to one scripted node."""

    local = ("127.0.0.1", 1)

    def __init__(self, cluster: "ScriptedCluster", number: int, peer: tuple[str, int]) -> None:
        self.peer = peer
        self._cluster = cluster
        self._number = number
        self._sent = b""
        self.answers = b""
        self.closed = False

    def fileno(self) -> int:
        return self._number

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        if self.closed or self.peer[1] in self._cluster.dead_ports:
            raise ConnectionResetError(104, "Connection reset by peer")
        taken, self.answers = self.answers[: len(buffer)], self.answers[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def send(self, buffers: Sequence[Buffer]) -> int:
        if self.peer[1] in self._cluster.dead_ports:
            raise ConnectionRefusedError(111, "Connection refused")
        data = b"".join(buffers)
        self._sent += data
        while len(self._sent) >= 4:
            size = int.from_bytes(self._sent[:4], "big")
            frame, self._sent = self._sent[4 : 4 + size], self._sent[4 + size :]
            self.answers += self._cluster.answer(frame, self.peer[1])
        return len(data)

    def send_file(self, part: FileSlice) -> int:
        raise AssertionError("a client sends no files")

    def close(self) -> None:
        self.closed = True


class ScriptedCluster:
    """Nodes by port; `handlers` answer by API name, `requests` remembers what was asked of whom."""

    def __init__(self, nodes: dict[int, int] | None = None) -> None:
        self.nodes = nodes or {1: 9092}
        self.handlers: dict[str, Handler] = {"Metadata": self._metadata}
        self.requests: list[tuple[int, str, int, Any]] = []
        self.dead_ports: set[int] = set()
        self.leaders = {("t", 0): 1}
        self.versions: dict[int, tuple[int, int]] = {
            key: (api.advertised_min, api.advertised_max) for key, api in API.items()
        }
        self.now = 1_000_000
        self._sockets: dict[int, ScriptedSocket] = {}

    def client(self, *, timeout_ms: int = 5_000) -> Cluster:
        port = next(iter(self.nodes.values()))
        return Cluster([("127.0.0.1", port)], World(self, self, self), timeout_ms=timeout_ms)

    def asked(self, name: str) -> list[Any]:
        return [request for _, api_name, _, request in self.requests if api_name == name]

    # Network

    def connect(self, host: str, port: int) -> ScriptedSocket:
        number = len(self._sockets) + 1
        self._sockets[number] = ScriptedSocket(self, number, (host, port))
        return self._sockets[number]

    def listen(self, host: str, port: int, *, backlog: int) -> Any:
        raise AssertionError("a client does not listen")

    def own_name(self) -> str:
        return "scripted"

    # Clock

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.now

    def monotonic_ms(self) -> int:
        return self.now

    # Waiter

    def readable(self, sockets: Sequence[int], timeout_ms: int) -> list[int]:
        dead = self.dead_ports
        ready = [
            each for each in sockets if self._sockets[each].answers or self._sockets[each].peer[1] in dead
        ]
        if not ready:
            self.now += max(timeout_ms, 0)
        return ready

    def writable(self, socket: int, timeout_ms: int) -> bool:
        return True

    # Answers

    def answer(self, frame: bytes, port: int) -> bytes:
        header = read_request_header(memoryview(frame))
        api = API[header.api_key]
        least, most = self.versions[header.api_key]
        if api.name == "ApiVersions":
            # Answered in v0 where the version is too new, as every broker does.
            known = least <= header.api_version <= most
            version = header.api_version if known else 0
            keys = [ApiVersion(key, *span) for key, span in self.versions.items()]
            response = ApiVersionsResponse(error_code=0 if known else 35, api_keys=keys)
        else:
            assert least <= header.api_version <= most, f"{api.name} v{header.api_version} was not offered"
            version = header.api_version
            request = decode(api.request, version, frame, header.body_at)
            node = next(node for node, own in self.nodes.items() if own == port)
            self.requests.append((node, api.name, version, request))
            response = self.handlers[api.name](request, node)
            if response is None:
                return b""
        chunks = response_frame(api, version, header.correlation_id, encode_chunks(response, version))
        return b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileSlice))

    def _metadata(self, request: Any, node: int) -> MetadataResponse:
        wanted = None if request.topics is None else [each.name for each in request.topics]
        topics: dict[str, MetadataResponseTopic] = {}
        for (name, partition), leader in self.leaders.items():
            topic = topics.setdefault(name, MetadataResponseTopic(name=name, topic_id=TOPIC_ID))
            topic.partitions.append(
                MetadataResponsePartition(
                    partition_index=partition, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
                )
            )
        names = list(topics) if wanted is None else wanted
        return MetadataResponse(
            brokers=[MetadataResponseBroker(each, "127.0.0.1", port) for each, port in self.nodes.items()],
            cluster_id="scripted",
            controller_id=1,
            topics=[topics.get(name, MetadataResponseTopic(error_code=3, name=name)) for name in names],
        )
