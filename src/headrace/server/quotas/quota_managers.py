"""All quotas of a node, and where they lie on the way of requests (Kafka's QuotaFactory.QuotaManagers).

A kind of quota that nobody has is not asked for: handlers are wrapped (`guarded`) and consumers' fetches
measured only where the image has a quota that can bind them, and the way back is as plain as it was.

- bytes produced: the size of Produce requests. Bytes fetched: the records of replies (`throttled_fetch`).
- the time of requests: how long the node's loop worked on them, where Kafka has many threads. 100 is the
  whole loop. What nodes ask each other is not measured, and nobody waits longer than one window at once.
- changes of partitions: counted by the controller that decides (`mutation_quota`). The broker that was asked
  makes the client wait.

What is measured when a request was handled counts for the next one: the request itself is served, its reply
says for how long the client must wait, and until then nothing more is read from it.
"""

from __future__ import annotations

import asyncio
import copy
import struct
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final

from headrace.base.clock import Clock
from headrace.base.futures import then
from headrace.base.rates import ELEVEN_SECONDS, Windows
from headrace.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    quotas_of,
)
from headrace.metadata.security import SecurityTables
from headrace.server.context import NO_REPLY, Peer, PreparedReply, RequestContext
from headrace.server.delayed_fetch import DelayedFetch
from headrace.server.quotas.client_quota_manager import (
    ClientQuotaManager,
    ClientSensor,
    ControllerMutationQuota,
    MutationSensor,
)
from headrace.server.quotas.throttled_channels import QuotaType, ThrottledChannels
from headrace.server.quotas.throttled_fetch import ThrottledFetch
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.produce import TOPIC_ID_SINCE, ProduceRequest

if TYPE_CHECKING:
    from headrace.server.forwarding import Handler
    from headrace.settings.broker_config import BrokerConfig

# A request's time in nanoseconds, as percents of a second.
NS_TO_PERCENT: Final = 100 / 1_000_000_000

STRICT_SINCE: Final = {
    int(ApiKey.CREATE_TOPICS): 6,
    int(ApiKey.DELETE_TOPICS): 5,
    int(ApiKey.CREATE_PARTITIONS): 3,
}
"""From which version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

# What nodes ask each other: holding it up would hold up everybody.
OF_NODES: Final = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.ENVELOPE})

# From this version on Metadata begins with the time to wait.
_METADATA_TOLD_SINCE: Final = 3
_INT32: Final = struct.Struct(">i")


class QuotaManagers:
    """The quotas of a node's clients, as of the image that it follows."""

    def __init__(
        self,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        windows: Windows = ELEVEN_SECONDS,
        mutation_windows: Windows = ELEVEN_SECONDS,
    ) -> None:
        self._clock = clock
        self._loop = loop
        now_ms = clock.monotonic_ms
        self.channels = ThrottledChannels(loop)
        self.produce = ClientQuotaManager(windows, ClientSensor, now_ms)
        self.fetch = ClientQuotaManager(windows, ClientSensor, now_ms)
        self.request = ClientQuotaManager(windows, ClientSensor, now_ms)
        self.controller_mutation = ClientQuotaManager(mutation_windows, MutationSensor, now_ms)
        self.new_fetch: type[DelayedFetch] = DelayedFetch
        self.limits_produce = False  # the produce lane asks

    def follow(self, tables: SecurityTables) -> bool:
        """Quotas changed; whether handlers must be wrapped anew."""
        before = self.produce.is_set, self.request.is_set
        self.produce.follow(quotas_of(tables, PRODUCER_BYTE_RATE))
        self.fetch.follow(quotas_of(tables, CONSUMER_BYTE_RATE))
        self.request.follow(quotas_of(tables, REQUEST_PERCENTAGE))
        self.controller_mutation.follow(quotas_of(tables, CONTROLLER_MUTATION_RATE))
        self.new_fetch = ThrottledFetch if self.fetch.is_set else DelayedFetch
        after = self.produce.is_set, self.request.is_set
        self.limits_produce = any(after)
        return before != after

    def guarded(self, api_key: ApiKey, handle: Handler) -> Handler:
        """The handler of a request kind, with what must be measured of it."""
        if api_key in OF_NODES:
            return handle
        if api_key is ApiKey.PRODUCE and self.produce.is_set:
            return self._measuring_bytes(handle)
        return self._measuring_time(handle) if self.request.is_set else handle

    def mutation_quota(self, context: RequestContext) -> ControllerMutationQuota | None:
        """What a request that changes partitions is counted by; None where nothing binds its client."""
        manager = self.controller_mutation
        if not manager.is_set:
            return None
        sensor = manager.sensor_of(context.peer.principal, context.client_id)
        if sensor is None:
            return None
        is_strict = context.api_version >= STRICT_SINCE[context.api_key]
        return ControllerMutationQuota(sensor, self._clock.monotonic_ms, is_strict=is_strict)

    def throttled_changes(
        self, context: RequestContext, quota: ControllerMutationQuota | None, answer: asyncio.Future[Any]
    ) -> asyncio.Future[Any]:
        """The controller's answer with the time that the client must wait, wherever that was found."""

        def tell(response: Any) -> Any:
            if quota is not None and quota.throttle_ms > response.throttle_time_ms:
                response.throttle_time_ms = quota.throttle_ms
            self.channels.throttle(context.peer, response.throttle_time_ms, QuotaType.CONTROLLER_MUTATION)
            return response

        return then(answer, tell, loop=self._loop)

    # -- around handlers -------------------------------------------------------------------------------------

    def _measuring_time(self, handle: Handler) -> Handler:
        monotonic_ns = self._clock.monotonic_ns

        def measuring_time(context: RequestContext, request: Any) -> Any:
            sensor = self.request.sensor_of(context.peer.principal, context.client_id)
            if sensor is None or _is_followers(request):
                return handle(context, request)
            began_ns = monotonic_ns()
            try:
                result = handle(context, request)
            finally:
                throttle_ms = self._spent(sensor, monotonic_ns() - began_ns)
                self.channels.throttle(context.peer, throttle_ms, QuotaType.REQUEST)
            if type(result) is GeneratorType:
                return self._slices(context, sensor, result)
            return self._told(context, result, throttle_ms)

        return measuring_time

    def _measuring_bytes(self, handle: Handler) -> Handler:
        timed = self._measuring_time(handle) if self.request.is_set else handle

        def measuring_bytes(context: RequestContext, request: ProduceRequest) -> Any:
            sensor = self.produce.sensor_of(context.peer.principal, context.client_id)
            if sensor is None:
                return timed(context, request)
            # Before it is handled: what is done later must not find the client ahead of it.
            throttle_ms = sensor.record(_request_bytes(context, request), self._clock.monotonic_ms())
            self.channels.throttle(context.peer, throttle_ms, QuotaType.PRODUCE)
            return self._told(context, timed(context, request), throttle_ms)

        return measuring_bytes

    def lane_meter(self, peer: Peer, client_id: str) -> Callable[[int], int] | None:
        """What measures a run in the produce lane: told its bytes when it was appended, it makes the client
        wait, and gives the time. None where nothing binds the client.
        """
        of_bytes = self.produce.sensor_of(peer.principal, client_id)
        of_time = self.request.sensor_of(peer.principal, client_id)
        if of_bytes is None and of_time is None:
            return None
        began_ns = self._clock.monotonic_ns()

        def measure(size: int) -> int:
            for_bytes = for_time = 0
            if of_bytes is not None:
                for_bytes = of_bytes.record(size, self._clock.monotonic_ms())
                self.channels.throttle(peer, for_bytes, QuotaType.PRODUCE)
            if of_time is not None:
                for_time = self._spent(of_time, self._clock.monotonic_ns() - began_ns)
                self.channels.throttle(peer, for_time, QuotaType.REQUEST)
            return max(for_bytes, for_time)

        return measure

    def _spent(self, sensor: ClientSensor, spent_ns: int) -> int:
        now_ms, at_most_ms = self._clock.monotonic_ms(), self.request.windows.size_ms
        return sensor.record(spent_ns * NS_TO_PERCENT, now_ms, throttle_ms_max=at_most_ms)

    def _slices(
        self, context: RequestContext, sensor: ClientSensor, work: Generator[Any, None, Any]
    ) -> Generator[Any, None, Any]:
        """What a handler left to be done in slices, measured."""
        spent_ns = 0
        while True:
            began_ns = self._clock.monotonic_ns()
            try:
                awaited = next(work)
            except StopIteration as done:
                throttle_ms = self._spent(sensor, spent_ns + self._clock.monotonic_ns() - began_ns)
                self.channels.throttle(context.peer, throttle_ms, QuotaType.REQUEST)
                return self._told(context, done.value, throttle_ms)
            spent_ns += self._clock.monotonic_ns() - began_ns
            yield awaited

    def _told(self, context: RequestContext, result: Any, throttle_ms: int) -> Any:
        """A handler's result that says for how long the client must wait."""
        if throttle_ms <= 0 or result is NO_REPLY:
            return result
        if asyncio.isfuture(result):
            return then(result, lambda done: self._told(context, done, throttle_ms), loop=self._loop)
        if type(result) is GeneratorType:
            return self._told_later(context, result, throttle_ms)
        if type(result) is PreparedReply:
            return _told_in_bytes(context, result, throttle_ms)
        if throttle_ms > getattr(result, "throttle_time_ms", throttle_ms):
            result = copy.copy(result)  # it may be one that others get, too
            result.throttle_time_ms = throttle_ms
        return result

    def _told_later(
        self, context: RequestContext, work: Generator[Any, None, Any], throttle_ms: int
    ) -> Generator[Any, None, Any]:
        return self._told(context, (yield from work), throttle_ms)


def quota_managers_of(config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> QuotaManagers:
    """A node's quotas, measured as its settings say."""
    return QuotaManagers(
        clock,
        loop,
        windows=quota_windows(config),
        mutation_windows=_windows(
            config.int("controller.quota.window.num"), config.int("controller.quota.window.size.seconds")
        ),
    )


def quota_windows(config: BrokerConfig) -> Windows:
    """How clients' use is measured."""
    return _windows(config.int("quota.window.num"), config.int("quota.window.size.seconds"))


def _windows(samples: int, seconds: int) -> Windows:
    return Windows(samples, seconds * 1000)


def _is_followers(request: Any) -> bool:
    """A Fetch of a replica: it is held to replication quotas."""
    state = getattr(request, "replica_state", None)
    return getattr(request if state is None else state, "replica_id", -1) >= 0


def _request_bytes(context: RequestContext, request: ProduceRequest) -> int:
    """A Produce request's size, to some bytes that depend on its version."""
    size = 24 + len(context.client_id or "")
    for topic in request.topic_data:
        size += 20 if context.api_version >= TOPIC_ID_SINCE else 6 + len(topic.name)
        size += sum(8 + len(data.records or b"") for data in topic.partition_data)
    return size


def _told_in_bytes(context: RequestContext, reply: PreparedReply, throttle_ms: int) -> PreparedReply:
    """Metadata that is written already: the time stands at its beginning."""
    if context.api_key != ApiKey.METADATA or context.api_version < _METADATA_TOLD_SINCE:
        return reply
    first, *others = reply.body
    body = [_INT32.pack(throttle_ms) + bytes(first)[_INT32.size :], *others]  # type: ignore[arg-type]
    return PreparedReply(body, reply.leaders, throttle_time_ms=throttle_ms)
