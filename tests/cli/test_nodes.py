"""`headrace start --nodes`, `format` and `quorum` with processes: nodes are a cluster, die and come back,
and one that joins and leaves.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.node.fleet import HOST
from headrace.transport.system_network import free_ports
from tests.compat.clients.face import eventually

READY = "headrace ready: "
DEADLINE_S = 240.0


@contextmanager
def running(*words: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`headrace start …` as a process, and the addresses it tells."""
    command = [sys.executable, "-m", "headrace.cli.main", "start", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), line + (process.stderr.read() if process.stderr else "")
        yield process, line.removeprefix(READY).strip()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        finally:
            process.kill()


def run(servers: str, *words: str) -> str:
    result = CliRunner(env={"HEADRACE_BOOTSTRAP_SERVER": servers}).invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.output


def quorum_of(servers: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run(servers, "quorum", "describe", "--json"))
    return found


def until(condition: Callable[[], bool], servers: str) -> None:
    """Wait for it, and show the cluster where it does not come."""
    eventually(condition, lambda: run(servers, "cluster", "describe"), DEADLINE_S)


def voters(servers: str) -> list[int]:
    members = quorum_of(servers)["members"]
    assert isinstance(members, list)
    return [each["node_id"] for each in members if each["is_voter"]]


def brokers_up(servers: str) -> set[int]:
    found = json.loads(run(servers, "cluster", "describe", "--json"))["brokers"]
    return {each["node_id"] for each in found if not each["fenced"]}


def pid_of(supervisor: int, folder: Path) -> int | None:
    """The child of a supervisor that runs the node in a folder, while there is one."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    for each in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if str(folder) in Path(f"/proc/{each}/cmdline").read_text():
                return int(each)
    return None


def test_three_processes_are_a_cluster_and_one_that_is_killed_comes_back(tmp_path: Path) -> None:
    with running("--nodes", "3", "--port", "0", "--data", str(tmp_path)) as (process, servers):
        assert len(servers.split(",")) == 3
        until(lambda: brokers_up(servers) == {1, 2, 3}, servers)
        until(lambda: voters(servers) == [1, 2, 3], servers)
        run(servers, "topic", "create", "t", "--partitions", "3", "--replication-factor", "3")
        leader = quorum_of(servers)["leader_id"]
        victim = pid_of(process.pid, tmp_path / f"node{leader}")
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        until(lambda: quorum_of(servers)["leader_id"] != leader, servers)
        until(lambda: pid_of(process.pid, tmp_path / f"node{leader}") not in (None, victim), servers)
        until(lambda: brokers_up(servers) == {1, 2, 3}, servers)
    assert process.returncode == 0


def test_a_controller_joins_the_voters_and_leaves_them(tmp_path: Path) -> None:
    port, controller = free_ports(2, HOST)
    with running("--nodes", "2", "--port", "0", "--data", str(tmp_path)) as (_, servers):
        cluster_id = json.loads(run(servers, "cluster", "describe", "--json"))["cluster_id"]
        members = quorum_of(servers)["members"]
        assert isinstance(members, list)
        known = ",".join(each["endpoints"][0].removeprefix("CONTROLLER://") for each in members)
        settings = tmp_path / "joining.properties"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=7\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={known}\nlog.dirs={tmp_path}/node7\n"
        )
        assert "cluster " + cluster_id in run(servers, "format", "-c", str(settings), "-t", cluster_id)
        with running("--config", str(settings)):
            assert voters(servers) == [1, 2]
            assert "node 7 is a voter" in run(servers, "quorum", "add", "--config", str(settings))
            until(lambda: voters(servers) == [1, 2, 7], servers)
            assert "no voter any more" in run(servers, "quorum", "remove", "7")
            until(lambda: voters(servers) == [1, 2], servers)


def test_a_new_folder_of_a_cluster_is_not_guessed_at(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(
        "process.roles=broker\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "advertised.listeners=PLAINTEXT://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:1\nlog.dirs={tmp_path}/data\n"
    )
    result = CliRunner().invoke(cli, ["start", "--config", str(settings)])
    assert result.exit_code == 1
    assert "headrace format --cluster-id" in result.output
