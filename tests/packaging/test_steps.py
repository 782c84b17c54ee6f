"""Every command in the steps of the documents is one that exists, with options that it has."""

import re
import shlex
import subprocess

import click
import pytest

from headrace.cli.main import cli
from tests.house.source import ROOT
from tests.packaging.machine import BLOCK

PAGES = ("from-kafka.md", "operations.md")
BLOCKS = [block for page in PAGES for block in BLOCK.findall((ROOT / "docs" / page).read_text())]
COMMANDS = sorted(
    {line for block in BLOCKS for line in re.findall(r"^headrace [^\n|&;]+", block, re.MULTILINE)}
)


def test_there_are_steps() -> None:
    assert len(BLOCKS) >= 10
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n", 1)[0][:50])
def test_a_shell_can_read_it(block: str) -> None:
    subprocess.run(["bash", "-n", "-c", block], check=True)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_is_there_with_its_options(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known
