"""docs/operations.md quotes log lines that the source has: who changes a line is told of the row, and who
adds an error is asked for one.
"""

import ast
import functools
import itertools
import re

import pytest

from tests.house.source import ROOT, modules

PAGE = ROOT / "docs/operations.md"
HEADING = ["fault", "what happens", "what is logged", "what to do"]
QUOTED = re.compile(r"`([^`]+)`")
NOT_OF_A_NODE = {"cli", "clients", "console", "spark", "testing"}
VALUE = re.compile(r"%[-.0-9]*[a-z]")


def rows() -> list[list[str]]:
    lines = PAGE.read_text().splitlines()
    start = lines.index(f"| {' | '.join(HEADING)} |")
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_a_row_is_whole(row: list[str]) -> None:
    assert len(row) == 4, row
    assert all(row), row


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_quoted_line_is_one_of_the_source(row: list[str]) -> None:
    quoted = QUOTED.findall(row[2])
    assert quoted, "quote the line's template, or what is said at the start of a node"
    assert not [line for line in quoted if not _is_said(line)]


def test_every_error_of_a_node_has_a_row() -> None:
    """Whoever is woken up by one finds what to do."""
    quoted = [_without_values(line.replace("\\|", "|")) for row in rows() for line in QUOTED.findall(row[2])]
    missing = [text for text in _errors() if not any(line in text for line in quoted)]
    assert not missing


def _errors() -> list[str]:
    """The templates of all errors that a node logs, but for those that say only what they are given."""
    found = [
        _without_values(node.args[0].value)
        for module in modules("src/headrace")
        if module.name.split("/")[2] not in NOT_OF_A_NODE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("error", "critical", "exception")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]
    return [text for text in found if re.search("[a-z]", text)]


def _is_said(line: str) -> bool:
    wanted = _without_values(line.replace("\\|", "|"))
    return any(wanted in text for text in _texts())


@functools.cache
def _texts() -> frozenset[str]:
    """All text constants of the package, with one sign for whatever is put in."""
    return frozenset(
        _without_values(text)
        for module in modules("src/headrace")
        for node in ast.walk(module.tree)
        if (text := _text(node)) is not None
    )


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "%s" for part in node.values)
    return None


def _without_values(text: str) -> str:
    return VALUE.sub("%", text)
