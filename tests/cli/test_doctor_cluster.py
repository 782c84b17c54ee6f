"""`headrace doctor` at clusters that are sick, each a few processes: what is wrong is found and named."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from headrace.base.ids import TopicPartition
from headrace.cli import doctor_cluster
from headrace.cli.doctor_findings import Finding
from headrace.cli.main import cli
from headrace.clients import Admin, LogDirDescription
from headrace.transport.system_network import free_ports
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster


def doctor(bootstrap: str) -> dict[str, dict[str, str]]:
    """The findings, by where they are; the exit code says whether one is an error."""
    done = CliRunner().invoke(cli, ["doctor", "-b", bootstrap, "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == int(any(each["level"] == "error" for each in found)), done.output
    return {each["where"]: each for each in found}


def await_sync(bootstrap: str, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["cluster", "await-sync", "-b", bootstrap, *words])
    return done.exit_code, done.output


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HeadraceCluster]:
    with HeadraceCluster(tmp_path / "data", count=3) as running:
        running.start()
        yield running


def test_nodes_that_are_killed_one_after_the_other(cluster: HeadraceCluster) -> None:
    nodes = {each.number: each for each in cluster.nodes}
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for name, partitions, min_isr in (("strict", 2, "3"), ("usual", 7, "2")):
            configs = {"min.insync.replicas": min_isr}
            admin.create_topic(name, partitions=partitions, replication_factor=3, configs=configs)
        admin.create_topic("alone", partitions=1, replication_factor=1)
        admin.reassign({TopicPartition("alone", 0): [3]})
        eventually(lambda: not admin.list_reassignments(), "it has moved")
    eventually(lambda: doctor(cluster.bootstrap) == {}, lambda: f"all well: {doctor(cluster.bootstrap)}")
    assert await_sync(cluster.bootstrap, "--brokers", "3") == (
        0,
        "every broker is up, and every replica in sync\n",
    )
    assert await_sync(cluster.bootstrap, "--brokers", "4", "--for", "0s") == (
        1,
        "Error: after 0s: 3 of 4 brokers are up\n",
    )

    nodes[3].kill()
    eventually(lambda: "broker 3" in doctor(cluster.bootstrap), "it is fenced")
    assert await_sync(cluster.bootstrap, "--for", "0s") == (1, "Error: after 0s: broker 3 is not up\n")
    found = doctor(cluster.bootstrap)
    assert "it is fenced" in found["broker 3"]["what"]
    assert "no leader" in found["alone-0"]["what"]
    assert found["alone-0"]["advice"] == "start broker 3"
    refused = found["strict-0, strict-1"]
    assert (refused["level"], refused["what"]) == (
        "error",
        "acks=all is refused: not in sync: broker 3; min.insync.replicas is 3",
    )
    [poor] = [each for each in found.values() if each["where"].startswith("usual")]
    assert poor["level"] == "warning"
    assert poor["where"].endswith("usual-4 and 2 more")

    nodes[2].kill()
    found = doctor(nodes[1].bootstrap)
    assert f"it cannot be reached at {nodes[2].bootstrap}" in found["broker 2"]["what"]
    assert found["quorum"]["advice"] == "start enough controllers for a majority"


def test_an_advertised_listener_that_leads_nowhere(tmp_path: Path) -> None:
    """Whoever asks at the right address is sent to the wrong one."""
    port, nowhere = free_ports(2)
    listens = f"127.0.0.1:{port}"
    settings = {
        "listeners": f"PLAINTEXT://{listens}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{nowhere}",
    }
    with HeadraceBroker(tmp_path / "data", settings) as broker:
        broker.start()
        [found] = doctor(listens).values()
        assert f"cannot connect to 127.0.0.1:{nowhere}" in found["what"]
        assert "advertised.listeners" in found["advice"]
        broker.kill()
        assert doctor(listens)[listens]["advice"].startswith("start a broker")


def test_a_clock_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HeadraceBroker(tmp_path / "data") as broker:
        broker.start()
        assert doctor(broker.bootstrap) == {}
        monkeypatch.setattr(doctor_cluster, "time", SimpleNamespace(time=lambda: time.time() + 3600))
        assert " s behind this machine's" in doctor(broker.bootstrap)["node 1"]["what"]


@pytest.mark.parametrize(
    ("usable", "level", "what"),
    [
        (50 << 30, None, ""),
        (4 << 30, "warning", "4.0 % of the disk are free"),
        (4096, "error", "the disk is full: 0.0 % of the disk are free, and writes are refused"),
    ],
)
def test_disks_that_fill_up(usable: int, level: str | None, what: str) -> None:
    folder = LogDirDescription(1, "/data", "", {}, 100 << 30, usable)
    found: list[Finding] = list(doctor_cluster._folder("broker 1", folder))
    assert [each.level for each in found] == ([] if level is None else [level])
    assert all(each.what.startswith(what) and "make room" in each.advice for each in found)


@pytest.mark.parametrize(
    ("racks", "replicas", "shared"),
    [
        ({1: "a", 2: "a", 3: "b", 4: "c"}, [1, 2, 3], True),
        ({1: "a", 2: "a", 3: "b", 4: "c"}, [1, 3, 4], False),
        ({1: "a", 2: "a", 3: "b"}, [1, 2, 3], False),  # there are no three racks
        ({1: "a", 2: "a", 3: "b"}, [1, 2], True),
        ({1: None, 2: None, 3: "b"}, [1, 2], False),
    ],
)
def test_replicas_that_share_a_rack_without_need(
    racks: dict[int, str | None], replicas: list[int], shared: bool
) -> None:
    partition = SimpleNamespace(number=0, leader=replicas[0], replicas=replicas, isr=replicas)
    admin = SimpleNamespace(
        list_topics=lambda: [SimpleNamespace(name="t")],
        describe_topics=lambda names: [SimpleNamespace(name="t", partitions=[partition])],
    )
    found = [each.what for each in doctor_cluster._partitions(admin, racks)]
    assert len(found) == int(shared)
    assert not found or "replicas share a rack" in found[0]
