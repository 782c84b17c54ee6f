"""A cluster as a blocking client sees it: who leads what, a connection to each broker, and patience.

`call` sends a request to any broker, or to a certain one, and gives its answer. What fails in a way that may
pass (an election, a topic that is just being made) is done again by `patiently` until the time is up; what
will not pass is raised at once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, NO_TOPIC_ID, TopicPartition
from headrace.clients.connection import BrokerConnection, World
from headrace.clients.errors import (
    ClientError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    raise_for,
)
from headrace.wire.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

ANY_BROKER: Final = -1
DEFAULT_PORT: Final = 9092
TIMEOUT_MS: Final = 30_000
_PAUSE_MS: Final = 50
_PAUSE_MS_MAX: Final = 1_000


@dataclass(slots=True)
class ClusterView:
    """What the last answers to Metadata said."""

    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)
    cluster_id: str = ""
    controller_id: int = -1

    def learn(self, response: MetadataResponse) -> None:
        """Take in an answer; topics that it does not name stay as they were."""
        self.brokers = {each.node_id: (each.host, each.port) for each in response.brokers}
        self.cluster_id = response.cluster_id or ""
        self.controller_id = response.controller_id
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE:
                self.topics[topic.name or ""] = topic
            else:
                self.topics.pop(topic.name or "", None)

    def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition; NO_LEADER where none is known."""
        topic = self.topics.get(partition.topic)
        found = (
            (p.leader_id for p in topic.partitions if p.partition_index == partition.partition)
            if topic
            else ()
        )
        return next(iter(found), NO_LEADER)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """HOST:PORT,HOST:PORT… as pairs; a missing port is Kafka's. ClientError for anything else."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, separator, port = item.rpartition(":")
        if not separator or item.endswith("]"):
            host, port = item, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ClientError(f"{item!r} is not an address: give HOST:PORT, as in 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ClientError("no address of a broker is given: give HOST:PORT, as in 127.0.0.1:9092")
    return addresses


class Cluster:
    """Connections to a cluster. Use it with `with`, or close it."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        world: World,
        *,
        client_id: str = "headrace",
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self.view = ClusterView()
        self.world = world
        self.timeout_ms = timeout_ms
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._connections: dict[int, BrokerConnection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def now_ms(self) -> int:
        return self.world.clock.monotonic_ms()

    # Requests

    def call(
        self,
        request: Any,
        *,
        node: int = ANY_BROKER,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> Any:
        """A broker's answer to a request. A lost connection is dropped: the next call makes a new one."""
        connection = self.connection(node)
        try:
            return connection.call(request, timeout_ms=timeout_ms or self.timeout_ms, at_most=at_most)
        except (UnreachableError, TimedOutError):
            self.drop(node)
            raise

    def connection(self, node: int = ANY_BROKER) -> BrokerConnection:
        """The connection to a node, made where there is none yet."""
        existing = self._connections.get(node)
        if existing is not None:
            return existing
        made = self._connect_any() if node == ANY_BROKER else self._connect(*self._address(node))
        self._connections[node] = made
        return made

    def drop(self, node: int) -> None:
        """Close a connection that is of no more use."""
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def patiently(self, action: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Do something again while it fails in a way that may pass, and until the time is up."""
        deadline = self.now_ms() + (timeout_ms or self.timeout_ms)
        pause_ms = _PAUSE_MS
        while True:
            try:
                return action()
            except RefusedError as error:
                if not error.retriable or self.now_ms() + pause_ms > deadline:
                    raise
            except UnreachableError:
                # Before anything worked, the address is probably wrong: say so at once.
                if not self.view.brokers or self.now_ms() + pause_ms > deadline:
                    raise
            self.pause(pause_ms)
            pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)

    def pause(self, milliseconds: int) -> None:
        self.world.waiter.readable((), milliseconds)

    def _connect(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(self.world, host, port, client_id=self._client_id, timeout_ms=self.timeout_ms)

    def _connect_any(self) -> BrokerConnection:
        failure: ClientError | None = None
        for host, port in dict.fromkeys((*self._bootstrap, *self.view.brokers.values())):
            try:
                return self._connect(host, port)
            except (UnreachableError, TimedOutError) as error:
                failure = failure or error
        assert failure is not None, "a cluster is made with at least one address"
        raise failure

    def require_broker(self, node: int) -> None:
        """ClientError unless the cluster has this broker: for one that a person has named."""
        if node not in self.view.brokers:
            self.refresh(())
        if node not in self.view.brokers:
            known = ", ".join(map(str, sorted(self.view.brokers))) or "none"
            raise ClientError(f"there is no broker {node} in the cluster now; there are: {known}")

    def _address(self, node: int) -> tuple[str, int]:
        if node not in self.view.brokers:
            self.refresh(())
        if node not in self.view.brokers:
            raise UnreachableError(f"broker {node} is not in the cluster now")
        return self.view.brokers[node]

    # Metadata

    def refresh(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Ask for the brokers and for these topics; None asks for all topics. Nothing is created."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response: MetadataResponse = self.call(request)
        raise_for(response.error_code, "cannot read the cluster's metadata")
        self.view.learn(response)
        return response

    def topic(self, name: str, *, create: bool = False, wait: bool = False) -> MetadataResponseTopic:
        """A topic with all its leaders; NoSuchTopicError where there is none, unless to create it or wait."""

        def ask() -> MetadataResponseTopic:
            asked = [MetadataRequestTopic(name=name)]
            response: MetadataResponse = self.call(
                MetadataRequest(topics=asked, allow_auto_topic_creation=create)
            )
            self.view.learn(response)
            (topic,) = response.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not (create or wait):
                raise NoSuchTopicError(name)
            raise_for(topic.error_code, f"topic {name!r}")
            for partition in topic.partitions:
                raise_for(partition.error_code, f"partition {partition.partition_index} of topic {name!r}")
            return topic

        return self.patiently(ask)
