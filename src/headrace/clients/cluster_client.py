"""A cluster as a client reaches it: channels to its brokers, metadata that is kept fresh, and patience.

`call` sends a request to any broker or to a certain one. What fails in a way that may pass (an election, a
topic that is just being made) is done again by `patiently` until the time is up; what will not pass is raised
at once. A broker has several channels where one use would hold up another: a fetch waits at the broker, and
its connection answers in order, so heartbeats and writes go over channels of their own (`Use`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.clients.addresses import parse_addresses
from headrace.clients.channel import Channel
from headrace.clients.configuration import ClientConfig
from headrace.clients.errors import (
    ClientError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    raise_for,
)
from headrace.clients.metadata import ClusterView
from headrace.clients.world import World
from headrace.transport.backoff import Backoff
from headrace.transport.receive_memory import ReceiveMemory
from headrace.wire.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

ANY_BROKER: Final = -1


class Use(Enum):
    """What a channel is for."""

    GENERAL = "general"
    FETCH = "fetch"
    COORDINATOR = "coordinator"
    JOIN = "join"  # answered when all members have come: commits and heartbeats must not wait behind it


class ClusterClient:
    """Channels to a cluster, and what is known of it. Lives on its world's loop."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        self.world = world
        self.config = config
        self.view = ClusterView()
        self.timeout_ms = config.int("request.timeout.ms")
        # How long something is tried again: as long as a call may take, where this kind of client says that.
        self._patience_ms = int(config.get("default.api.timeout.ms") or self.timeout_ms)  # type: ignore[arg-type]
        self.retry = Backoff(config.int("retry.backoff.ms"), config.int("retry.backoff.max.ms"), world.rng)
        self._reconnect = Backoff(
            config.int("reconnect.backoff.ms"), config.int("reconnect.backoff.max.ms"), world.rng
        )
        self._bootstrap = tuple(parse_addresses(config.list("bootstrap.servers")))
        self._memory = ReceiveMemory(world.loop)
        self._channels: dict[tuple[str, int, Use], Channel] = {}
        self._any: Channel | None = None
        self._was_reached = False

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    # Requests

    def channel(self, node: int, use: Use = Use.GENERAL) -> Channel:
        """The channel to a broker that the metadata knows; UnreachableError for one that it does not."""
        address = self.view.brokers.get(node)
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

    async def find(self, node: int = ANY_BROKER, use: Use = Use.GENERAL) -> Channel:
        """A channel that is connected: to this broker, or to any."""
        if node != ANY_BROKER:
            if node not in self.view.brokers:
                await self.refresh(())
            channel = self.channel(node, use)
            await channel.ready()
            return channel
        if self._any is None or not self._any.is_ready:
            self._any = await self._connect_any()
        self._was_reached = True
        return self._any

    def _channel(self, host: str, port: int, use: Use) -> Channel:
        key = (host, port, use)
        found = self._channels.get(key)
        if found is None:
            found = self._channels[key] = Channel(
                self.world,
                host,
                port,
                memory=self._memory,
                client_id=self.config.str("client.id"),
                backoff=self._reconnect,
                setup_ms=self.config.int("socket.connection.setup.timeout.ms"),
                request_ms=self.timeout_ms,
            )
        return found

    async def _connect_any(self) -> Channel:
        """Whoever answers, the connected first, then those that have not failed lately."""
        known = dict.fromkeys((*self.view.brokers.values(), *self._bootstrap))
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
        raise failure

    async def patiently(self, action: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Do something again while it fails in a way that may pass, and until the time is up."""
        deadline = self.world.now_ms() + (self._patience_ms if timeout_ms is None else timeout_ms)
        failures = 0
        while True:
            failures += 1
            pause_ms = self.retry.wait_ms(failures)
            try:
                return await action()
            except RefusedError as error:
                if not error.retriable or self.world.now_ms() + pause_ms > deadline:
                    raise
            except (UnreachableError, TimedOutError):
                # Before anything worked, the address is probably wrong: say so at once.
                if not self._was_reached or self.world.now_ms() + pause_ms > deadline:
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
        self.view.learn(response, is_whole=topics is None)
        return response

    async def refresh_ids(self, ids: Iterable[bytes]) -> None:
        """Learn about topics that only their ids are known of."""
        asked = [MetadataRequestTopic(topic_id=each, name=None) for each in ids]
        self.view.learn(await self.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False)))

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

    async def require_broker(self, node: int) -> None:
        """ClientError unless the cluster has this broker: for one that a person has named."""
        if node not in self.view.brokers:
            await self.refresh(())
        if node not in self.view.brokers:
            known = ", ".join(map(str, sorted(self.view.brokers))) or "none"
            raise ClientError(f"there is no broker {node} in the cluster now; there are: {known}")
