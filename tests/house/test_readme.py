"""Commands in the README are commands that exist: each is parsed, and its options are known. The first steps
are taken as they stand there, on a node of their own.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.brokers import Broker, HeadraceBroker
from tests.house.source import ROOT

BIN = Path(sys.executable).parent
FENCE = re.compile(r"```(?:sh|shell|bash|console)\n(.*?)```", re.DOTALL)
SCRIPTS = {"./run", "./test"}
HEADRACE = {"headrace", ".venv/bin/headrace"}


def _commands() -> list[list[str]]:
    """Each command of the README's shell blocks, as words; pipelines and lists are taken apart."""
    commands = []
    for block in FENCE.findall((ROOT / "README.md").read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            command: list[str] = []
            for word in [*words, "|"]:
                if word in ("|", "&&", "||", ";", "&"):
                    commands += [command] if command else []
                    command = []
                else:
                    command.append(word)
    return commands


def _of(programs: set[str]) -> list[list[str]]:
    return [command for command in _commands() if command[0] in programs]


def test_the_two_first_commands_are_there() -> None:
    assert ["./run"] in _commands()
    assert ["./test"] in _commands()


@pytest.mark.parametrize("command", _of(SCRIPTS), ids=" ".join)
def test_script_knows_its_options(command: list[str]) -> None:
    told = subprocess.run(
        [str(ROOT / command[0]), "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert not [word for word in command[1:] if word.startswith("--") and word not in told]


@pytest.mark.parametrize("command", _of(HEADRACE), ids=" ".join)
def test_command_knows_its_options(command: list[str]) -> None:
    """The sub-command is what stands before the first option or argument that `--help` does not take."""
    depth, told = 1, _help([])
    while depth < len(command) and re.search(rf"^\W*{re.escape(command[depth])}\b", told, re.MULTILINE):
        told = _help(command[1 : depth + 1])
        depth += 1
    assert depth > 1, f"no such sub-command: {command}"
    options = [word.split("=")[0] for word in command[depth:] if word.startswith("--")]
    assert not [option for option in options if option not in told]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    started = HeadraceBroker(tmp_path_factory.mktemp("node") / "data")
    started.start()
    yield started
    started.stop()


def _block(language: str, part: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (found,) = [each for each in blocks if part in each]
    return str(found)


def test_the_first_steps_lead_somewhere(node: Broker) -> None:
    """A newcomer types these lines one after the other; only the address is another one here."""
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HEADRACE_BOOTSTRAP_SERVER": node.bootstrap,
    }
    command = ["bash", "-ec", _block("sh", "headrace topic create")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "hello"

    program = _block("python", "from headrace import Consumer, Producer").replace(
        "127.0.0.1:9092", node.bootstrap
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as reading:
        assert reading.stdout is not None
        lines = [reading.stdout.readline().strip() for _ in range(3)]
        reading.kill()  # its loop waits for records for ever
    assert lines[0].isdecimal()
    assert lines[1:] == ["b'hello'"] * 2


def test_it_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def _help(words: list[str]) -> str:
    done = subprocess.run([str(BIN / "headrace"), *words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, f"headrace {' '.join(words)} --help:\n{done.stdout}{done.stderr}"
    return done.stdout
