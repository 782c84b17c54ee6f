"""GetTelemetrySubscriptions: who is subscribed to what, and how often one may ask."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.server import client_metrics_manager
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import Client, NodeWorld, simulated

CLIENT_METRICS = 16
DELETE = 1
LISTENER = {"headrace_metrics_listener": "HTTP://node:9404"}
BOTH = {71, 72}


async def subscribe(client: Client, name: str, **settings: str | None) -> int:
    """Settings of a subscription, with _ for dots; None takes one away."""
    configs = [
        AlterableConfig(key.replace("_", "."), DELETE if value is None else 0, value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(CLIENT_METRICS, name, configs)
    response = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
    code: int = response.responses[0].error_code
    return code


async def get(client: Client, instance_id: bytes = bytes(16)) -> Any:
    return await client.ask(GetTelemetrySubscriptionsRequest(instance_id), 0)


async def advertised(client: Client) -> set[int]:
    return {each.api_key for each in (await client.ask(ApiVersionsRequest("x", "1"), 3)).api_keys}


@simulated()
async def test_without_anybody_to_see_them_they_are_not_served(world: NodeWorld) -> None:
    assert not BOTH & await advertised(await world.connect())


@simulated(**LISTENER)
async def test_with_a_listener_they_are(world: NodeWorld) -> None:
    assert await advertised(await world.connect()) >= BOTH


@simulated(**LISTENER)
async def test_a_client_without_subscription_gets_an_id_and_no_metrics(world: NodeWorld) -> None:
    client = await world.connect()
    first, second = await get(client), await get(client)
    assert first.error_code == 0
    assert first.client_instance_id != second.client_instance_id
    assert bytes(16) not in (first.client_instance_id, second.client_instance_id)
    assert (first.requested_metrics, first.push_interval_ms) == ([], 300_000)
    assert first.accepted_compression_types == [4, 3, 1, 2]  # zstd first, as Kafka has it
    assert (first.telemetry_max_bytes, first.delta_temporality) == (1024 * 1024, True)


@simulated(**LISTENER)
async def test_subscriptions_are_joined(world: NodeWorld) -> None:
    client = await world.connect(client_id="app-1")
    await client.ask(ApiVersionsRequest("rdkafka", "2.8"), 3)
    await subscribe(client, "a", metrics="org.a, org.b", interval_ms="5000", match="client_id=app-.*")
    await subscribe(client, "b", metrics="org.b,org.c", interval_ms="9000")
    await subscribe(client, "c", metrics="org.d", match="client_id=app-.*,client_software_name=java")
    found = await get(client)
    assert (found.requested_metrics, found.push_interval_ms) == (["org.a", "org.b", "org.c"], 5000)
    await subscribe(client, "d", metrics="*", match="client_software_version=2[.]8,client_source_address=.*")
    anew = await get(client, found.client_instance_id)  # at once: what it knew is not so any more
    assert (anew.error_code, anew.requested_metrics) == (0, ["*"])
    assert anew.subscription_id != found.subscription_id
    for name in ("a", "d"):
        await subscribe(client, name, metrics=None, interval_ms=None, match=None)
    last = await get(client, found.client_instance_id)
    assert (last.requested_metrics, last.push_interval_ms) == (["org.b", "org.c"], 9000)


@simulated(**LISTENER)
async def test_one_may_ask_once_in_an_interval(world: NodeWorld) -> None:
    client = await world.connect()
    await subscribe(client, "a", metrics="*", interval_ms="1000")
    found = await get(client)
    again = await get(client, found.client_instance_id)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    await world.pass_time(1100)
    later = await get(client, found.client_instance_id)
    assert (later.error_code, later.subscription_id) == (0, found.subscription_id)


@simulated(**LISTENER)
async def test_who_is_not_heard_is_forgotten(world: NodeWorld) -> None:
    client = await world.connect()
    await subscribe(client, "a", metrics="*", interval_ms="1000")
    for _ in range(5):
        await get(client)
    manager = world.node.parts.client_metrics
    assert len(manager) == 5
    await world.pass_time(int(client_metrics_manager.HEARD_S_MIN + 1) * 1000)
    await get(client)
    assert len(manager) == 1


@simulated(**LISTENER)
async def test_wrong_patterns_are_refused(world: NodeWorld) -> None:
    client = await world.connect()
    for wrong in ("client=a", "client_id", "client_id=a=b", "client_id=(", "client_id=a,b"):
        assert await subscribe(client, "a", match=wrong) == ErrorCode.INVALID_CONFIG
    assert await subscribe(client, "a", match="client_id=a.*, client_source_port=[0-9]+") == 0


@simulated(**LISTENER)
async def test_subscriptions_outlive_a_restart(world: NodeWorld) -> None:
    await subscribe(await world.connect(), "a", metrics="org.a")
    await world.stop()
    await world.start()
    assert (await get(await world.connect())).requested_metrics == ["org.a"]
