"""Below `node` nothing reads a clock, draws a number or opens a file by itself.

Imports are import-linter's part (pyproject.toml); this is about what needs no import, or an import that is
allowed for another reason.
"""

import ast
import functools

from tests.house.source import Module, modules

# The rooms that get clock, loop, disk, network and chance handed in.
SIMULATED = ("base", "wire", "settings", "records", "log", "tiered", "raft", "metadata")
SIMULATED += ("replication", "controller", "coordinators", "transport", "server", "remote_log")
DOORS = frozenset(
    f"src/headrace/{door}.py" for door in ("base/clock", "log/system_disk", "transport/system_network")
)


def _simulated() -> list[Module]:
    return [each for room in SIMULATED for each in modules(f"src/headrace/{room}") if each.name not in DOORS]


def test_no_file_is_opened() -> None:
    assert not [place for place, call in _calls() if call in ("open", "io.open", "print", "input")]


def test_chance_is_handed_in() -> None:
    """`random.Random` is a type there; the functions of the module share a generator that no seed reaches."""
    drawn = [
        f"{each.name}:{node.lineno} {ast.unparse(node)}"
        for each in _simulated()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "random"
        and node.attr != "Random"
        and _imports_random(each)
    ]
    assert not drawn


def test_the_loop_is_handed_in() -> None:
    """A loop that is looked up may not be the one that the simulator runs."""
    looked_up = ("asyncio.get_event_loop", "asyncio.new_event_loop", "asyncio.run")
    assert not [f"{place} {call}" for place, call in _calls() if call in looked_up]


@functools.cache
def _calls() -> list[tuple[str, str]]:
    return [
        (f"{each.name}:{node.lineno}", ast.unparse(node.func))
        for each in _simulated()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.Call)
    ]


def _imports_random(module: Module) -> bool:
    return any(
        isinstance(node, ast.Import) and any(name.name == "random" for name in node.names)
        for node in ast.walk(module.tree)
    )
