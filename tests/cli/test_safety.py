"""What a command does not do without being told, and how it says what is wrong, to people and to scripts."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import COMMANDS, cli
from headrace.records.batch import Record, build_batch

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """With nobody at the other end of a port: what is refused is refused before anybody is asked."""
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", "127.0.0.1:1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    runner = CliRunner()
    return lambda *words, **options: runner.invoke(cli, words, **options)


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "delete", "orders"),
        ("group", "delete", "billing"),
        ("elect", "--all", "--unclean"),
    ],
)
def test_nothing_is_deleted_where_nobody_can_be_asked(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "there is nobody to ask, so give --yes to do it" in result.stderr


def error_of(result: Result) -> dict[str, str]:
    assert result.stdout == ""
    error = json.loads(result.stderr.splitlines()[-1])["error"]
    assert set(error) == {"message", "code"}
    return dict(error)


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "message"),
    [
        (("topic", "list", "--json"), 1, "ERROR", "cannot connect to 127.0.0.1:1"),
        (("topic", "ls", "--json"), 2, "USAGE", "No such command 'ls'. Did you mean 'list'?"),
        (("topic", "create", "--json"), 2, "USAGE", "Missing argument 'NAME'."),
        (("topic", "list", "--nosuch", "--json"), 2, "USAGE", "No such option '--nosuch'"),
        (("group", "list", "--state", "foo", "--json"), 2, "USAGE", "'foo' is not one of"),
        (("group", "list", "--type", "foo", "--json"), 2, "USAGE", "'foo' is not one of"),
        (("topic", "list", "--profile", "nosuch", "--json"), 1, "ERROR", "there is no profile 'nosuch'"),
        (("consume", "--json"), 2, "USAGE", "name topics, or give a --pattern"),
        (("log", "dump", "nosuch.log", "--json"), 1, "ERROR", "nosuch.log: No such file or directory"),
    ],
)
def test_errors_are_json_where_it_is_asked_for(
    run: Run, words: tuple[str, ...], exit_code: int, code: str, message: str
) -> None:
    result = run(*words)
    assert result.exit_code == exit_code
    error = error_of(result)
    assert error["code"] == code
    assert message in error["message"]


def test_kinds_are_named_as_kafka_writes_them(run: Run) -> None:
    assert "'foo' is not one of PreparingRebalance, " in run("group", "list", "--state", "foo").stderr


@pytest.mark.parametrize("words", [(name,) for name in (*COMMANDS, "")], ids=" ".join)
def test_helps_sentences_are_not_cut(run: Run, words: tuple[str, ...]) -> None:
    told = run(*filter(None, words), "--help").stdout
    assert not [line for line in told.splitlines() if re.search(r"\w\.\.\.$", line)]


def test_an_option_behind_two_dashes_is_a_name(run: Run) -> None:
    result = run("topic", "delete", "--", "--json")
    assert result.stderr.startswith("Usage: ")


def test_a_reader_that_has_seen_enough_is_no_fault_of_the_file(tmp_path: Path) -> None:
    """`headrace log dump … | head` said that the file was broken."""
    file = tmp_path / f"{0:020}.log"
    batch = build_batch([Record(offset, 0, None, b"x" * 100) for offset in range(50)])
    file.write_bytes(batch * 200)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "headrace.cli.main", "log", "dump", "--records", str(file)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 1


class TestProfiles:
    @pytest.fixture(autouse=True)
    def without_environment(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HEADRACE_BOOTSTRAP_SERVER")

    def asked(self, run: Run, *words: str, **options: object) -> str:
        """Whom a command asks: nobody is there, and it says who."""
        result = run("topic", "list", "--request-timeout-ms", "2000", *words, **options)
        assert result.exit_code == 1
        return result.stderr

    def test_a_cluster_by_its_name(self, run: Run, tmp_path: Path) -> None:
        assert "there are no profiles yet" in run("profile", "list").stderr
        run("profile", "add", "test", "-b", "127.0.0.1:2")
        run("profile", "add", "other", "-b", "127.0.0.1:3,127.0.0.1:4", "--request-timeout-ms", "1500")
        assert "127.0.0.1:2" in self.asked(run)  # the first one is the current one
        assert re.search(
            r"127\.0\.0\.1:[34] ", self.asked(run, "--profile", "other")
        )  # the first that was tried
        run("profile", "use", "other")
        assert re.search(r"127\.0\.0\.1:[34] ", self.asked(run))
        listed = json.loads(run("profile", "list", "--json").stdout)
        assert [(each["name"], each["current"]) for each in listed] == [("other", True), ("test", False)]
        assert listed[0]["request-timeout-ms"] == 1500
        run("profile", "delete", "other")
        assert "127.0.0.1:9092" in self.asked(run)
        content = (tmp_path / "headrace/profiles.toml").read_text()
        assert content == '[profiles.test]\nbootstrap-server = "127.0.0.1:2"\n'

    def test_who_counts_first(self, run: Run) -> None:
        run("profile", "add", "test", "-b", "127.0.0.1:2")
        run("profile", "add", "third", "-b", "127.0.0.1:3")
        environment = {"HEADRACE_BOOTSTRAP_SERVER": "127.0.0.1:5"}
        assert "127.0.0.1:5" in self.asked(run, env=environment)
        assert "127.0.0.1:3" in self.asked(run, "--profile", "third", env=environment)
        assert "127.0.0.1:6" in self.asked(run, "-b", "127.0.0.1:6", env=environment)
        assert "127.0.0.1:3" in self.asked(run, env={"HEADRACE_PROFILE": "third"})
        result = run("topic", "list", "-b", "127.0.0.1:6", "--profile", "third")
        assert "give one of --bootstrap-server and --profile" in result.stderr

    def test_its_file_counts_where_it_says_whom_to_ask(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=nowhere.pem\n"
        )
        run("profile", "add", "locked", "-b", "127.0.0.1:2", "--command-config", str(file))
        assert "nowhere.pem" in self.asked(run)
        assert "127.0.0.1:6" in self.asked(run, "-b", "127.0.0.1:6")
        assert "127.0.0.1:5" in self.asked(run, env={"HEADRACE_BOOTSTRAP_SERVER": "127.0.0.1:5"})
        file.write_text("colour=blue\n")
        added = run("profile", "add", "odd", "-b", "127.0.0.1:2", "--command-config", str(file))
        assert added.exit_code == 1
        assert "colour" in added.stderr

    def test_a_file_that_is_broken(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "headrace/profiles.toml"
        path.parent.mkdir()
        for content, message in {
            "nonsense": "profiles.toml: Expected",
            "[profiles.x]": "profile x has no bootstrap-server",
            '[profiles.x]\nbootstrap-server = "a"\ncolour = 1': "colour is none of bootstrap-server",
        }.items():
            path.write_text(content)
            assert message in run("profile", "list").stderr
        assert "letters, digits" in run("profile", "add", "a b", "-b", "x:1").stderr
