"""The phases of requests as a node tells them, in virtual time: only what waits takes any."""

from typing import Any

from headrace.telemetry.metrics.request_metrics import PHASES, SAMPLED, SAMPLED_DATA
from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from tests.node.test_metrics import BY_NAME, LISTENER, scrape
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated
from tests.telemetry.scraping import Samples, labels

PREFIX = "kafka_network_requestmetrics_"
SOME = SAMPLED_DATA + 1


def phases_of(found: Samples, kind: str) -> dict[str, tuple[float, float]]:
    """Of each phase how many requests were looked at, and their milliseconds in all."""
    of_kind = labels(request=kind)
    names = {phase: f"{PREFIX}{phase.replace('_', '')}timems" for phase in PHASES}
    return {
        phase: (found[f"{name}_count"][of_kind], round(found[f"{name}_sum"][of_kind], 3))
        for phase, name in names.items()
    }


async def ask_often(client: Client, request: Any, version: int, times: int = SOME) -> None:
    for _ in range(times):
        await client.ask(request, version)


@simulated(**LISTENER)
async def test_a_fetch_that_waits_has_remote_time(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await ask_often(client, fetch("t", 0, wait_ms=500), BY_NAME)
    found = phases_of(await scrape(world), "Fetch")
    assert {count for count, _ in found.values()} == {1}
    assert 500 <= found["remote"][1] < 510
    assert found["local"] == found["throttle"] == (1, 0)
    assert sum(took for _, took in found.values()) == 2 * found["total"][1]


@simulated(**LISTENER)
async def test_a_produce_that_waits_for_the_disk_has_remote_time(world: NodeWorld) -> None:
    await world.create_topic("t", 1, {"flush.messages": "1"})
    client = await world.connect()
    await ask_often(client, produce("t", batch(), acks=-1), BY_NAME, 2 * SOME)
    found = await scrape(world)
    phases = phases_of(found, "Produce")
    assert phases["remote"][0] >= 1
    assert phases["remote"][1] > phases["total"][1] / 2 > 0
    assert phases["local"][1] == 0
    flushes = found["kafka_log_logflushstats_logflushrateandtimems_count"][()]
    assert flushes >= 2 * SOME


@simulated(**LISTENER)
async def test_a_produce_of_the_lane_is_looked_at_as_well(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await ask_often(client, produce("t", batch(), acks=1), BY_NAME)
    found = await scrape(world)
    assert {count for count, _ in phases_of(found, "Produce").values()} == {1}
    sizes = [
        found[f"{PREFIX}{which}bytes_sum"][labels(request="Produce")] for which in ("request", "response")
    ]
    assert sizes[0] > sizes[1] > 30


@simulated(**LISTENER)
async def test_what_a_client_is_told_to_wait_is_throttle_time(world: NodeWorld) -> None:
    await world.create_topic("t")
    admin, greedy = await world.connect("admin"), await world.connect("greedy")
    limit = RequestEntryData(
        entity=[EntityData("client-id", "greedy")], ops=[OpData(key="producer_byte_rate", value=100.0)]
    )
    assert (await admin.ask(AlterClientQuotasRequest([limit]), 1)).entries[0].error_code == 0
    told = [
        (await greedy.ask(produce("t", batch(), acks=1), BY_NAME, timeout_ms=600_000)).throttle_time_ms
        for _ in range(3 * SOME)
    ]
    assert max(told) > 0
    count, throttled_ms = phases_of(await scrape(world), "Produce")["throttle"]
    assert count >= 1
    assert throttled_ms in {sum(told[at::SOME]) for at in range(SOME)}


@simulated(**LISTENER)
async def test_a_kind_is_shown_when_one_was_looked_at(world: NodeWorld) -> None:
    client = await world.connect()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    name, of_kind = f"{PREFIX}totaltimems_count", labels(request="FindCoordinator")
    await ask_often(client, request, 4, SAMPLED)
    assert of_kind not in (await scrape(world)).get(name, {})
    await ask_often(client, request, 4, 1)
    assert (await scrape(world))[name][of_kind] == 1
