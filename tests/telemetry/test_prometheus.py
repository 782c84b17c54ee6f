"""Debian's Prometheus scrapes three nodes under load: every panel and rule of Strimzi's dashboards and of the
package's own has data, and alerts fire when a node is killed and resolve when it is back.
"""

import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.telemetry.metrics.catalogue import METRICS
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster
from tests.telemetry import expressions
from tests.telemetry.prometheus import PACKAGE, Prometheus
from tests.telemetry.scraping import samples_of
from tests.telemetry.watched import SECONDS, Load, address_of, programs_or_skip, start_watched

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(600)]

# Seen only after a fault, or where there is TLS, a login, a remote store, a quota, a share group, an audit
# trail or a subscription to clients' metrics: tests/node/test_*metrics.py and
# tests/server/test_push_telemetry.py see those.
NOT_SHOWN_WHEN_WELL = (
    "kafka_network_requestmetrics_errors_total",
    "headrace_certificate_expiry_timestamp_seconds",
    "kafka_server_socket_server_metrics_successful_authentication_total",
    "kafka_server_socket_server_metrics_failed_authentication_total",
    "kafka_server_brokertopicmetrics_remote",
    "headrace_remote_log_",
    "headrace_client_metric",
    "headrace_audit_",
    "kafka_server_produce_",
    "kafka_server_fetch_",
    "kafka_server_request_",
    "kafka_server_controllermutation_",
    "kafka_server_sharepartitionmetrics_",
)


@pytest.fixture(scope="module")
def programs() -> Path:
    return programs_or_skip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceCluster]:
    with HeadraceCluster(tmp_path_factory.mktemp("nodes")) as cluster:
        start_watched(cluster)
        yield cluster


@pytest.fixture(scope="module")
def prometheus(
    programs: Path, cluster: HeadraceCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    addresses = [address_of(node) for node in cluster.nodes]
    with Load(cluster.bootstrap), Prometheus(programs / "prometheus", folder, addresses) as server:
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

    eventually(all_have_data, lambda: "data for:\n" + "\n".join(left), SECONDS)


def test_all_of_the_catalogue_is_shown_and_is_well_formed(
    prometheus: Prometheus, cluster: HeadraceCluster, programs: Path
) -> None:
    shown = set()
    for node in cluster.nodes:
        with urllib.request.urlopen(f"http://{address_of(node)}/metrics") as answer:
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
    eventually(lambda: not prometheus.firing() & of_kill, "no alert of a kill fires", SECONDS)
    cluster.nodes[2].kill()
    eventually(lambda: of_kill <= prometheus.firing(), "the alerts fire", SECONDS)
    cluster.nodes[2].start()
    eventually(lambda: not prometheus.firing() & of_kill, "they resolve", SECONDS)
