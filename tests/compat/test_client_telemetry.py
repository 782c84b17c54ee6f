"""Clients that we did not write push their metrics (KIP-714), as subscriptions of Kafka's tools ask for.

librdkafka and the Java client do so by default. What arrives is looked for where operators would: in
/metrics, and at an endpoint that speaks OTLP/HTTP.
"""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka import Producer

from headrace.clients import Admin
from headrace.telemetry.client_metrics.otlp import read_metrics_data
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.external import External
from tests.compat.clients.face import eventually
from tests.telemetry.scraping import Samples, samples_of

pytestmark = pytest.mark.timeout(600)

CLIENT_METRICS_COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
EVERY = {"metrics": "*", "interval.ms": "200"}


class Collector:
    """What an endpoint was sent."""

    def __init__(self) -> None:
        self.pushes: list[bytes] = []
        self.keys: set[str | None] = set()

    @contextmanager
    def serving(self) -> Iterator[str]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.pushes.append(self.rfile.read(int(self.headers["Content-Length"])))
                collector.keys.add(self.headers["X-Key"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/metrics"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def names(self, software: bytes) -> set[str]:
        return {each.name for data in self.pushes if software in data for each in read_metrics_data(data)}


class Watched:
    """A broker, where its metrics are, and what it hands on."""

    def __init__(self, broker: HeadraceBroker, address: str, collector: Collector) -> None:
        self.bootstrap = broker.bootstrap
        self._address = address
        self.collector = collector

    def scrape(self) -> Samples:
        with urllib.request.urlopen(f"http://{self._address}/metrics") as answer:
            return samples_of(answer.read().decode())

    def shown(self, client_id: str) -> set[str]:
        """Names of the metrics that are shown of a client."""
        found = self.scrape()
        rows = [
            dict(each)
            for name in ("headrace_client_metric", "headrace_client_metric_sum_total")
            for each in found.get(name, {})
        ]
        return {each["metric"] for each in rows if each["client_id"] == client_id}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    collector = Collector()
    [port] = free_ports(1)
    with collector.serving() as endpoint:
        settings = {
            "headrace.metrics.listener": f"HTTP://127.0.0.1:{port}",
            "headrace.client.metrics.otlp.endpoint": endpoint,
            "headrace.client.metrics.otlp.headers": "X-Key=secret",
        }
        with HeadraceBroker(tmp_path_factory.mktemp("broker") / "data", settings) as broker:
            broker.start()
            yield Watched(broker, f"127.0.0.1:{port}", collector)
            broker.stop()


def test_librdkafka_pushes_what_is_subscribed_to(watched: Watched) -> None:
    with Admin(bootstrap_servers=watched.bootstrap) as admin:
        admin.create_topic("rd")
        admin.alter_configs("client_metrics", "rd", set_to={**EVERY, "match": "client_id=rd-.*"})
        producer = Producer({"bootstrap.servers": watched.bootstrap, "client.id": "rd-1"})
        wanted = {
            "org.apache.kafka.producer.connection.creation.total",
            "org.apache.kafka.producer.node.request.latency.avg",
        }

        def arrives() -> bool:
            producer.produce("rd", b"x")
            producer.flush(10)
            return wanted <= watched.shown("rd-1") and wanted <= watched.collector.names(b"confluent-kafka")

        eventually(arrives, lambda: f"metrics in {watched.shown('rd-1')}", 90)
        assert watched.collector.keys == {"secret"}
        # A subscription that is narrower takes effect without a restart of anybody.
        admin.alter_configs("client_metrics", "rd", set_to={"metrics": "org.apache.kafka.producer.node"})
        narrow = len(watched.collector.pushes)

        def is_narrow() -> bool:
            names = {
                each.name for data in watched.collector.pushes[narrow:] for each in read_metrics_data(data)
            }
            return bool(names) and all(each.startswith("org.apache.kafka.producer.node") for each in names)

        def narrows() -> bool:
            nonlocal narrow
            producer.produce("rd", b"x")
            producer.flush(10)
            if is_narrow():
                return True
            narrow = len(watched.collector.pushes)
            return False

        eventually(narrows, lambda: "pushes of what is subscribed to now", 90)
        admin.alter_configs("client_metrics", "rd", delete=["metrics", "interval.ms", "match"])
        refused = watched.scrape()["headrace_client_metrics_pushes_total"]
        # A push that was late makes the next one, which is in time, come too early: so it is with Kafka.
        usual = {"NONE", "UNKNOWN_SUBSCRIPTION_ID", "THROTTLING_QUOTA_EXCEEDED"}
        assert not {dict(each)["error"] for each in refused} - usual


@pytest.mark.java
def test_java_pushes_and_kafkas_tools_subscribe(watched: Watched) -> None:
    try:
        command = [*prepare.java_command(classes=prepare.java_program()), "Compat"]
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    java = External([*command, watched.bootstrap, "classic"])

    def tool(main: str, *words: str) -> str:
        arguments = ["--bootstrap-server", watched.bootstrap, *words]
        done = java.program.ask("tool", main=main, arguments=arguments, stdin="")
        assert done["code"] == 0, (words, done)
        return str(done["out"]) + str(done["err"])

    def configs(*words: str) -> str:
        return tool(CONFIG_COMMAND, *words, "--entity-type", "client-metrics", "--entity-name", "java")

    try:
        match = ("--match", "client_software_name=apache-kafka-java")
        wanted = ("--metrics", "org.apache.kafka.consumer.", "--interval", "300")
        tool(CLIENT_METRICS_COMMAND, "--alter", "--name", "java", *wanted, *match)
        assert tool(CLIENT_METRICS_COMMAND, "--list").split() == ["java"]
        described = tool(CLIENT_METRICS_COMMAND, "--describe", "--name", "java")
        for part in (
            "interval.ms=300",
            "org.apache.kafka.consumer.",
            "client_software_name=apache-kafka-java",
        ):
            assert part in described
        configs("--alter", "--add-config", "interval.ms=200")
        assert "interval.ms=200" in configs("--describe")
        java.create_topic("java", 1, {})
        java.join("member", "group", "java")  # a consumer that lives until it leaves
        name = "org.apache.kafka.consumer.coordinator.heartbeat.total"
        software = b"apache-kafka-java"
        eventually(
            lambda: name in watched.collector.names(software),
            lambda: f"{name} in {watched.collector.names(software)}",
            60,
        )
        shown = watched.scrape()["headrace_client_metric_sum_total"]
        assert name in {dict(each)["metric"] for each in shown}
        java.leave("member")
        # Its last push says that it ends: it is shown no more.
        eventually(
            lambda: name not in str(watched.scrape().get("headrace_client_metric_sum_total")),
            "the consumer's metrics are gone",
            120,  # a last push that came too early is refused: then they are gone after a minute
        )
        tool(CLIENT_METRICS_COMMAND, "--delete", "--name", "java")
        assert tool(CLIENT_METRICS_COMMAND, "--list").split() == []
    finally:
        java.close()
