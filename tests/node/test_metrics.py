"""What a node shows of itself, in virtual time: metrics of its topics, groups and quorum, and its health."""

import asyncio
import contextlib
import http.client
import json
import re
import socket
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.cli.main import cli
from headrace.clients import Admin
from headrace.clients.errors import ClientError
from headrace.node.metrics.partitions import SLICE
from headrace.records.batch import Record, build_batch
from headrace.settings.definition import SettingError
from headrace.telemetry.audit import AuditRules, AuditTrail
from headrace.testing import Cluster
from headrace.transport.system_network import free_ports
from headrace.wire.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.remote_log.test_remote_log_manager import TOPIC as TIERED_TOPIC
from tests.remote_log.test_remote_log_manager import TieredWorld
from tests.security.certificates import Authority
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.telemetry.expressions import own_rule
from tests.telemetry.scraping import OPEN, Answer, Samples, get, labels, samples_of

BY_NAME = 12
LISTENER = {"headrace_metrics_listener": "HTTP://node:9404"}
# Shown by a process, by three nodes, after a fault: tests/telemetry/test_prometheus.py sees all.
OF_A_PROCESS = (
    "process_",
    "kafka_server_kafkaserver_linux",
    "kafka_network_socketserver",
    "kafka_server_kafkareq",
)


async def ask(world: NodeWorld, path: str, headers: Mapping[str, str] | None = None) -> Answer:
    return await get(world.world.driver, world.network_of("scraper"), ("node", 9404), path, headers)


async def scrape(world: NodeWorld) -> Samples:
    return samples_of((await ask(world, "/metrics")).body)


@simulated(**LISTENER)
async def test_topics_are_counted(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    client = await world.connect()
    for _ in range(3):
        await client.ask(produce("t", batch(), acks=1), BY_NAME)
    await client.ask(fetch("t", 0), BY_NAME)
    found = await scrape(world)
    of_t = labels(topic="t")
    prefix = "kafka_server_brokertopicmetrics_"
    size = world.log("t").size_bytes
    assert found[f"{prefix}messagesin_total"][of_t] == 3
    assert found[f"{prefix}totalproducerequests_total"][of_t] == 3
    assert found[f"{prefix}bytesin_total"][of_t] == size
    assert found[f"{prefix}bytesout_total"][of_t] == size
    assert found[f"{prefix}bytesout_total"][labels(topic="")] == size
    assert found[f"{prefix}totalfetchrequests_total"][of_t] == 1
    assert found["kafka_log_log_size"][labels(topic="t", partition=0)] == size
    assert found["kafka_log_log_logendoffset"][labels(topic="t", partition=1)] == 0
    assert found["kafka_topic_partition_current_offset"][labels(topic="t", partition=0)] == 3
    assert found["kafka_topic_partitions"][of_t] == 2


@simulated(**LISTENER)
async def test_refusals_are_counted(world: NodeWorld) -> None:
    await world.create_topic("t", 1, {"max.message.bytes": "10"})
    client = await world.connect()
    response = await client.ask(produce("t", batch(), acks=1), BY_NAME)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    await client.ask(produce("none", batch(), acks=1), BY_NAME)
    await client.ask(fetch("t", 100), BY_NAME)
    found = await scrape(world)
    failed = found["kafka_server_brokertopicmetrics_failedproducerequests_total"]
    assert failed == {labels(topic="t"): 1, labels(topic=""): 1}  # and nothing of a topic that is not there
    assert found["kafka_server_brokertopicmetrics_failedfetchrequests_total"][labels(topic="t")] == 1
    assert found["kafka_server_brokertopicmetrics_messagesin_total"][labels(topic="t")] == 0


@simulated(**LISTENER)
async def test_requests_are_counted_by_kind_and_version(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    for _ in range(150):
        await client.ask(produce("t", batch(), acks=1), BY_NAME)
        await client.ask(fetch("t", 0), BY_NAME)
    await client.ask(fetch("none", 0), BY_NAME)
    await client.ask(produce("none", batch(), acks=1), BY_NAME)
    found = await scrape(world)
    counts = found["kafka_network_requestmetrics_requests_total"]
    assert counts[labels(request="Produce", version=BY_NAME)] == 151
    assert counts[labels(request="Fetch", version=BY_NAME)] == 151
    assert found["kafka_network_requestmetrics_errors_total"] == {
        labels(request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION"): 1
    }
    for name in ("localtimems", "requestbytes"):
        sampled = found[f"kafka_network_requestmetrics_{name}_count"]
        assert sampled[labels(request="Produce")] == 2  # of 150 in the lane
        assert sampled[labels(request="Fetch")] == 2
    assert found["kafka_network_requestmetrics_requestbytes_sum"][labels(request="Produce")] > 100


@simulated(**LISTENER)
async def test_a_topic_that_is_deleted_is_shown_no_more(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(), acks=1), BY_NAME)
    await world.delete_topic("t")
    await world.until(lambda: len(world.node.parts.replica_manager) == 0)
    found = await scrape(world)
    assert found["kafka_server_brokertopicmetrics_messagesin_total"] == {labels(topic=""): 1}
    assert "kafka_log_log_size" not in found


@simulated(**LISTENER)
async def test_groups_have_offsets_and_lags(world: NodeWorld) -> None:
    await world.create_topic("t")
    await world.create_topic("__consumer_offsets", 2)
    client = await world.connect()
    for _ in range(5):
        await client.ask(produce("t", batch(), acks=1), BY_NAME)
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic("t", partitions=[committed])]
    )

    def is_loaded() -> bool:
        runtime = world.node.parts.groups.runtime
        return len(runtime.shards()) == 2

    await world.until(is_loaded)
    response = await client.ask(request, 7)
    assert response.topics[0].partitions[0].error_code == 0
    found = await scrape(world)
    where = labels(consumergroup="g", topic="t", partition=0)
    assert found["kafka_consumergroup_current_offset"] == {where: 2}
    assert found["kafka_consumergroup_lag"] == {where: 3}
    assert found["kafka_consumergroup_lag_sum"] == {labels(consumergroup="g", topic="t"): 3}
    assert found["kafka_consumergroup_members"] == {labels(consumergroup="g"): 0}


@simulated(**LISTENER)
async def test_both_forms_have_what_the_catalogue_has(world: NodeWorld) -> None:
    await world.create_topic("t")
    plain = await ask(world, "/metrics")
    opened = await ask(world, "/metrics", {"Accept": OPEN})
    assert "openmetrics" in opened.headers["content-type"]
    assert samples_of(plain.body).keys() == samples_of(opened.body, is_open=True).keys()
    assert not [name for name in samples_of(plain.body) if name.startswith(OF_A_PROCESS)]


@simulated(**LISTENER)
async def test_who_scrapes_together_is_told_the_same(world: NodeWorld) -> None:
    await world.create_topic("t", 500)
    answers = await asyncio.gather(*(ask(world, "/metrics") for _ in range(5)))
    assert len({answer.body for answer in answers}) == 1


@simulated(**LISTENER)
async def test_many_partitions_are_gathered_in_slices(world: NodeWorld) -> None:
    await world.create_topic("t", 10 * SLICE)
    turns = 0
    gather = world.node.metrics._all

    def counted(*given: Any) -> Iterator[None]:
        nonlocal turns
        for _ in gather(*given):
            turns += 1
            yield

    world.node.metrics._all = counted
    assert len((await scrape(world))["kafka_log_log_size"]) == 10 * SLICE
    assert turns >= 10


@simulated(**LISTENER, headrace_metrics_token="secret")
async def test_a_token_is_asked_for(world: NodeWorld) -> None:
    for given in (None, "Bearer wrong", "Basic secret", "Bearer"):
        headers = {} if given is None else {"Authorization": given}
        assert (await ask(world, "/metrics", headers)).status == 401
    assert (await ask(world, "/metrics", {"Authorization": "Bearer secret"})).status == 200
    assert (await ask(world, "/health/live")).status == 200


@simulated(**LISTENER)
async def test_health_is_of_a_node_that_serves(world: NodeWorld) -> None:
    assert (await ask(world, "/health/live")).status == 200
    assert (await ask(world, "/health/ready")).status == 200
    assert (await ask(world, "/other")).status == 404
    own = world.node.image.brokers[1]
    world.node.image.brokers[1] = type(own)(
        own.id, own.epoch, own.incarnation_id, own.endpoints, own.features, fenced=True
    )
    answer = await ask(world, "/health/ready")
    assert (answer.status, answer.body) == (503, "the controller has fenced this broker\n")


@simulated(**LISTENER)
async def test_a_node_that_starts_is_live_and_not_ready(world: NodeWorld) -> None:
    await world.stop()
    world.world.machine("other")  # which is never started, so that there is no quorum
    starting = world.begin_start(controller_quorum_voters="1@node:9093,2@other:9093")
    await world.pass_time(1_000)
    assert (await ask(world, "/health/live")).status == 200
    answer = await ask(world, "/health/ready")
    assert (answer.status, answer.body) == (503, "the node starts\n")
    assert (await scrape(world))["kafka_server_kafkaserver_brokerstate"] == {(): 1}
    world.kill()
    starting.cancel()


def test_certificates_have_an_end_and_logins_are_counted() -> None:
    [port] = free_ports(1)
    settings = {"headrace.metrics.listener": f"HTTP://127.0.0.1:{port}"}
    url = f"http://127.0.0.1:{port}/metrics"
    with Cluster(secure=True, settings=settings) as cluster:
        own = cluster.client_settings("admin")
        with Admin(own) as admin:
            admin.list_topics()
        with pytest.raises(ClientError), Admin({**own, "sasl.password": "wrong"}) as stranger:
            stranger.list_topics()
        with urllib.request.urlopen(url) as answer:
            found = samples_of(answer.read().decode())
    logins = "kafka_server_socket_server_metrics"
    assert sum(found[f"{logins}_successful_authentication_total"].values()) >= 1
    assert sum(found[f"{logins}_failed_authentication_total"].values()) == 1
    ends = found["headrace_certificate_expiry_timestamp_seconds"]
    assert len(ends) >= 2  # of clients, and among nodes
    assert all(end * 1000 > SystemClock().now_ms() for end in ends.values())
    check_alert_of_certificates(found)


def check_alert_of_certificates(found: Samples) -> None:
    """What the rule asks is there with what it tells of, and it fires two weeks before the end."""
    rule = own_rule("HeadraceCertificateEnds")
    match = re.fullmatch(r"(\w+) - time\(\) < (\d+)", rule["expr"])
    assert match is not None
    name, threshold_s = match[1], int(match[2])
    assert "{{ $labels.listener }}" in rule["annotations"]["summary"]
    ends = found[name]
    assert all("listener" in dict(each) for each in ends)

    def fires(now_s: float) -> bool:
        return any(end - now_s < threshold_s for end in ends.values())

    assert not fires(SystemClock().now_ms() / 1000)
    assert fires(min(ends.values()) - 13 * 86_400)
    assert not fires(min(ends.values()) - 15 * 86_400)


def test_https(tmp_path: Path) -> None:
    """With a certificate of its own, a token, and a page of several records of TLS."""
    [port] = free_ports(1)
    authority = Authority()
    store = authority.sign("node", ["127.0.0.1"]).write(tmp_path / "node.pem")
    ca = authority.write(tmp_path / "ca.pem")
    own = "listener.name.https.ssl.keystore"
    settings = {
        "headrace.metrics.listener": f"HTTPS://127.0.0.1:{port}",
        "headrace.metrics.token": "secret",
        f"{own}.location": str(store),
        f"{own}.type": "PEM",
        "num.partitions": "50",
    }
    with Cluster(settings=settings) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("t")
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=ssl.create_default_context(cafile=str(ca)), timeout=60
        )
        for _ in range(2):  # on one connection
            connection.request("GET", "/metrics", headers={"Authorization": "Bearer secret"})
            text = connection.getresponse().read().decode()
            assert len(text) > 60_000
            found = samples_of(text)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 401
        connection.close()
        ends = found["headrace_certificate_expiry_timestamp_seconds"]
        assert [dict(each)["listener"] for each in ends] == ["HTTPS"]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
            plain.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):  # a reset is no answer either
                assert not plain.recv(100).startswith(b"HTTP")
        words = ["top", "--once", "--interval", "0s", "--json", "-b", cluster.bootstrap_servers]
        words += ["--metrics", f"https://127.0.0.1:{port}", "--metrics-token", "secret"]
        told = json.loads(CliRunner().invoke(cli, [*words, "--metrics-ca", str(ca)]).output)
        assert told["notes"] == []
        assert told["requests"]
        bundle = ["debug", "bundle", "--no-cluster", "-o", str(tmp_path / "b.tar.gz"), "--json", *words[-4:]]
        told = json.loads(CliRunner().invoke(cli, [*bundle, "--metrics-ca", str(ca)]).stdout)
        assert told["missing"] == []
        stranger = json.loads(CliRunner().invoke(cli, words).output)
        assert "certificate" in stranger["notes"][0].lower()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("9404", "metrics.listener"),
        ("http://node", "metrics.listener"),
        ("HTTPS://node:9404", "listener.name.https.ssl.keystore.location"),
    ],
)
def test_a_listener_that_cannot_be_is_told(value: str, told: str) -> None:
    with (
        NodeWorld({"headrace.metrics.listener": value}) as world,
        pytest.raises(SettingError, match=re.escape(told)),
    ):
        world.run(world.start())


@simulated(**LISTENER)
async def test_throttled_clients_are_counted(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect("greedy")
    limit = OpData(key="producer_byte_rate", value=1.0)
    entry = RequestEntryData(entity=[EntityData("client-id", "greedy")], ops=[limit])
    assert (await client.ask(AlterClientQuotasRequest([entry]), 1)).entries[0].error_code == 0
    await client.ask(produce("t", batch(), acks=1), BY_NAME)
    found = await scrape(world)
    replies = found["headrace_throttled_replies_total"]
    assert {dict(each)["quota"]: count for each, count in replies.items() if count} == {"Produce": 1}
    assert found["headrace_throttled_connections"] == {(): 1}
    assert found["headrace_throttle_seconds_total"][labels(quota="Produce")] > 0


@simulated(**LISTENER)
async def test_events_that_the_audit_trail_lacks(world: NodeWorld) -> None:
    name = "headrace_audit_events_missing_total"
    assert name not in await scrape(world)  # nobody asked for a trail
    parts = world.node.parts
    parts.audit = AuditTrail(
        AuditRules(), node_id=1, requests={}, now_ms=parts.clock.now_ms, monotonic_s=parts.loop.time
    )
    assert (await scrape(world))[name] == {(): 0}
    parts.audit.lose(3)
    assert (await scrape(world))[name] == {(): 3}


@simulated(**LISTENER, log_cleaner_backoff_ms="1000")
async def test_rounds_of_the_cleaner_are_counted(world: NodeWorld) -> None:
    compacted = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    await world.create_topic("t", 1, compacted)
    client = await world.connect()
    assert (await scrape(world))["headrace_log_cleaner_rounds_total"] == {(): 0}
    for _ in range(4):
        keyed = build_batch([Record(0, int(world.now_ms()), b"k", b"v" * 100, ())])
        await client.ask(produce("t", keyed, acks=1), BY_NAME)
        await world.pass_time(2000)
    cleaner = world.node.log_cleaner
    await world.until(lambda: cleaner.totals.rounds > 0, "a round is done")
    found = await scrape(world)
    assert found["headrace_log_cleaner_rounds_total"][()] == cleaner.totals.rounds
    assert found["headrace_log_cleaner_freed_bytes_total"][()] > 100
    assert 0 < found["kafka_log_logcleaner_cleaner_recopy_percent"][()] < 100
    assert found["kafka_log_logcleanermanager_uncleanable_partitions_count"] == {(): 0}


def test_the_remote_store_is_counted() -> None:
    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TIERED_TOPIC)
        world.write("rows", 10)
        await world.copied_to("rows", 9)
        log = world.log("rows")
        await world.until(lambda: log.local_start_offset > 0, "the first segment is only in the store")
        client = await world.connect()
        await client.ask(fetch("rows", 0), BY_NAME)
        found = await scrape(world)
        prefix = "kafka_server_brokertopicmetrics_remote"
        assert found[f"{prefix}copybytes_total"][()] > 3 * 600
        assert found[f"{prefix}fetchrequests_total"][()] >= 1
        assert found[f"{prefix}fetchbytes_total"][()] >= 600
        assert found[f"{prefix}fetcherrors_total"] == {(): 0}
        assert {dict(each)["task"] for each in found["headrace_remote_log_tasks"]} >= {"copy"}
        nothing = {labels(topic=""): 0, labels(topic="rows"): 0}
        assert found["kafka_server_brokertopicmetrics_remotecopylagbytes"] == nothing
        world.write("rows", 7)
        closed = [each for each in log.segments.from_number(0)[:-1] if each.base_offset >= log.copied_to]
        found = await scrape(world)
        assert len(closed) >= 2
        lag = sum(segment.size for segment in closed)
        bytes_lag = {labels(topic=""): lag, labels(topic="rows"): lag}
        assert found["kafka_server_brokertopicmetrics_remotecopylagbytes"] == bytes_lag
        segments = found["kafka_server_brokertopicmetrics_remotecopylagsegments"]
        assert segments[labels(topic="rows")] == len(closed)
        await world.stop()

    with TieredWorld({"headrace.metrics.listener": "HTTP://node:9404"}) as world:
        world.run(script(world))
