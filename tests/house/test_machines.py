"""No file knows the machine or the network that it was written on."""

import re

from tests.house.source import ROOT, tracked_files

# A home or a work folder of somebody's machine.
MACHINE_PATH = re.compile(r"(?<![\w.$}~<-])/(root|home/\w+|work|Users/\w+)/")
# Where packages come from is for each machine's own settings to say.
REGISTRY = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com|proxy\.golang\.org)"
    r"|\b(sum\.golang\.org|repo1?\.maven(\.apache)?\.org|index-url|extra-index|GOPROXY=|--registry)",
)
THIS_FILE = "tests/house/test_machines.py"


def _text_lines() -> list[tuple[str, str]]:
    rows = []
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if name != THIS_FILE:
            rows += [(f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1)]
    return rows


def test_no_path_of_a_machine() -> None:
    assert not [
        f"{place}: {line.strip()[:120]}" for place, line in _text_lines() if MACHINE_PATH.search(line)
    ]


def test_no_registry_host() -> None:
    assert not [f"{place}: {line.strip()[:120]}" for place, line in _text_lines() if REGISTRY.search(line)]
