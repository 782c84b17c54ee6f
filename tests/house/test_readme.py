"""Commands in the README are commands that exist: each is parsed, and its options are known."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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


def _help(words: list[str]) -> str:
    done = subprocess.run([str(BIN / "headrace"), *words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, f"headrace {' '.join(words)} --help:\n{done.stdout}{done.stderr}"
    return done.stdout
