"""Quotas as a node tells them: by kind, by client that one binds, and new connections by listener."""

import pytest

from headrace.base.rates import Windows
from headrace.node.metrics.quotas import CLIENTS_MAX
from headrace.server.quotas.client_quota_manager import ClientQuotaManager, ClientSensor
from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from tests.node.test_metrics import BY_NAME, LISTENER, scrape
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.telemetry.scraping import Samples, labels

GREEDY = labels(user="", client_id="greedy")


async def bind(world: NodeWorld, key: str, limit: float, client_id: str | None = "greedy") -> None:
    """Give a client a quota; None: all of them."""
    entry = RequestEntryData(entity=[EntityData("client-id", client_id)], ops=[OpData(key=key, value=limit)])
    admin = await world.connect("admin")
    assert (await admin.ask(AlterClientQuotasRequest([entry]), 1)).entries[0].error_code == 0
    admin.close()


def throttled(found: Samples) -> dict[str, float]:
    """Kinds of quotas that made somebody wait."""
    replies = found["headrace_throttled_replies_total"]
    return {dict(each)["quota"]: count for each, count in replies.items() if count}


@simulated(**LISTENER)
async def test_who_produces_too_much(world: NodeWorld) -> None:
    await world.create_topic("t")
    await bind(world, "producer_byte_rate", 1.0)
    client = await world.connect("greedy")
    told = (await client.ask(produce("t", batch(), acks=1), BY_NAME)).throttle_time_ms
    found = await scrape(world)
    assert throttled(found) == {"Produce": 1}
    assert found["kafka_server_produce_throttle_time"] == {GREEDY: pytest.approx(told)}
    assert found["kafka_server_produce_byte_rate"][GREEDY] > 1
    assert "kafka_server_fetch_throttle_time" not in found


@simulated(**LISTENER)
async def test_who_fetches_too_much(world: NodeWorld) -> None:
    await world.create_topic("t")
    other, client = await world.connect(), await world.connect("greedy")
    for _ in range(5):
        await other.ask(produce("t", batch(), acks=1), BY_NAME)
    await bind(world, "consumer_byte_rate", 20.0)
    await client.ask(fetch("t", 0), BY_NAME)
    reply = await client.ask(fetch("t", 0), BY_NAME, timeout_ms=60_000)
    assert reply.throttle_time_ms > 0
    found = await scrape(world)
    assert throttled(found)["Fetch"] >= 1
    assert found["kafka_server_fetch_throttle_time"][GREEDY] > 0
    assert found["kafka_server_fetch_byte_rate"][GREEDY] > 0


@simulated(**LISTENER)
async def test_who_changes_too_much(world: NodeWorld) -> None:
    await bind(world, "controller_mutation_rate", 1.0)
    client = await world.connect("greedy")
    topics = [CreatableTopic(name, 50, 1) for name in ("a", "b")]
    for topic in topics:
        await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, timeout_ms=120_000)
    found = await scrape(world)
    assert throttled(found)["ControllerMutation"] >= 1
    assert found["kafka_server_controllermutation_throttle_time"][GREEDY] > 1000
    assert found["kafka_server_controllermutation_mutation_rate"][GREEDY] > 1


@simulated(**LISTENER)
async def test_a_quota_of_everybody_shows_the_busiest_clients(world: NodeWorld) -> None:
    await bind(world, "request_percentage", 1000.0, None)
    quotas = world.node.parts.quotas
    now_ms = world.node.parts.clock.monotonic_ms()
    for number in range(CLIENTS_MAX + 50):
        sensor = quotas.request.sensor_of("User:ANONYMOUS", f'c"{number}')
        assert sensor is not None
        sensor.record(number, now_ms)
    found = await scrape(world)
    shown = {dict(each)["client_id"] for each in found["kafka_server_request_request_time"]}
    assert shown == {f'c"{number}' for number in range(50, CLIENTS_MAX + 50)}


def test_who_uses_nothing_any_more_is_not_shown() -> None:
    now = [0]
    manager = ClientQuotaManager(Windows(2, 1000), ClientSensor, lambda: now[0])
    manager.follow({(("client-id", "c"),): 10.0})
    sensor = manager.sensor_of("User:u", "c")
    assert sensor is not None
    assert sensor.record(100, 0) > 0
    assert [client_id for _, client_id, _ in manager.busiest(5)] == ["c"]
    assert sensor.throttle_time.average_ms(0) == sensor.record(0, 0)
    now[0] = 10_000
    assert manager.busiest(5) == []
    assert sensor.throttle_time.average_ms(now[0]) == 0


@pytest.mark.parametrize(
    ("settings", "limit", "prefix"),
    [
        ({"max.connection.creation.rate": "2"}, "listener", ""),
        ({}, "ip", "ip_"),
    ],
)
def test_new_connections_that_come_too_fast(settings: dict[str, str], limit: str, prefix: str) -> None:
    async def script(world: NodeWorld) -> None:
        await world.start()
        if limit == "ip":
            await bind_addresses(world, 1.0)
        name = f"kafka_server_socket_server_metrics_{prefix}connection_accept_throttle_time"
        here, counted = labels(listener="PLAINTEXT"), labels(listener="PLAINTEXT", limit=limit)
        await world.pass_time(15_000)
        found = await scrape(world)
        before = found["headrace_connection_throttles_total"][counted]
        sockets = [world.network_of(f"client{number}").connect("node", 9092) for number in range(6)]
        sockets += [world.network_of("same").connect("node", 9092) for _ in range(20)]
        await world.pass_time(2_000)
        found = await scrape(world)
        assert found["headrace_connection_throttles_total"][counted] > before
        assert found[name][here] > 0
        for socket in sockets:
            socket.close()
        await world.stop()

    with NodeWorld({"headrace.metrics.listener": "HTTP://node:9404", **settings}) as world:
        world.run(script(world))


async def bind_addresses(world: NodeWorld, limit: float) -> None:
    entry = RequestEntryData(
        entity=[EntityData("ip", None)], ops=[OpData(key="connection_creation_rate", value=limit)]
    )
    admin = await world.connect("admin")
    assert (await admin.ask(AlterClientQuotasRequest([entry]), 1)).entries[0].error_code == 0
    admin.close()
