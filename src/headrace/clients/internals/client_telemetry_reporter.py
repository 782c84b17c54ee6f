"""Kafka's ClientTelemetryReporter: pushes a client's metrics to a broker that subscribes to them (KIP-714).

It begins when a broker is connected that knows the requests, which is one that has somewhere to show metrics,
and costs nothing before. It asks what to push, waits for a part of the interval so that many clients do not
come at once, and pushes; totals as what they grew since the last push. A broker whose subscriptions have
changed says so, and is asked again. Whatever goes wrong is tried again an interval later: metrics are never
worth a client's trouble. When the client is closed it pushes once more, and says that this was the last.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import ClientError
from headrace.clients.internals.broker_channel import BrokerChannel
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.network_client import NetworkClient
from headrace.records.codecs import Codec, compress
from headrace.telemetry.client_metrics.otlp import DataPoint, write_metrics_data
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.wire.schemas.push_telemetry import PushTelemetryRequest

log = logging.getLogger(__name__)

AGAIN_S: Final = 300.0
"""After something that went wrong before an interval was known."""
LAST_PUSH_S: Final = 1.0
"""How long closing waits for it."""
PREFIX: Final = "org.apache.kafka."
ALL: Final = "*"
# What is tried anew at once, under another subscription.
_STALE: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_RESOURCE: Final = {
    "client.rack": "client_rack",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "transactional.id": "transactional_id",
}

Read = Callable[[], Mapping[MetricName, float]]


class ClientTelemetryReporter:
    """The pushes of one client. `read` gives its metrics."""

    def __init__(self, client: NetworkClient, read: Read) -> None:
        self._client = client
        self._read = read
        self._subscription: Any = None
        self._before: dict[str, float] = {}
        self._before_ns = client.environment.clock.now_ms() * 1_000_000
        self._task: asyncio.Task[None] | None = None
        if client.config.bool("enable.metrics.push"):
            client.on_connected = self._connected

    def _connected(self, channel: BrokerChannel) -> None:
        if self._task is None and channel.versions.supports(ApiKey.PUSH_TELEMETRY):
            self._task = self._client.environment.loop.create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def push_last(self) -> None:
        """Push once more, where there is a subscription."""
        self.close()
        found = self._subscription
        if found is not None and found.requested_metrics:
            with contextlib.suppress(ClientError, TimeoutError):
                await asyncio.wait_for(self._push(found, is_last=True), LAST_PUSH_S)

    async def _run(self) -> None:
        wait_s = 0.0
        while True:
            await asyncio.sleep(wait_s)
            try:
                wait_s = await self._ask() if self._subscription is None else await self._go_on()
            except ClientError as error:
                log.debug("metrics are not pushed now: %s", error)
                wait_s = self._interval_s
                self._subscription = None

    @property
    def _interval_s(self) -> float:
        found = self._subscription
        return AGAIN_S if found is None else float(found.push_interval_ms) / 1000

    async def _ask(self) -> float:
        """What to push; how long to wait then."""
        instance_id = self._client.instance_id
        found = await self._client.call(GetTelemetrySubscriptionsRequest(instance_id))
        if found.error_code:
            log.debug("no subscription to metrics: %s", ErrorCode(found.error_code).name)
            return AGAIN_S
        self._client.instance_id = found.client_instance_id
        self._subscription = found
        if not found.requested_metrics:
            self._subscription = None
            return float(found.push_interval_ms) / 1000
        # Not all clients at once, after a broker was started.
        return self._client.environment.rng.uniform(0.5, 1.5) * self._interval_s

    async def _go_on(self) -> float:
        found = self._subscription
        interval_s = self._interval_s
        code = await self._push(found)
        if code:
            log.debug("a push of metrics was refused: %s", ErrorCode(code).name)
            self._subscription = None
            return 0.0 if code in _STALE else interval_s
        return interval_s

    async def _push(self, found: Any, *, is_last: bool = False) -> int:
        data = self._data(found.requested_metrics)
        codec = Codec.NONE
        for each in found.accepted_compression_types:
            codec = Codec(each)
            break
        request = PushTelemetryRequest(
            client_instance_id=found.client_instance_id,
            subscription_id=found.subscription_id,
            terminating=is_last,
            compression_type=int(codec),
            metrics=bytes(compress(codec, data)),
        )
        answer = await self._client.call(request)
        return int(answer.error_code)

    def _data(self, wanted: list[str]) -> bytes:
        """What is subscribed to, in OpenTelemetry's form."""
        now_ns = self._client.environment.clock.now_ms() * 1_000_000
        points = []
        for each, value in self._read().items():
            name = telemetry_name(each)
            if wanted != [ALL] and not name.startswith(tuple(wanted)):
                continue
            is_total = name.endswith(".total")
            grown = value - self._before.get(name, 0.0) if is_total else value
            if is_total:
                self._before[name] = value
            points.append(DataPoint(name, (), grown, is_total=is_total, is_delta=is_total))
        config = self._client.config
        resource = {label: str(config.get(name)) for name, label in _RESOURCE.items() if config.get(name)}
        data = write_metrics_data(points, resource=resource, start_ns=self._before_ns, time_ns=now_ns)
        self._before_ns = now_ns
        return data


def telemetry_name(metric: MetricName) -> str:
    """`producer-metrics` and `record-send-total` as org.apache.kafka.producer.record.send.total."""
    group = metric.group.removesuffix("-metrics")
    return f"{PREFIX}{group}.{metric.name}".replace("-", ".")
