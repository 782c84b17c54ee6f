"""What the rules look at: the files under version control, and the parsed modules of the package."""

import ast
import functools
import gc
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/headrace"


@dataclass(frozen=True)
class Module:
    """A Python file and its tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Relative to the checkout."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """All files of the project: committed, or new and not ignored; without git, all but what is made."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = (
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        )
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        ignored = {".venv", "node_modules", "__pycache__", "build", "dist"}
        paths = [path for path in ROOT.rglob("*") if not ignored.intersection(path.parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


@functools.cache
def modules(folder: str = "src/headrace") -> tuple[Module, ...]:
    """The Python files below a folder of the checkout."""
    below = f"{ROOT / folder}/"
    paths = [path for path in tracked_files() if path.suffix == ".py" and str(path).startswith(below)]
    # Millions of nodes that nobody lets go: to look for garbage among them takes longer than to parse.
    gc.disable()
    try:
        found = tuple(map(_module, paths))
        gc.freeze()
    finally:
        gc.enable()
    return found


@functools.cache
def _module(path: Path) -> Module:
    text = path.read_text()
    return Module(path, text, ast.parse(text, str(path)))


def rooms() -> list[str]:
    return sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
