"""The manifests in packaging/kubernetes: Kubernetes' own schemas accept them, their parts fit together, and
the settings and commands in them are ones that a node takes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.node.config import load
from tests.house.source import ROOT

FILE = ROOT / "packaging/kubernetes/headrace.yaml"
LABELS = {"app.kubernetes.io/name": "headrace"}


def documents() -> dict[str, Any]:
    return {
        f"{each['kind']}/{each['metadata']['name']}": each for each in yaml.safe_load_all(FILE.read_text())
    }


def pod() -> Any:
    return documents()["StatefulSet/headrace"]["spec"]["template"]["spec"]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    text = documents()["ConfigMap/headrace"]["data"]["server.properties"]
    file.write_text(text.replace("/var/lib/headrace", str(tmp_path)))
    return file


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kubernetes_schemas_accept_them(tmp_path: Path) -> None:
    """With kubernetes-validate from PyPI, which has the schemas of every release; 22 MB, so by a command of
    its own."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "kubernetes-validate"], check=True)
    tool = [python, "-m", "kubernetes_validate", "--strict"]
    done = subprocess.run([*tool, str(FILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text(FILE.read_text().replace("maxUnavailable: 1", "maxUnavailabel: 1"))
    assert subprocess.run([*tool, str(broken)], capture_output=True).returncode != 0


def test_selectors_names_and_ports_fit_together() -> None:
    found = documents()
    stateful = found["StatefulSet/headrace"]["spec"]
    assert stateful["template"]["metadata"]["labels"] == LABELS
    assert stateful["selector"]["matchLabels"] == LABELS
    assert found["PodDisruptionBudget/headrace"]["spec"]["selector"]["matchLabels"] == LABELS
    assert found[f"Service/{stateful['serviceName']}"]["spec"]["clusterIP"] == "None"
    ports = {each["name"]: each["containerPort"] for each in pod()["containers"][0]["ports"]}
    for name in ("headrace", "headrace-nodes"):
        service = found[f"Service/{name}"]["spec"]
        assert service["selector"] == LABELS
        assert {each["name"]: each["port"] for each in service["ports"]}.items() <= ports.items()
    volumes = {each["name"] for each in (*pod()["volumes"], {"name": "data"})}
    for container in (*pod()["initContainers"], *pod()["containers"]):
        assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_probes_ask_where_a_node_answers(settings: Path) -> None:
    config = load(str(settings), {"node.id": "1"})
    port = config.str("headrace.metrics.listener").rpartition(":")[2]
    (container,) = pod()["containers"]
    ports = {each["name"]: str(each["containerPort"]) for each in container["ports"]}
    for probe, path in (("startup", "live"), ("liveness", "live"), ("readiness", "ready")):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert (asked["path"], ports[asked["port"]]) == (f"/health/{path}", port)


def test_every_pod_is_a_voter_of_the_quorum(settings: Path) -> None:
    count = documents()["StatefulSet/headrace"]["spec"]["replicas"]
    voters = load(str(settings), {"node.id": "1"}).list("controller.quorum.voters")
    assert list(voters) == [f"{at + 1}@headrace-{at}.headrace-nodes:9093" for at in range(count)]


def test_a_pod_formats_its_folder_and_starts_with_known_options(settings: Path, tmp_path: Path) -> None:
    """Its commands, as a shell has them for the third pod; what starts is only parsed."""
    words = _as_the_third_pod(pod()["initContainers"][0]["command"], settings)
    assert words[:2] == ["headrace", "format"]
    done = CliRunner().invoke(cli, words[1:])
    assert done.exit_code == 0, done.output
    assert "node 3 of cluster MkU3OEVBNTcwNTJENDM2Qg" in done.output
    words = _as_the_third_pod(pod()["containers"][0]["command"], settings)
    given = dict(word.split("=", 1) for word in words if re.match(r"[a-z.]+=", word))
    config = load(words[words.index("--config") + 1], given)
    assert (config.node_id, config.str("broker.rack")) == (3, "machine-c")
    assert str(config.advertised_listeners[0]) == "PLAINTEXT://headrace-2.headrace-nodes:9092"
    stop = pod()["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert shlex.split(stop)[:3] == ["headrace", "cluster", "await-sync"]
    assert CliRunner().invoke(cli, ["cluster", "await-sync", "--for", "2m", "--help"]).exit_code == 0


def _as_the_third_pod(command: list[str], settings: Path) -> list[str]:
    script = command[-1].replace("exec headrace", "headrace").replace("/etc/headrace", str(settings.parent))
    script = f'headrace() {{ printf "%s\\n" headrace "$@"; }}; cp() {{ :; }}; {script}'
    environment = {"HOSTNAME": "headrace-2", "MACHINE": "machine-c", "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qg"}
    done = subprocess.run(["sh", "-ec", script], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()
