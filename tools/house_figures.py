"""Counts the house: `python tools/house_figures.py [CHECKOUT]`.

Files, lines and the median file of the package; files of up to 120 lines that one neighbour imports (lazy
imports, schemas, handlers and package heads aside). That no public class has its name twice is a test.
"""

import ast
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

SMALL_LINES_MAX = 120


@dataclass
class Module:
    """A module of the package: its lines, and who imports it when it is loaded."""

    path: Path
    lines: int
    importers: set[str] = field(default_factory=set)
    is_lazy: bool = False


def read(sources: Path) -> dict[str, Module]:
    """All modules below a folder of sources, by dotted name."""
    trees = {}
    modules = {}
    for path in sorted(sources.rglob("*.py")):
        name = ".".join(path.relative_to(sources).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        tree = trees[name] = ast.parse(text)
        modules[name] = Module(path, text.count("\n"))
    for name, tree in trees.items():
        at_load = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            for imported in _imported(node, modules):
                modules[imported].importers.add(name)
                modules[imported].is_lazy |= id(node) not in at_load
    return modules


def _imported(node: ast.AST, modules: dict[str, Module]) -> set[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [each if each in modules else node.module for each in inner]
    else:
        return set()
    return {name for name in names if name in modules}


def small_with_one_importer(modules: dict[str, Module]) -> list[str]:
    """Modules that may belong to the one that imports them."""
    return sorted(
        name
        for name, module in modules.items()
        if len(module.importers) == 1
        and module.lines <= SMALL_LINES_MAX
        and not module.is_lazy
        and module.path.name != "__init__.py"
        and ".schemas." not in name
        and ".handlers." not in name
    )


def main() -> None:
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    modules = read(checkout / "src")
    lines = [module.lines for module in modules.values()]
    single = small_with_one_importer(modules)
    print(f"files                          {len(modules):6}")
    print(f"lines                          {sum(lines):6}")
    print(f"median lines of a file         {statistics.median(lines):6.0f}")
    print(f"small files with one importer  {len(single):6}")
    for name in single:
        print(f"  small: {name} ({modules[name].lines}), imported by {', '.join(modules[name].importers)}")


if __name__ == "__main__":
    main()
