"""Sizes, names and heads of files: what keeps the house readable."""

import ast
import re

import pytest

from tests.house.source import ROOT, Module, modules, rooms, tracked_files

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
# Such names say nothing of what lives there, so anything ends up there.
FORBIDDEN_WORDS = frozenset({"util", "utils", "common", "helper", "helpers", "misc"})


@pytest.mark.parametrize("folder", ["src/headrace", "tests", "bench"])
def test_every_module_opens_with_a_docstring(folder: str) -> None:
    bare = [each.name for each in modules(folder) if each.text.strip() and not ast.get_docstring(each.tree)]
    assert not bare


@pytest.mark.parametrize("folder", ["src/headrace", "tests", "bench"])
def test_no_file_is_too_long(folder: str) -> None:
    assert not [f"{each.name}: {each.lines}" for each in modules(folder) if each.lines > FILE_LINES_MAX]


@pytest.mark.parametrize("folder", ["src/headrace", "tests", "bench"])
def test_no_function_is_too_long(folder: str) -> None:
    long = [
        f"{each.name}:{node.lineno} {node.name}: {_lines(node)} lines"
        for each in modules(folder)
        for node in _functions(each)
        if _lines(node) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_names_say_what_lives_there() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in tracked_files()]
    classes = [
        f"{each.name}:{node.lineno} {node.name}"
        for each in modules()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.ClassDef) and _has_forbidden_word(node.name)
    ]
    assert not [name for name in files if _has_forbidden_word(name)] + classes


def test_no_public_class_has_its_name_twice() -> None:
    """One name, one meaning. The wire's schemas have Kafka's own names, which it uses again and again."""
    homes: dict[str, list[str]] = {}
    for each in modules("src/headrace"):
        if not each.name.startswith("src/headrace/wire/schemas/"):
            for node in each.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(each.name)
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_nothing_is_left_for_later() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [
        f"{each.name}:{number}"
        for each in modules()
        for number, line in enumerate(each.text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


def test_tests_do_not_sleep() -> None:
    """They wait for a condition or run on virtual time; a wait's own pause is in the two places that wait."""
    allowed = {"tests/compat/brokers.py", "tests/compat/clients/face.py"}
    found = [
        f"{each.name}:{node.lineno}"
        for each in modules("tests")
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "sleep")
        and each.name not in allowed
    ]
    assert not found


def test_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert not [room for room in rooms() if f"`{room}`" not in text and f"`{room}/`" not in text]


def test_every_room_has_tests() -> None:
    built = [
        room for room in rooms() if any(each.text.strip() for each in modules(f"src/headrace/{room}")[1:])
    ]
    assert not [room for room in built if not list((ROOT / "tests" / room).glob("**/test_*.py"))]


def _functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _has_forbidden_word(name: str) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return bool(FORBIDDEN_WORDS.intersection(re.split(r"[^a-z]+", words)))
