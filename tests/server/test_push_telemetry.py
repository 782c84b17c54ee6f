"""PushTelemetry: what is taken, what is refused and with which of Kafka's errors, and where it goes."""

import gzip
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.node.metrics.otlp_exporter import ENDPOINT, HEADERS, OtlpExporter, otlp_exporter_of
from headrace.records.codecs import Codec, compress
from headrace.server import client_metrics_manager
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.telemetry.client_metrics.otlp import DataPoint, read_metrics_data, write_metrics_data
from headrace.wire.schemas.push_telemetry import PushTelemetryRequest
from tests.node.test_metrics import scrape
from tests.server.node_world import SETTINGS, Client, NodeWorld, simulated
from tests.server.test_get_telemetry_subscriptions import LISTENER, get, subscribe
from tests.telemetry.scraping import labels

POINTS = [
    DataPoint("org.a.total", (), 2.0, is_total=True, is_delta=True),
    DataPoint("org.a.avg", (("topic", 't"\n'),), 0.5),
]
DATA = write_metrics_data(POINTS, resource={}, start_ns=0, time_ns=1)


class Pusher:
    """A client with a subscription."""

    def __init__(self, client: Client, found: Any) -> None:
        self._client = client
        self.found = found

    async def push(self, data: bytes = DATA, codec: int = 0, **more: Any) -> int:
        """The error that is answered."""
        request = PushTelemetryRequest(
            self.found.client_instance_id, self.found.subscription_id, False, codec, data
        )
        for name, value in more.items():
            setattr(request, name, value)
        code: int = (await self._client.ask(request, 0)).error_code
        return code


async def pusher(world: NodeWorld, **settings: str) -> Pusher:
    client = await world.connect("app")
    await subscribe(client, "a", **{"metrics": "*", "interval_ms": "1000", **settings})
    return Pusher(client, await get(client))


@pytest.mark.parametrize("codec", list(Codec))
def test_pushes_are_shown(codec: int) -> None:
    @simulated(**LISTENER)
    async def script(world: NodeWorld) -> None:
        one = await pusher(world)
        for _ in range(2):
            assert await one.push(bytes(compress(codec, DATA)), codec) == 0
            await world.pass_time(1000)
        found = await scrape(world)
        [(where, value)] = found["headrace_client_metric_sum_total"].items()
        assert (dict(where)["metric"], dict(where)["client_id"], value) == ("org.a.total", "app", 4.0)
        [(where, value)] = found["headrace_client_metric"].items()
        assert (dict(where)["attributes"], value) == ('topic=t"\n', 0.5)
        assert found["headrace_client_metrics_pushes_total"] == {labels(error="NONE"): 2}
        assert await one.push(b"", terminating=True) == 0
        assert "headrace_client_metric" not in await scrape(world)

    script()


@simulated(**LISTENER)
async def test_one_may_push_once_in_an_interval_and_once_after_asking(world: NodeWorld) -> None:
    one = await pusher(world)
    assert await one.push() == 0  # at once
    assert await one.push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    await world.pass_time(1000)
    assert await one.push() == 0
    assert await one.push(terminating=True) == 0  # the last may come at any time
    await world.pass_time(1000)
    assert await one.push() == ErrorCode.INVALID_REQUEST  # and nothing behind it


@simulated(**LISTENER)
async def test_an_old_subscription_is_told_and_may_be_asked_for_at_once(world: NodeWorld) -> None:
    one = await pusher(world)
    assert await one.push() == 0
    await world.pass_time(1000)
    assert await one.push(subscription_id=77) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    anew = await get(one._client, one.found.client_instance_id)
    assert anew.error_code == 0


@simulated(**LISTENER, telemetry_max_bytes="2000")
async def test_what_cannot_be_taken(world: NodeWorld) -> None:
    """CVE-2026-111073 among it: what is small only while it is packed."""
    one = await pusher(world, interval_ms="100")
    assert await one.push(client_instance_id=bytes(16)) == ErrorCode.INVALID_REQUEST
    for data, codec, error in (
        (DATA, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(2001), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (gzip.compress(bytes(100_000)), 1, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(compress(4, bytes(100_000))), 4, ErrorCode.TELEMETRY_TOO_LARGE),
        (DATA[:-1], 0, ErrorCode.INVALID_RECORD),
        (DATA, 4, ErrorCode.INVALID_RECORD),
    ):
        await world.pass_time(100)
        assert await one.push(data, codec) == error
    found = await scrape(world)
    assert "headrace_client_metric" not in found
    refused = found["headrace_client_metrics_pushes_total"]
    assert refused[labels(error="TELEMETRY_TOO_LARGE")] == 3
    assert refused[labels(error="INVALID_RECORD")] == 2


@simulated(**LISTENER)
async def test_many_clients_are_bounded(world: NodeWorld) -> None:
    limit = client_metrics_manager.INSTANCES_MAX
    try:
        client_metrics_manager.INSTANCES_MAX = 3  # type: ignore[misc]
        client = await world.connect()
        for _ in range(6):
            await get(client)
        assert len(world.node.parts.client_metrics) == 3
    finally:
        client_metrics_manager.INSTANCES_MAX = limit  # type: ignore[misc]


@simulated(**LISTENER)
async def test_pushes_are_handed_on(world: NodeWorld) -> None:
    sent: list[tuple[str, bytes, Mapping[str, str]]] = []
    is_broken = False

    def send(url: str, data: bytes, headers: Mapping[str, str]) -> None:
        if is_broken:
            raise OSError("the answer is HTTP 503")
        sent.append((url, data, headers))

    loop = world.node.parts.loop
    exporter = OtlpExporter("http://c", {"key": "k"}, {"kafka.broker.id": "1"}, loop=loop, send=send)
    world.node.parts.client_metrics.exporter = exporter
    one = await pusher(world)
    assert await one.push() == 0
    await world.until(lambda: exporter.counts["sent"] == 1)
    [(url, data, headers)] = sent
    assert (url, headers) == ("http://c", {"key": "k"})
    assert read_metrics_data(data) == POINTS
    assert b"client_source_address" in data
    assert b"kafka.broker.id" in data
    is_broken = True
    await world.pass_time(1000)
    assert await one.push() == 0
    await world.until(lambda: exporter.counts["lost"] == 1)
    found = await scrape(world)
    assert found["headrace_client_metrics_handed_on_total"] == {
        labels(outcome="sent"): 1,
        labels(outcome="lost"): 1,
    }


@pytest.mark.parametrize(
    ("name", "value"), [(ENDPOINT, "file:///etc/passwd"), (ENDPOINT, "collector:4318"), (HEADERS, "nothing")]
)
def test_settings_that_make_no_sense(name: str, value: str) -> None:
    settings = {**SETTINGS, ENDPOINT: "http://c:4318/v1/metrics", name: value}
    with pytest.raises(SettingError, match=name):
        otlp_exporter_of(BrokerConfig(settings), "c", None)  # type: ignore[arg-type]
