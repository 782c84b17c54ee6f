"""What clients count of themselves, and that they push it where a broker has subscribed to it."""

import time
import urllib.request
from collections.abc import Iterator

import pytest

from headrace.clients import Admin, Consumer, Producer, ShareConsumer
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.client_telemetry_reporter import telemetry_name
from headrace.testing import Cluster
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually
from tests.telemetry.scraping import samples_of

FETCH = "consumer-fetch-manager-metrics"
SHARE = "consumer-share-fetch-manager-metrics"


@pytest.fixture(scope="module")
def metrics_port() -> int:
    [port] = free_ports(1)
    return port


@pytest.fixture(scope="module")
def bootstrap(metrics_port: int) -> Iterator[str]:
    settings = {"headrace.metrics.listener": f"HTTP://127.0.0.1:{metrics_port}"}
    with Cluster(settings=settings) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("t")
        yield cluster.bootstrap_servers


def value(found: dict[MetricName, float], group: str, name: str) -> float:
    [match] = [each for each in found if (each.group, each.name) == (group, name)]
    return found[match]


def test_clients_count_what_they_do(bootstrap: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap, client_id="p") as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        for number in range(10):
            producer.send("t", b"x" * 100, partition=0, key=str(number).encode())
        producer.flush()
        found = producer.metrics()
        assert {each.tags for each in found} == {(("client-id", "p"),)}
        assert value(found, "producer-metrics", "record-send-total") == 10
        assert value(found, "producer-metrics", "record-error-total") == 0
        assert value(found, "producer-metrics", "connection-count") >= 1
        assert value(found, "producer-metrics", "connection-creation-total") >= 1
        assert value(found, "producer-metrics", "batch-size-avg") > 100
        assert value(found, "producer-metrics", "request-latency-max") >= 0
        consumer.assign([("t", 0)])
        records = 0
        deadline = time.monotonic() + 60
        while records < 10 and time.monotonic() < deadline:
            records += len(consumer.poll(1000))
        found = consumer.metrics()
        assert value(found, FETCH, "records-consumed-total") == 10
        assert value(found, FETCH, "bytes-consumed-total") > 1000
        assert value(found, FETCH, "fetch-total") >= 1


def test_a_share_consumer_counts_too(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topic("jobs")
        admin.alter_configs("group", "workers", set_to={"share.auto.offset.reset": "earliest"})
        for _ in range(10):
            producer.send("jobs", b"x" * 100)
    with ShareConsumer(bootstrap_servers=bootstrap, group_id="workers", client_id="s") as consumer:
        consumer.subscribe("jobs")
        records = 0
        while records < 10:
            records += len(consumer.poll(60))
        consumer.commit()
        found = consumer.metrics()
    assert {each.tags for each in found} == {(("client-id", "s"),)}
    assert value(found, SHARE, "records-consumed-total") == records
    assert value(found, SHARE, "bytes-consumed-total") > 1000
    assert value(found, SHARE, "fetch-total") >= 1
    assert value(found, SHARE, "acknowledgements-send-total") == records
    assert value(found, SHARE, "acknowledgements-error-total") == 0
    assert value(found, "consumer-share-metrics", "connection-count") >= 1


def test_names_in_pushes() -> None:
    names = [
        MetricName("record-send-total", "producer-metrics"),
        MetricName("fetch-total", FETCH),
        MetricName("fetch-total", SHARE),
    ]
    assert [telemetry_name(each) for each in names] == [
        "org.apache.kafka.producer.record.send.total",
        "org.apache.kafka.consumer.fetch.manager.fetch.total",
        "org.apache.kafka.consumer.share.fetch.manager.fetch.total",
    ]


@pytest.mark.timeout(300)
def test_clients_push_what_is_subscribed_to(bootstrap: str, metrics_port: int) -> None:
    def shown(client_id: str) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
            found = samples_of(answer.read().decode())
        rows = {
            **found.get("headrace_client_metric", {}),
            **found.get("headrace_client_metric_sum_total", {}),
        }
        own = {tuple(each): dict(each) for each in rows}
        return {own[each]["metric"]: rows[each] for each in rows if own[each]["client_id"] == client_id}

    with Admin(bootstrap_servers=bootstrap) as admin:
        shared = "org.apache.kafka.consumer.share.fetch.manager.fetch.total"
        wanted = {"metrics": f"org.apache.kafka.producer.record,{shared}", "interval.ms": "100"}
        admin.alter_configs("client_metrics", "own", set_to=wanted)
        name = "org.apache.kafka.producer.record.send.total"
        silent = Producer(bootstrap_servers=bootstrap, client_id="silent", enable_metrics_push=False)
        with Producer(bootstrap_servers=bootstrap, client_id="pushes") as producer, silent:
            for each in (producer, silent):
                for _ in range(5):
                    each.send("t", b"x")
                each.flush()
            eventually(lambda: shown("pushes").get(name) == 5.0, lambda: f"{shown('pushes')}", 60)
            producer.send("t", b"x")
            producer.flush()
            eventually(lambda: shown("pushes").get(name) == 6.0, "deltas add up", 60)
            assert all(each.startswith("org.apache.kafka.producer.record") for each in shown("pushes"))
            with ShareConsumer(bootstrap_servers=bootstrap, group_id="g", client_id="takes") as consumer:
                consumer.subscribe("t")
                eventually(lambda: (consumer.poll(0.1), shared in shown("takes"))[1], "it pushes too", 60)
            assert shown("silent") == {}
        # A last push that came too early is refused: then it is forgotten after a minute.
        eventually(lambda: shown("pushes") == {}, "its last push has said that it ends", 120)
