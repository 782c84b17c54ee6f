"""`headrace pipeline` as a person and a script meet it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.clients import Producer
from headrace.testing import Cluster

FILE = """\
-- in numbers: feed numbers
--   json: n INT
--   option maxOffsetsPerTrigger: 5
-- out: feed copies
SELECT n FROM numbers
"""


def test_a_mistake_in_the_head_needs_no_spark(tmp_path: Path) -> None:
    path = tmp_path / "p.sql"
    path.write_text(FILE.replace("json", "jsn"))
    for command in ("check", "run"):
        done = CliRunner().invoke(cli, ["pipeline", command, str(path)])
        assert done.exit_code == 1
        assert done.stderr == f"Error: {path}:2: an input feed has no 'jsn'; did you mean 'json'?\n"


def test_variables_are_given_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "p.sql"
    path.write_text(FILE.replace("numbers\n", "${FEED}\n", 1))
    done = CliRunner().invoke(cli, ["pipeline", "check", str(path)])
    assert f"{path}:1: ${{FEED}} is not given: set it with --set FEED=…" in done.stderr


@pytest.mark.parametrize("command", [["pipeline", "run"], ["load", "t", "p", "--to", "orc"]])
def test_wrong_uses(command: list[str]) -> None:
    assert CliRunner().invoke(cli, command).exit_code == 2


@pytest.mark.timeout(300)  # a Spark session of its own
def test_an_interrupt_ends_it_after_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "copy.sql"
    path.write_text(FILE)
    with Cluster() as cluster:
        cluster.create_topic("numbers")
        cluster.create_topic("copies")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(100):
                producer.send("numbers", json.dumps({"n": number}).encode())
        command = [sys.executable, "-m", "headrace.cli.main", "pipeline", "run", str(path), "--json"]
        # A process group of its own, as a terminal makes one: Ctrl-C goes to everything in it.
        with subprocess.Popen(
            [*command, "-b", cluster.bootstrap_servers],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stdout is not None
            events = []
            for line in running.stdout:
                events.append(json.loads(line))
                if len(events) == 2:
                    os.killpg(running.pid, signal.SIGINT)
            complaint = running.stderr.read() if running.stderr else ""
        assert running.returncode == 0, complaint
    assert events[0] == {"event": "start", "queries": ["copy"]}
    batches = [each for each in events if each["event"] == "batch"]
    stop = events[-1]
    assert (stop["event"], stop["failure"], stop["last_batch"]) == ("stop", None, batches[-1]["batch"])
    assert stop["ends"] == {"numbers": {"0": 5 * len(batches)}}
    assert len(batches) < 20
    assert "stopping when the batch is done" in complaint
