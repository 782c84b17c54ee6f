"""A cluster that answers by script, on real sockets: what is asked is remembered, what is heard is chosen.

Every node listens on a port of its own. A request is decoded, handed to the handler of its API, and answered
with what that returns; None answers nothing. A node that is dead refuses connections.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

from headrace.base.chunks import FileSlice
from headrace.clients import Admin
from headrace.records.batch import Record, build_batch, read_records
from headrace.wire.apis import API, ApiKey
from headrace.wire.codec import decode, encode_chunks
from headrace.wire.framing import read_request_header, response_frame
from headrace.wire.schemas.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsResponse
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.schemas.init_producer_id import InitProducerIdResponse
from headrace.wire.schemas.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

TOPIC_ID = bytes(range(16))

Handler = Callable[[Any, int], Any]


class ScriptedCluster:
    """Nodes by number; `handlers` answer by API name, `requests` remembers what was asked of whom."""

    def __init__(self, nodes: int = 1) -> None:
        self.handlers: dict[str, Handler] = {
            "Metadata": self._metadata,
            "DescribeTopicPartitions": lambda request, node: DescribeTopicPartitionsResponse(),
            "InitProducerId": lambda request, node: InitProducerIdResponse(producer_id=7, producer_epoch=0),
        }
        self.requests: list[tuple[int, str, int, Any]] = []
        self.leaders = {("t", 0): 1}
        self.leader_epoch = 0
        self.versions: dict[int, tuple[int, int]] = {
            key: (api.advertised_min, api.advertised_max)
            for key, api in API.items()
            if key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)  # as most brokers
        }
        self.features: dict[str, int] = {}
        self.closing = threading.Event()
        self._listeners = {number: socket.create_server(("127.0.0.1", 0)) for number in range(1, nodes + 1)}
        self.ports = {number: each.getsockname()[1] for number, each in self._listeners.items()}
        self._connections: list[socket.socket] = []
        self._threads = [
            self._begin(self._accept, number, listener) for number, listener in self._listeners.items()
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for number in list(self._listeners):
            self.kill(number)
        for thread in self._threads:
            thread.join(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    def admin(self, **settings: Any) -> Admin:
        return Admin(bootstrap_servers=self.address, **({"request_timeout_ms": 5_000} | settings))

    def asked(self, name: str) -> list[Any]:
        return [request for _, api_name, _, request in self.requests if api_name == name]

    def kill(self, number: int) -> None:
        """The node takes no connection any more and loses those it has."""
        listener = self._listeners.pop(number, None)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self) -> None:
        """All connections are lost."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    # Serving

    def _begin(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    def _accept(self, number: int, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._connections.append(connection)
                self._threads.append(self._begin(self._serve, number, connection))

    def _serve(self, number: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                connection.sendall(self._answer(frame, number))

    def _answer(self, frame: bytes, node: int) -> bytes:
        header = read_request_header(memoryview(frame))
        api = API[header.api_key]
        least, most = self.versions[header.api_key]
        if api.name == "ApiVersions":
            # Answered in v0 where the version is too new, as every broker does.
            known = least <= header.api_version <= most
            version = header.api_version if known else 0
            keys = [ApiVersion(key, *span) for key, span in self.versions.items()]
            levels = [FinalizedFeatureKey(name, level, level) for name, level in self.features.items()]
            code = 0 if known else 35
            response = ApiVersionsResponse(error_code=code, api_keys=keys, finalized_features=levels)
        else:
            assert least <= header.api_version <= most, f"{api.name} v{header.api_version} was not offered"
            version = header.api_version
            request = decode(api.request, version, frame, header.body_at)
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
                    partition_index=partition,
                    leader_id=leader,
                    leader_epoch=self.leader_epoch,
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                )
            )
        names = list(topics) if wanted is None else wanted
        return MetadataResponse(
            brokers=[MetadataResponseBroker(each, "127.0.0.1", port) for each, port in self.ports.items()],
            cluster_id="scripted",
            controller_id=1,
            topics=[topics.get(name, MetadataResponseTopic(error_code=3, name=name)) for name in names],
        )


class Written:
    """Answers Produce: takes everything, except where `errors` says otherwise, once each."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.errors: list[int] = []
        scripted.handlers["Produce"] = self.handle

    def handle(self, request: Any, node: int) -> ProduceResponse | None:
        results = []
        for data in request.topic_data[0].partition_data:
            error = self.errors.pop(0) if self.errors else 0
            if not error:
                self.batches.setdefault(data.index, []).append(bytes(data.records))
            results.append(PartitionProduceResponse(index=data.index, error_code=error, base_offset=100))
        if request.acks == 0:
            return None
        topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=results)
        return ProduceResponse(responses=[topic])

    def values(self, partition: int) -> list[bytes | None]:
        return [each.value for batch in self.batches.get(partition, []) for each in read_records(batch)]


class Log:
    """Answers Fetch of one partition out of whole batches, as brokers do."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.batches: list[tuple[int, int, bytes]] = []  # first and last offset, bytes
        self._scripted = scripted
        scripted.handlers["Fetch"] = self.handle

    def add(self, first: int, *values: bytes, leader_epoch: int = 0) -> None:
        records = [Record(value=value, timestamp=5) for value in values]
        data = bytes(build_batch(records, base_offset=first, leader_epoch=leader_epoch))
        self.batches.append((first, first + max(1, len(values)) - 1, data))

    def handle(self, request: Any, node: int) -> FetchResponse:
        if not request.topics:
            return FetchResponse()
        (wanted,) = request.topics[0].partitions
        data = b"".join(each for _, last, each in self.batches if last >= wanted.fetch_offset)
        if not data:
            self._scripted.closing.wait(request.max_wait_ms / 1000)  # a broker waits for records so long
        end = max((last + 1 for _, last, _ in self.batches), default=0)
        found = PartitionData(high_watermark=end, records=data)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[found])]
        )
