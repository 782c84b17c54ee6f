"""`headrace start`, up to the node: settings are checked first, and one that is wrong is named."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.cli.start import FleetPlan
from headrace.node import machine


def start(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["start", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--nodes", "0"), 2, "0 is not in the range"),
        (("--nodes", "some"), 2, "'some' is not a valid integer"),
        (
            ("--nodes", "2", "--set", "controller.quorum.voters=1@a:1,2@b:1"),
            1,
            "node.id: give the number of this machine's first node",
        ),
        (("--nodes", "3", "--set", "num.partition=3"), 1, "did you mean num.partitions?"),
        (("--set", "num.partitions"), 2, "'num.partitions' is not NAME=VALUE"),
        (
            ("--set", "num.partition=3"),
            1,
            "num.partition: there is no broker setting of this name; did you mean num.partitions?",
        ),
        (("--set", "num.partitions=many"), 1, "num.partitions: 'many' is not a whole number"),
        (
            ("--set", "log.segment.bytes=5"),
            1,
            "log.segment.bytes: '5' is not allowed: it must be at least 1048576",
        ),
        (("--config", "/nowhere/x.properties"), 1, "/nowhere/x.properties: No such file or directory"),
        (("--port", "70000"), 2, "70000 is not in the range"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], code: int, said: str) -> None:
    found, output = start(*words)
    assert found == code
    assert said in output
    assert "Traceback" not in output


SLIP = "broker.id=1\nlog.retention.hour=5\nzookeeper.connect=localhost:2181\n"


def test_strict_refuses_a_file_with_a_slip(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SLIP)
    code, output = start("--config", str(file), "--strict")
    assert code == 1
    assert f"{file}:2: log.retention.hour: " in output
    assert "log.retention.hours?" in output
    assert f"{file}:3: zookeeper.connect: " in output


def test_a_node_starts_with_a_file_with_a_slip_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SLIP)
    command = [sys.executable, "-m", "headrace.cli.main", "start", "--config", str(file), "--port", "0"]
    with subprocess.Popen(
        [*command, "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("headrace ready: ")
        finally:
            process.terminate()
        said = process.communicate()[1]
    assert process.returncode == 0
    assert f"{file}:2: log.retention.hour: it has no effect" in said
    assert f"{file}:3: zookeeper.connect: it has no effect: there is no ZooKeeper." in said


def test_starting_imports_neither_clients_nor_rich_nor_numba() -> None:
    program = "import sys, headrace.cli.main, headrace.cli.start; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "rich",
        "numba",
        "numpy",
        "asyncio",
        "cramjam",
        "headrace.clients.internals.network_client",
        "headrace.wire.codec",
    }
    assert not heavy & set(modules)


@pytest.mark.parametrize(
    ("nodes", "there", "expected", "said"),
    [
        (None, 0, 8, ["8 nodes for 16 cores"]),
        (None, 4, 4, ["4 nodes for 16 cores", "this machine has 16 cores, of which 4 nodes use some 8"]),
        (2, 0, 2, ["this machine has 16 cores, of which 2 nodes use some 4"]),
        (8, 0, 8, []),
    ],
)
def test_how_many_nodes_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    nodes: int | None,
    there: int,
    expected: int,
    said: list[str],
) -> None:
    """By the machine's cores, unless the folder has nodes already, or somebody said it."""
    monkeypatch.setattr(machine, "usable_cores", lambda: 16)
    for number in range(there):
        (tmp_path / f"node{number + 1}").mkdir()
        (tmp_path / f"node{number + 1}/meta.properties").touch()
    plan = FleetPlan(nodes, None, str(tmp_path), None, {}, False, None, False)
    assert plan.node_count() == expected
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_a_node_leaves_no_core_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a fault at its start either: its settings are read by then."""
    limits: list[tuple[int, tuple[int, int]]] = []
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    monkeypatch.setattr(resource, "setrlimit", lambda which, limit: limits.append((which, limit)))
    start("--config", "nowhere.properties")
    assert limits == [(resource.RLIMIT_CORE, (0, hard))]
