"""Debian's Prometheus as a process of a test: it scrapes nodes every second, and is asked over its API."""

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually

CLUSTER = "my-cluster"
PACKAGE = Path(__file__).parents[2] / "src/headrace/telemetry/metrics/prometheus"
STRIMZI = Path(__file__).parent / "strimzi"
VALUES = {
    "$kubernetes_namespace": "kafka",
    "$strimzi_cluster_name": CLUSTER,
    "$kafka_broker": ".*",
    "$kafka_topic": ".+",
    "$kafka_partition": ".*",
    "$kraft_node": ".*",
    "$consumergroup": ".*",
    "$topic": ".*",
    "$instance": ".*",
    "$group": ".*",
}
"""What a person chooses in the dashboards: all of one cluster."""


_RANGE = re.compile(r"\[\d+[mh]\]")


def labels_of(number: int) -> dict[str, str]:
    """What Strimzi's relabelling would add to the metrics of a pod."""
    pod = f"{CLUSTER}-kafka-{number}"
    return {
        "namespace": "kafka",
        "kubernetes_namespace": "kafka",
        "kubernetes_pod_name": pod,
        "pod": pod,
        "container": "kafka",
        "strimzi_io_cluster": CLUSTER,
        "strimzi_io_name": f"{CLUSTER}-kafka",
    }


def hurried(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alert rules that wait two seconds instead of minutes, and look back over seconds."""
    for group in groups:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "2s"
            rule["expr"] = _RANGE.sub("[15s]", rule["expr"])
    return groups


class Prometheus:
    """One server with the rules of Strimzi and of the package."""

    def __init__(self, program: Path, folder: Path, nodes: Iterable[str]) -> None:
        self._program = program
        self._folder = folder
        [self._port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        strimzi = yaml.safe_load((STRIMZI / "rules.yaml").read_text())["spec"]["groups"]
        own = yaml.safe_load((PACKAGE / "alert-rules.yml").read_text())["groups"]
        targets = [
            {"targets": [address], "labels": labels_of(number)} for number, address in enumerate(nodes)
        ]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "headrace", "static_configs": targets}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        (folder / "rules.yml").write_text(yaml.safe_dump({"groups": hurried(strimzi) + hurried(own)}))

    def __enter__(self) -> "Prometheus":
        command = [
            str(self._program),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        eventually(lambda: self._get("/-/ready", as_json=False) is not None, "Prometheus is ready")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _get(self, path: str, *, as_json: bool = True) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
                data = answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # it is about to be ready
            raise AssertionError(f"{path}: {error.read()!r}") from error
        except OSError:
            return None
        return json.loads(data)["data"] if as_json else data

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives now."""
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        result: list[dict[str, Any]] = self._get(path)["result"]
        return result

    def firing(self, **labels: str) -> set[str]:
        """The names of alerts that fire; those that have these labels."""
        alerts = self._get("/api/v1/alerts")["alerts"]
        return {
            each["labels"]["alertname"]
            for each in alerts
            if each["state"] == "firing" and labels.items() <= each["labels"].items()
        }

    def without_data(self, expressions: Iterable[str]) -> list[str]:
        return [each for each in expressions if not self.query(each)]
