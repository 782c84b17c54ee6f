"""`headrace console` as a process: what it prints, what it refuses, its audit file, and how it ends."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.testing.cluster import Cluster
from tests.console.visitors import Visitor

READY = re.compile(r"headrace console ready: http://([\d.]+):(\d+)/")


@contextmanager
def running(*words: str) -> Iterator[tuple[str, int]]:
    """Where a console of its own process listens; it must end well when it is asked to."""
    command = [sys.executable, "-m", "headrace", "console", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = READY.match(process.stdout.readline())
            assert found, process.communicate(timeout=30)
            yield found[1], int(found[2])
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_it_serves_audits_and_ends(tmp_path: Path) -> None:
    trail = tmp_path / "audit.log"
    with Cluster() as cluster:
        address = ["-b", cluster.bootstrap_servers, "--listen", "127.0.0.1:0"]
        more = ["--name", "one", "--cluster", f"two={cluster.bootstrap_servers}", "--audit-log", str(trail)]
        with running(*address, *more) as where:
            visitor = Visitor(where, "two")
            assert [each["name"] for each in visitor.session["clusters"]] == ["one", "two"]
            visitor.change("POST", "topics", {"name": "made", "partitions": 1})
            assert "made" in {each["name"] for each in visitor.get("topics")["topics"]}
            assert visitor.send("GET", "/")[0].status == 200
    [line] = trail.read_text().splitlines()
    event = json.loads(line)["console"]
    assert (event["user"], event["from"], event["cluster"]) == ("anonymous", "127.0.0.1", "two")
    assert (event["change"], event["on"], event["result"]) == ("create topic", {"topic": "made"}, "done")


def test_each_cluster_has_settings_and_metrics_of_its_own(tmp_path: Path) -> None:
    closed = tmp_path / "closed.properties"
    closed.write_text(
        "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    )
    with Cluster() as cluster:
        words = ["-b", cluster.bootstrap_servers, "--name", "one", "--listen", "127.0.0.1:0"]
        words += ["--cluster", f"two={cluster.bootstrap_servers}", "--cluster", f"closed={closed}"]
        words += ["--metrics", "http://127.0.0.1:1/one", "--metrics", "two=http://127.0.0.1:1/two?a=b"]
        with running(*words) as where:
            for name in ("one", "two"):
                visitor = Visitor(where, name)
                urls = [each["url"].rpartition("/")[2] for each in visitor.get("brokers")["metrics"]]
                assert urls == [{"one": "one", "two": "two?a=b"}[name]]
            needs = {each["name"]: each["needs_login"] for each in visitor.session["clusters"]}
            assert needs == {"one": False, "two": False, "closed": True}


def test_seen_from_other_machines_it_is_read_only_without_a_login() -> None:
    with running("-b", "127.0.0.1:1", "--listen", "0.0.0.0:0") as (_, port):
        assert Visitor(("127.0.0.1", port), "cluster").session["read_only"] is True
    with running("-b", "127.0.0.1:1", "--listen", "0.0.0.0:0", "--anonymous-changes") as (_, port):
        assert Visitor(("127.0.0.1", port), "cluster").session["read_only"] is False


def test_nodes_are_started_with_a_console(tmp_path: Path) -> None:
    """It finds the nodes by itself, and ends with them, however they end."""
    command = [sys.executable, "-m", "headrace", "start", "--port", "0", "--data", str(tmp_path / "data")]
    command += ["--console", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("headrace ready: ")
            found = READY.match(process.stdout.readline())
            assert found
            assert Visitor((found[1], int(found[2])), "cluster").get("brokers")["brokers"][0]["id"] == 1
        finally:
            process.kill()
        assert process.stdout.read() == "", "the console has closed it: it has ended, too"


def test_an_address_that_is_taken_is_said() -> None:
    with running("-b", "127.0.0.1:1", "--listen", "127.0.0.1:0") as (_, port):
        result = CliRunner().invoke(cli, ["console", "-b", "127.0.0.1:1", "--listen", f"127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.output
    assert "choose another address with --listen" in result.output


@pytest.mark.parametrize(
    ("settings", "words", "told"),
    [
        ("security.protocol=SASL_SSL", (), "set sasl.mechanism to one of PLAIN"),
        ("", ("--listen", "nowhere:x"), "is not an address"),
        ("", ("--cluster", "nameless"), "is not NAME=VALUE"),
        ("", ("--cluster", "other=not-there.properties"), "not-there.properties: No such file"),
        ("", ("--metrics", "other=http://127.0.0.1:1"), "there is no cluster other"),
        ("", ("--metrics", "127.0.0.1:1"), "is not URL or NAME=URL"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    tmp_path: Path, settings: str, words: tuple[str, ...], told: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(settings)
    result = CliRunner().invoke(cli, ["console", "-b", "127.0.0.1:1", "--command-config", str(file), *words])
    assert result.exit_code in (1, 2)
    assert told in result.output
