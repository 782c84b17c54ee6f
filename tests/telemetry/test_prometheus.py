"""Debian's Prometheus scrapes three nodes under load: every panel and rule of Strimzi's dashboards and of the
package's own has data, and alerts fire when a node is killed and resolve when it is back.
"""

import contextlib
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.telemetry.metrics.catalogue import METRICS
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.telemetry import expressions
from tests.telemetry.prometheus import PACKAGE, Prometheus
from tests.telemetry.scraping import samples_of

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(180)]

TOPIC = "orders"
# Seen only after a fault, or where there is TLS, a login, a remote store, a subscription to clients' metrics:
# tests/node/test_metrics.py and tests/server/test_push_telemetry.py see those.
NOT_SHOWN_WHEN_WELL = (
    "kafka_network_requestmetrics_errors_total",
    "headrace_certificate_expiry_timestamp_seconds",
    "kafka_server_socket_server_metrics_successful_authentication_total",
    "kafka_server_socket_server_metrics_failed_authentication_total",
    "kafka_server_brokertopicmetrics_remote",
    "headrace_remote_log_",
    "headrace_client_metric",
)


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return prepare.prometheus()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))


class Load:
    """A producer and a group at work."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20, "log_level": 0})
        number = 0
        while not self._over.wait(0.02):
            for _ in range(20):
                number += 1
                producer.produce(TOPIC, b"x" * 100, key=str(number).encode())
            producer.poll(0)
        producer.flush(10)

    def _consume(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
        while not self._over.is_set():
            consumer.consume(1000, timeout=0.2)
        with contextlib.suppress(KafkaException):
            consumer.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceCluster]:
    with HeadraceCluster(tmp_path_factory.mktemp("nodes")) as cluster:
        for node, port in zip(cluster.nodes, free_ports(3), strict=True):
            node.settings["headrace.metrics.listener"] = f"HTTP://127.0.0.1:{port}"
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 6, 3)])[TOPIC].result(30)
        yield cluster


def address_of(settings: dict[str, str]) -> str:
    return settings["headrace.metrics.listener"].removeprefix("HTTP://")


@pytest.fixture(scope="module")
def prometheus(
    programs: Path, cluster: HeadraceCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    nodes = [address_of(node.settings) for node in cluster.nodes]
    with Load(cluster.bootstrap), Prometheus(programs / "prometheus", folder, nodes) as server:
        yield server


@pytest.mark.parametrize(
    "asked",
    [
        expressions.of_strimzi(),
        expressions.of_strimzi_rules(),
        expressions.of_own_rules(),
        expressions.of_own_dashboard(),
    ],
    ids=["Strimzi's dashboards", "Strimzi's rules", "own rules", "own dashboard"],
)
def test_every_expression_has_data(prometheus: Prometheus, asked: list[str]) -> None:
    left = asked

    def all_have_data() -> bool:
        nonlocal left
        left = prometheus.without_data(left)
        return not left

    eventually(all_have_data, lambda: "data for:\n" + "\n".join(left), 40)


def test_all_of_the_catalogue_is_shown_and_is_well_formed(
    prometheus: Prometheus, cluster: HeadraceCluster, programs: Path
) -> None:
    shown = set()
    for node in cluster.nodes:
        with urllib.request.urlopen(f"http://{address_of(node.settings)}/metrics") as answer:
            text = answer.read()
        checked = subprocess.run(
            [programs / "promtool", "check", "metrics"], input=text, capture_output=True, check=False
        )
        assert (checked.stdout + checked.stderr).decode() == ""
        assert checked.returncode == 0
        shown |= {_family(name) for name in samples_of(text.decode())}
    assert not [name for name in METRICS.keys() - shown if not name.startswith(NOT_SHOWN_WHEN_WELL)]


def _family(sample: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        if sample.removesuffix(suffix) in METRICS:
            return sample.removesuffix(suffix)
    return sample


def test_rules_are_right_in_made_up_time(programs: Path, tmp_path: Path) -> None:
    for source in (PACKAGE / "alert-rules.yml", Path(__file__).parent / "alert-rules.test.yml"):
        shutil.copy(source, tmp_path)
    command = [programs / "promtool", "test", "rules", "alert-rules.test.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_a_node_is_killed_and_resolve(
    prometheus: Prometheus, cluster: HeadraceCluster
) -> None:
    of_kill = {
        "UnderReplicatedPartitions",
        "ScrapeProblem",
        "HeadraceUnderReplicatedPartitions",
        "HeadraceNodeDown",
    }
    eventually(lambda: not prometheus.firing() & of_kill, "no alert of a kill fires", 20)
    cluster.nodes[2].kill()
    eventually(lambda: of_kill <= prometheus.firing(), "the alerts fire", 40)
    cluster.nodes[2].start()
    eventually(lambda: not prometheus.firing() & of_kill, "they resolve", 40)
