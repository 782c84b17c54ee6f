"""A cluster as a client reaches it: channels to its brokers, its metadata, and patience.

`call` sends a request to any broker or to a certain one. What fails in a way that may pass (an election, a
topic that is just being made) is done again by `patiently` until the time is up; what will not pass is raised
at once. A broker has several channels where one use would hold up another: a fetch waits at the broker, and
its connection answers in order, so heartbeats and writes go over channels of their own (`Use`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.config import ClientConfig, parse_addresses
from headrace.clients.errors import (
    ClientError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    raise_for,
)
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.channel_builder import channel_builder_of
from headrace.clients.internals.client_metrics import ClientMetrics, MetricName
from headrace.clients.internals.environment import ClientEnvironment
from headrace.clients.internals.metadata import Metadata
from headrace.transport.backoff import Backoff
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

ANY_BROKER: Final = -1


class Use(Enum):
    """What a channel is for."""

    GENERAL = "general"
    FETCH = "fetch"
    COORDINATOR = "coordinator"
    JOIN = "join"  # answered when all members have come: commits and heartbeats must not wait behind it


class NetworkClient:
    """Channels to a cluster, and what is known of it. Lives on its world's loop."""

    def __init__(self, environment: ClientEnvironment, config: ClientConfig) -> None:
        self.environment = environment
        self.config = config
        self.metadata = Metadata()
        self.timeout_ms = config.int("request.timeout.ms")
        # How long something is tried again: as long as a call may take, where this kind of client says that.
        self._patience_ms = int(config.get("default.api.timeout.ms") or self.timeout_ms)  # type: ignore[arg-type]
        self.retry = Backoff(
            config.int("retry.backoff.ms"), config.int("retry.backoff.max.ms"), environment.rng
        )
        self._reconnect = Backoff(
            config.int("reconnect.backoff.ms"), config.int("reconnect.backoff.max.ms"), environment.rng
        )
        self._bootstrap = tuple(parse_addresses(config.list("bootstrap.servers")))
        self._memory = ReceiveMemory(environment.loop)
        self._channel_builder = channel_builder_of(config)
        self._channels: dict[tuple[str, int, Use], BrokerChannel] = {}
        self._any: BrokerChannel | None = None
        self.metrics = ClientMetrics(environment.now_ms())
        self.on_connected: Callable[[BrokerChannel], None] | None = None
        self.instance_id = bytes(16)  # a broker gives one to clients that push metrics (KIP-714)
        self._was_reached = False

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    # Requests

    def channel(self, node: int, use: Use = Use.GENERAL) -> BrokerChannel:
        """The channel to a broker that the metadata knows; UnreachableError for one that it does not."""
        address = self.metadata.brokers.get(node)
        if address is None:
            raise UnreachableError(f"broker {node} is not in the cluster now")
        return self._channel(*address, use)

    async def call(
        self,
        request: Any,
        *,
        node: int = ANY_BROKER,
        use: Use = Use.GENERAL,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> Any:
        """A broker's answer to a request."""
        channel = await self.find(node, use)
        return await channel.ask(request, timeout_ms=timeout_ms, at_most=at_most)

    async def find(self, node: int = ANY_BROKER, use: Use = Use.GENERAL) -> BrokerChannel:
        """A channel that is connected: to this broker, or to any."""
        if node != ANY_BROKER:
            if node not in self.metadata.brokers:
                await self.refresh(())
            channel = self.channel(node, use)
            await channel.ready()
            return channel
        if self._any is None or not self._any.is_ready:
            self._any = await self._connect_any()
        self._was_reached = True
        return self._any

    def _channel(self, host: str, port: int, use: Use) -> BrokerChannel:
        key = (host, port, use)
        found = self._channels.get(key)
        if found is None:
            found = self._channels[key] = BrokerChannel(
                self.environment,
                host,
                port,
                memory=self._memory,
                client_id=self.config.str("client.id"),
                backoff=self._reconnect,
                setup_ms=self.config.int("socket.connection.setup.timeout.ms"),
                request_ms=self.timeout_ms,
                channel_builder=self._channel_builder,
                on_connected=self._note_connected,
            )
        return found

    def _note_connected(self, channel: BrokerChannel) -> None:
        self.metrics.connections_made += 1
        if self.on_connected is not None:
            self.on_connected(channel)

    def read_metrics(self, kind: str, values: Iterable[tuple[str, str, float]]) -> dict[MetricName, float]:
        """Values by Kafka's names for them, and those of the connections of this kind of client."""
        tags = (("client-id", self.config.str("client.id")),)
        connected = sum(each.is_ready for each in self._channels.values())
        found = {MetricName(name, group, tags): value for group, name, value in values}
        found[MetricName("connection-count", kind, tags)] = float(connected)
        found[MetricName("connection-creation-total", kind, tags)] = float(self.metrics.connections_made)
        return found

    async def _connect_any(self) -> BrokerChannel:
        """Whoever answers, the connected first, then those that have not failed lately."""
        known = dict.fromkeys((*self.metadata.brokers.values(), *self._bootstrap))
        channels = [self._channel(host, port, Use.GENERAL) for host, port in known]
        channels.sort(key=lambda each: (not each.is_ready, each.pause_ms))
        failure: ClientError | None = None
        for channel in channels:
            try:
                await channel.ready()
            except (UnreachableError, TimedOutError) as error:
                failure = failure or error
            else:
                return channel
        assert failure is not None, "a cluster is made with at least one address"
        if len(channels) == 1:
            raise failure
        tried = ", ".join(each.address for each in channels)
        raise type(failure)(f"none of {len(channels)} addresses can be used ({tried}): {failure}")

    async def patiently(self, action: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Do something again while it fails in a way that may pass, and until the time is up."""
        deadline = self.environment.now_ms() + (self._patience_ms if timeout_ms is None else timeout_ms)
        failures = 0
        while True:
            failures += 1
            pause_ms = self.retry.wait_ms(failures)
            try:
                return await action()
            except RefusedError as error:
                if not error.retriable or self.environment.now_ms() + pause_ms > deadline:
                    raise
            except (UnreachableError, TimedOutError):
                # Before anything worked, the address is probably wrong: say so at once.
                if not self._was_reached or self.environment.now_ms() + pause_ms > deadline:
                    raise
            await self.pause(pause_ms)

    async def pause(self, milliseconds: float) -> None:
        await asyncio.sleep(milliseconds / 1000)

    # Metadata

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Ask for the brokers and for these topics; None asks for all topics."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        response: MetadataResponse = await self.call(request)
        raise_for(response.error_code, "cannot read the cluster's metadata")
        self.metadata.learn(response, is_whole=topics is None)
        return response

    async def refresh_ids(self, ids: Iterable[bytes]) -> None:
        """Learn about topics that only their ids are known of."""
        asked = [MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        self.metadata.learn(await self.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False)))

    async def topic(self, name: str, *, create: bool = False, wait: bool = False) -> MetadataResponseTopic:
        """A topic with all its leaders; NoSuchTopicError where there is none, unless to create it or wait."""

        async def ask() -> MetadataResponseTopic:
            (topic,) = (await self.refresh([name], create=create)).topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not (create or wait):
                raise NoSuchTopicError(name)
            raise_for(topic.error_code, f"topic {name!r}")
            for partition in topic.partitions:
                raise_for(partition.error_code, f"partition {partition.partition_index} of topic {name!r}")
            return topic

        return await self.patiently(ask)

    async def brokers(self) -> list[int]:
        """All brokers that are there now. A cluster that names none has them fenced for a moment, and has not
        nothing to tell: it is asked again.
        """

        async def ask() -> list[int]:
            await self.refresh(())
            if not self.metadata.brokers:
                raise RefusedError(
                    ErrorCode.LEADER_NOT_AVAILABLE, "the cluster", "it names no broker just now"
                )
            return sorted(self.metadata.brokers)

        return await self.patiently(ask)

    async def require_broker(self, node: int) -> None:
        """ClientError unless the cluster has this broker: for one that a person has named."""
        if node not in self.metadata.brokers:
            await self.refresh(())
        if node not in self.metadata.brokers:
            known = ", ".join(map(str, sorted(self.metadata.brokers))) or "none"
            raise ClientError(f"there is no broker {node} in the cluster now; there are: {known}")


_PATIENT_FAILURES: Final = 3
"""So often what a consumer reads may be missing without a word: a topic that was just made takes a moment."""


class MetadataUpdater:
    """Decides when a consumer's metadata is asked for again: after errors that say so, and by age.

    Whoever meets a sign that the metadata is old calls `request_update`. A refresh that does not find all
    that is needed (a topic that is not there yet, a partition without a leader) leaves the request open, and
    the next one waits longer.
    """

    def __init__(self, client: NetworkClient, *, on_news: Callable[[], None]) -> None:
        self._client = client
        self._on_news = on_news
        self._age_ms_max = client.config.int("metadata.max.age.ms")
        self._creates = client.config.bool("allow.auto.create.topics")
        self._is_requested = True
        self._asked_ms = 0
        self._failures = 0
        self.retry_at_ms = 0.0  # 0 where no failed refresh waits for its repetition
        self.trouble: ClientError | None = None  # why nothing comes, for a person who waits
        self._told = ""

    def request_update(self) -> None:
        """The metadata is wrong, or too little is known."""
        if not self._is_requested:
            self._is_requested = True
            self._on_news()

    @property
    def is_due(self) -> bool:
        """Whether to ask now."""
        now_ms = self._client.environment.now_ms()
        is_old = self._asked_ms > 0 and now_ms - self._asked_ms >= self._age_ms_max
        return (self._is_requested or is_old) and now_ms >= self.retry_at_ms

    async def refresh(
        self,
        topics: Callable[[], set[str]],
        partitions: Callable[[], Iterable[TopicPartition]],
        *,
        everything: bool,
    ) -> None:
        """Ask for these topics, or for all there are. What is wanted may change before the answer comes: it
        says nothing then of what it was not asked for, and what is no longer wanted is not missed.
        """
        self._is_requested = False
        asked = topics()
        trouble: ClientError | None = None
        try:
            await self._client.refresh(
                None if everything else sorted(asked), create=self._creates and not everything
            )
        except ClientError as error:
            trouble = error
            self._is_requested = True
        self._asked_ms = self._client.environment.now_ms()
        answered = [each for each in partitions() if everything or each.topic in asked]
        missing = self._missing(asked & topics(), answered)
        lacking = missing or self._leaderless(answered)
        if lacking is not None:
            self._is_requested = True
        self.trouble = trouble or lacking
        self._failures = self._failures + 1 if self._is_requested else 0
        self.retry_at_ms = 0.0
        if self._is_requested:
            self.retry_at_ms = self._asked_ms + self._client.retry.wait_ms(self._failures)
        self._tell(missing)

    def _tell(self, missing: ClientError | None) -> None:
        """Once: who reads what is not there has most often mistyped it, and waits for ever."""
        if missing is None:
            self._told = ""
        elif self._failures > _PATIENT_FAILURES and str(missing) != self._told:
            self._told = str(missing)
            log.warning("%s: it is waited for", missing)

    def _missing(self, topics: Iterable[str], partitions: Iterable[TopicPartition]) -> ClientError | None:
        """The first that the cluster does not have of what is to be read."""
        metadata = self._client.metadata
        for name in topics:
            if not metadata.partition_count(name):
                code = metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return RefusedError(code, f"topic {name!r}")
        for topic, partition in partitions:
            count = metadata.partition_count(topic)
            if partition >= count > 0:
                return ClientError(f"topic {topic!r} has no partition {partition}: it has 0 to {count - 1}")
        return None

    def _leaderless(self, partitions: Iterable[TopicPartition]) -> ClientError | None:
        for each in partitions:
            if self._client.metadata.leader(each).node == NO_LEADER:
                return RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"cannot read {each}")
        return None
