"""Kafka's ClientMetricsManager: which clients push which metrics how often (KIP-714), and what they push.

Subscriptions are settings of resources of the kind CLIENT_METRICS; a client that matches several pushes what
all of them ask for, at the shortest interval. A client asks first (GetTelemetrySubscriptions), and then
pushes under the id of its subscription, which changes with what it is subscribed to: one with an old id is
told so and asks again. It may do either once in an interval, and who is not patient is refused. What is known
of a client is forgotten when it has not been heard for some intervals; it asks again then, as after a
restart.

Unlike Kafka, which hands every push to a plugin, a node has two takers: /metrics, and an endpoint that speaks
OpenTelemetry. Without either the two requests are not served (`api_table.py`).
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import new_uuid, uuid_text
from headrace.metadata.config_resource import ConfigKey, ResourceType
from headrace.records.codecs import Codec, UnpackedTooLargeError, decompress
from headrace.server.context import RequestContext
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.client_metrics import parse_match
from headrace.telemetry.client_metrics.otlp import (
    TEXT_MAX,
    DataPoint,
    TooManyPointsError,
    read_metrics_data,
)
from headrace.telemetry.client_metrics.pushed_metrics import PushedMetrics
from headrace.telemetry.limited_log import LimitedLog
from headrace.wire.schemas.push_telemetry import PushTelemetryRequest

logger = logging.getLogger(__name__)

ALL_METRICS: Final = "*"
INTERVAL_MS: Final = 300_000  # where nothing else is said, as CLIENT_METRICS has it
INSTANCES_MAX: Final = 16_384  # as in Kafka
HEARD_INTERVALS: Final = 3
"""A client that has not been heard for so many is forgotten."""
HEARD_S_MIN: Final = 60.0
COMPRESSION_TYPES: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
UNPACKED_TIMES_MAX: Final = 8
"""What a push unpacks to is at most so many times `telemetry.max.bytes`: such texts pack to a tenth."""
NO_INSTANCE: Final = bytes(16)
RESERVED: Final = frozenset({NO_INSTANCE, bytes(15) + b"\x01"})  # those that Kafka gives to nobody


class Exporter(Protocol):
    """Who hands pushes on to an endpoint, and counts what became of them."""

    @property
    def counts(self) -> Mapping[str, int]: ...

    def hand_on(self, data: bytes, attributes: Mapping[str, str]) -> None: ...


class SubscriptionInfo(NamedTuple):
    """What some clients push."""

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Callable[[str], object]]  # property of a client -> whether it is like that

    def is_for(self, properties: Mapping[str, str]) -> bool:
        return all(matches(properties[name]) for name, matches in self.match.items())


class ClientInstance:
    """One running client, and the subscription that was made for it."""

    __slots__ = (
        "heard_s",
        "instance_id",
        "interval_ms",
        "is_terminating",
        "last_error",
        "last_get_s",
        "last_push_s",
        "metrics",
        "properties",
        "subscription_id",
        "version",
    )

    def __init__(
        self,
        instance_id: bytes,
        properties: Mapping[str, str],
        metrics: list[str],
        interval_ms: int,
        version: int,
    ) -> None:
        self.instance_id = instance_id
        self.properties = properties
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.version = version
        told = f"{metrics}{interval_ms}".encode() + instance_id
        # As int32; what the number is does not matter, only that it is another one for other metrics.
        self.subscription_id = zlib.crc32(told) - (1 << 31)
        self.last_get_s = self.last_push_s = float("-inf")
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.heard_s = 0.0

    def may_get(self, now_s: float) -> bool:
        """Once in an interval."""
        if now_s - max(self.last_get_s, self.last_push_s) < self.interval_ms / 1000:
            return False
        self.last_get_s = now_s
        return True

    def may_push(self, now_s: float) -> bool:
        """Once in an interval, and once right after asking: clients spread their first push over one."""
        if self.last_get_s <= self.last_push_s and now_s - self.last_push_s < self.interval_ms / 1000:
            return False
        self.last_push_s = now_s
        return True


class ClientMetricsManager:
    """All clients that ask this node."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self._config = config
        self._loop = loop
        self._rng = rng
        self._subscriptions: dict[str, SubscriptionInfo] = {}
        self._version = 0
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._refusals = LimitedLog(loop.time, logger, logging.WARNING)
        self.pushed = PushedMetrics(self._refusals)
        self.exporter: Exporter | None = None
        self.outcomes: Counter[ErrorCode] = Counter()

    def __len__(self) -> int:
        return len(self._instances)

    # Subscriptions

    def follow(self, configs: Mapping[ConfigKey, Mapping[str, str]], changed: set[ConfigKey]) -> None:
        """Take on what was changed. What clients are subscribed to is found out anew when they ask."""
        for key in changed:
            if key.resource_type != ResourceType.CLIENT_METRICS:
                continue
            self._version += 1
            settings = configs.get(key)
            if settings is None:
                self._subscriptions.pop(key.name, None)
            else:
                self._subscriptions[key.name] = subscription_of(settings)

    def _instance(self, instance_id: bytes, context: RequestContext) -> ClientInstance:
        now_s = self._loop.time()
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            instance = self._instances[instance_id] = self._subscribe(
                instance_id, properties_of(context, instance_id)
            )
        self._instances.move_to_end(instance_id)
        instance.heard_s = now_s
        self._forget(now_s)
        return instance

    def _subscribe(self, instance_id: bytes, properties: Mapping[str, str]) -> ClientInstance:
        interval_ms = INTERVAL_MS
        metrics: set[str] = set()
        for each in self._subscriptions.values():
            if each.is_for(properties):
                metrics |= each.metrics
                interval_ms = min(interval_ms, each.interval_ms)
        wanted = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
        return ClientInstance(instance_id, properties, wanted, interval_ms, self._version)

    def _forget(self, now_s: float) -> None:
        while self._instances:
            oldest = next(iter(self._instances.values()))
            kept_s = max(HEARD_INTERVALS * oldest.interval_ms / 1000, HEARD_S_MIN)
            if len(self._instances) <= INSTANCES_MAX and now_s - oldest.heard_s <= kept_s:
                return
            del self._instances[oldest.instance_id]

    # Requests

    def get_subscription(self, instance_id: bytes, context: RequestContext) -> ClientInstance:
        """The subscription of a client, which gets an id where it has none. ApiError where it may not ask."""
        if instance_id in RESERVED:
            instance_id = new_uuid(self._rng)
        instance = self._instance(instance_id, context)
        asks_rightly = instance.last_error in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        if not instance.may_get(self._loop.time()) and not asks_rightly:
            raise _too_early(instance)
        instance.last_error = ErrorCode.NONE
        return instance

    @property
    def telemetry_bytes_max(self) -> int:
        return self._config.int("telemetry.max.bytes")

    def push(self, request: PushTelemetryRequest, context: RequestContext) -> asyncio.Future[None] | None:
        """Take what a client pushes; a thread unpacks and reads it. ApiError where it may not."""
        if request.client_instance_id in RESERVED:
            self.outcomes[ErrorCode.INVALID_REQUEST] += 1
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid request from the client [{uuid_text(request.client_instance_id)}], "
                "invalid client instance id",
            )
        instance = self._instance(request.client_instance_id, context)
        try:
            self._check(instance, request)
        except ApiError as error:
            self._refuse(instance, error)
            raise
        instance.is_terminating = request.terminating
        packed = bytes(request.metrics)
        if not packed:
            self._took(instance, request.terminating)
            return None
        codec, limit = request.compression_type, UNPACKED_TIMES_MAX * self.telemetry_bytes_max
        taking = self._take_by_thread(instance, codec, packed, limit, request.terminating)
        return self._loop.create_task(taking)

    async def _take_by_thread(
        self, instance: ClientInstance, codec: int, packed: bytes, limit: int, is_last: bool
    ) -> None:
        try:
            data, points = await self._loop.run_in_executor(None, _unpack, codec, packed, limit)
        except ApiError as error:
            self._refuse(instance, error)
            raise
        self._take(instance, data, points, is_last)

    def _take(self, instance: ClientInstance, data: bytes, points: list[DataPoint], is_last: bool) -> None:
        now_s, interval_s = self._loop.time(), instance.interval_ms / 1000
        client_id = instance.properties["client_id"]
        self.pushed.take(
            client_id,
            uuid_text(instance.instance_id),
            points,
            now_s=now_s,
            shown_s=max(HEARD_INTERVALS * interval_s, HEARD_S_MIN),
        )
        if self.exporter is not None:
            self.exporter.hand_on(data, instance.properties)
        self._took(instance, is_last)

    def _took(self, instance: ClientInstance, is_last: bool) -> None:
        self.outcomes[ErrorCode.NONE] += 1
        if is_last:
            self.pushed.drop(uuid_text(instance.instance_id))

    def _refuse(self, instance: ClientInstance, error: ApiError) -> None:
        instance.last_error = error.code
        self.outcomes[error.code] += 1
        if error.code not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            self._refusals.write(
                "metrics of client %r at %s are not taken: %s",
                *(instance.properties["client_id"], instance.properties["client_source_address"], error),
            )

    def _check(self, instance: ClientInstance, request: PushTelemetryRequest) -> None:
        """What Kafka looks at, in its order and with its words."""
        name = uuid_text(instance.instance_id)
        if instance.is_terminating:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Client [{name}] sent push telemetry request after terminating"
            )
        if not instance.may_push(self._loop.time()) and not request.terminating:
            raise _too_early(instance)
        if request.subscription_id != instance.subscription_id:
            raise ApiError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{name}]"
            )
        if request.compression_type not in (Codec.NONE, *COMPRESSION_TYPES):
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type [{request.compression_type}] is received in telemetry request "
                f"from [{name}]",
            )
        if len(request.metrics) > self.telemetry_bytes_max:
            raise ApiError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"Telemetry request from [{name}] is larger than the maximum allowed size "
                f"[{self.telemetry_bytes_max}]",
            )


def _too_early(instance: ClientInstance) -> ApiError:
    name = uuid_text(instance.instance_id)
    return ApiError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"Request from the client [{name}] arrived before the next push interval time",
    )


def subscription_of(settings: Mapping[str, str]) -> SubscriptionInfo:
    """What the settings of a subscription say; the controller has checked them."""
    interval = settings.get("interval.ms", "")
    return SubscriptionInfo(
        metrics=frozenset(each.strip() for each in settings.get("metrics", "").split(",") if each.strip()),
        interval_ms=int(interval) if interval else INTERVAL_MS,
        match=parse_match(settings.get("match", "")),
    )


def properties_of(context: RequestContext, instance_id: bytes) -> dict[str, str]:
    """What a client can be matched by, and is known by where its metrics are handed on."""
    peer = context.peer
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": (context.client_id or "")[:TEXT_MAX],
        "client_software_name": peer.software_name[:TEXT_MAX],
        "client_software_version": peer.software_version[:TEXT_MAX],
        "client_source_address": peer.host,
        "client_source_port": str(peer.port),
    }


def _unpack(codec: int, packed: bytes, limit_bytes: int) -> tuple[bytes, list[DataPoint]]:
    """What a push says. ApiError where it is too large, or is none."""
    try:
        data = bytes(decompress(codec, packed, limit_bytes=limit_bytes))
        return data, read_metrics_data(data)
    except (UnpackedTooLargeError, TooManyPointsError) as error:
        raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from None
    except InvalidBytesError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
