"""Kernels say which parts of other files they were compiled of: numba's cache sees only their own file."""

import ast
import zlib
from pathlib import Path

import pytest

from headrace import records

FOLDER = Path(records.__file__).parent
KERNELS = sorted(path for path in FOLDER.glob("kernels_*.py") if "\nPARTS: Final" in path.read_text())


def sources(path, found=None):
    """The files of kernels that a file imports, and those that these import."""
    found = {} if found is None else found
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.module if isinstance(node, ast.ImportFrom) else None
        if name and name.startswith("headrace.records.kernels_"):
            source = FOLDER / f"{name.rpartition('.')[2]}.py"
            if source not in found:
                found[source] = source.read_text()
                sources(source, found)
    return found


def fingerprint(path):
    lines = [
        line
        for _, text in sorted(sources(path).items())
        for line in text.splitlines()
        if not line.startswith("PARTS: Final")
    ]
    return f"{zlib.crc32(chr(10).join(lines).encode()):08x}"


def test_there_are_such_kernels():
    assert {"kernels_cleaning_mapping.py", "kernels_walking.py"} <= {path.name for path in KERNELS}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_the_cache_is_told_when_a_part_changes(path):
    wanted = fingerprint(path)
    assert f'\nPARTS: Final = "{wanted}"\n' in path.read_text(), (
        f'write PARTS: Final = "{wanted}" into {path.name}'
    )
