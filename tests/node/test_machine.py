"""How many nodes a machine runs, and the settings of a machine's nodes in a cluster of several."""

from pathlib import Path
from random import Random

import pytest

from headrace.node import machine
from headrace.node.fleet import cluster_of, fleet_configs, format_fleet, format_machine
from headrace.node.machine import (
    machine_configs,
    nodes_for,
    nodes_in,
    note_of_unused,
    usable_cores,
)
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = {
    "node.id": "11",
    "listeners": "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:19092",
    "controller.quorum.voters": "11@10.0.0.1:19092,21@10.0.0.2:19092,31@10.0.0.3:19092",
}


def told(configs: list[BrokerConfig], name: str) -> list[str]:
    return [config.str(name) for config in configs]


@pytest.mark.parametrize(("cores", "nodes"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8), (256, 32)])
def test_a_node_for_every_two_cores(cores: int, nodes: int) -> None:
    assert nodes_for(cores) == nodes
    assert note_of_unused(nodes, cores) is None


def test_cores_that_no_node_uses_are_told() -> None:
    assert note_of_unused(1, 16) == (
        "this machine has 16 cores, of which one node uses some 2: unless other nodes run here, "
        "`--nodes auto` runs 8 in a new folder (docs/operations.md, Sizing)"
    )


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", 1 << 20), ("100000 100000", 1), ("20000 100000", 1)]
)
def test_a_containers_share_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, most: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota + "\n")
    monkeypatch.setattr(machine, "CPU_MAX", str(tmp_path / "cpu.max"))
    assert 1 <= usable_cores() <= most


def test_a_folder_has_as_many_nodes_as_it_was_made_with(tmp_path: Path) -> None:
    assert nodes_in(str(tmp_path / "new")) == 0
    format_fleet(fleet_configs(4, 9092, str(tmp_path), rack="here"), Random(1))
    (tmp_path / "node9").mkdir()  # never formatted
    assert nodes_in(str(tmp_path)) == 4


def test_nodes_for_a_machines_cores_share_a_rack_and_no_replicas(tmp_path: Path) -> None:
    configs = fleet_configs(4, 9092, str(tmp_path), rack="here")
    assert told(configs, "broker.rack") == ["here"] * 4
    assert {config.int("default.replication.factor") for config in configs} == {1}
    assert [sorted(config.roles) for config in configs] == [["broker", "controller"]] * 3 + [["broker"]]
    assert told(fleet_configs(3, 9092, str(tmp_path)), "broker.rack") == [""] * 3


def test_who_was_made_a_voter_stays_one(tmp_path: Path) -> None:
    (tmp_path / "node5").mkdir()
    (tmp_path / "node5/server.properties").write_text("process.roles=broker,controller\n")
    roles = [len(config.roles) for config in fleet_configs(5, 9092, str(tmp_path))]
    assert roles == [2, 2, 2, 1, 2]


def test_the_nodes_of_one_machine_of_several(tmp_path: Path) -> None:
    configs = machine_configs(3, str(tmp_path), SETTINGS, "host-a")
    assert [config.node_id for config in configs] == [11, 12, 13]
    assert [",".join(map(str, config.listeners)) for config in configs] == [
        "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:19092",
        "PLAINTEXT://10.0.0.1:9093",
        "PLAINTEXT://10.0.0.1:9094",
    ]
    assert told(configs, "broker.rack") == ["host-a"] * 3
    assert {config.int("default.replication.factor") for config in configs} == {3}
    assert {config.int("min.insync.replicas") for config in configs} == {2}
    with pytest.raises(SettingError, match="the same --cluster-id"):
        format_machine(configs, Random(1), None)
    format_machine(configs, Random(1), CLUSTER_ID)
    assert list(map(cluster_of, configs)) == [CLUSTER_ID] * 3
    format_machine(machine_configs(4, str(tmp_path), SETTINGS, "host-a"), Random(1), None)
    assert nodes_in(str(tmp_path)) == 4
    with pytest.raises(SettingError, match="is of cluster"):
        format_machine(configs, Random(1), "D3IzQtVYRY2Jv5bMoKaQiA")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "leave 2 free behind each"),
        ({"node.id": None}, "the number of this machine's first node"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path: Path, changes: dict[str, str | None], what: str) -> None:
    settings = {name: value for name, value in (SETTINGS | changes).items() if value is not None}
    with pytest.raises(SettingError, match=what):
        machine_configs(3, str(tmp_path), settings, "host-a")
