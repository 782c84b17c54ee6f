"""What the docs say of the code is there: files, links, and figures that are constants."""

import functools
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from headrace.spark.range_fetcher import FETCH_BYTES
from headrace.tiered.reader import FIRST_WINDOW_BYTES
from headrace.tiered.remote_storage import WINDOW_BYTES_MAX
from headrace.tiered.window_memory import MEMORY_BYTES_MAX
from tests.house.source import PACKAGE, ROOT, tracked_files

PAGES = sorted(path for path in tracked_files() if path.suffix == ".md" and "tests" not in path.parts)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
# `log/segment.py` is a file of the package or, with its folder, of the checkout.
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.*-]+\.(?:py|md|sh|toml))(?::\d+)?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert not [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_are_there(page: Path) -> None:
    named = {name for name in FILE.findall(page.read_text()) if "<" not in name}
    assert not sorted(name for name in named if not _is_there(name))


def _is_there(name: str) -> bool:
    """By its whole path, or by its last parts where a page speaks of one room."""
    return any(fnmatch(path, f"*/{name}") for path in _paths())


@functools.cache
def _paths() -> list[str]:
    return [str(path) for path in tracked_files()]


def _tour() -> list[tuple[list[str], list[str]]]:
    """The rows of the code tour: files, and the words to search for in them."""
    rows = []
    for line in (ROOT / "docs/CODE-TOUR.md").read_text().splitlines():
        cells = line.strip("|").split("|")
        if len(cells) == 3 and "`" in cells[1]:
            rows.append((re.findall("`([^`]+)`", cells[1]), re.findall("`([^`]+)`", cells[2])))
    return rows


@pytest.mark.parametrize(("files", "words"), _tour(), ids=lambda each: each[0] if each else "-")
def test_what_the_code_tour_finds_is_there(files: list[str], words: list[str]) -> None:
    """One hop: the class or function is defined in a file of its row, a constant is used there."""
    sources = [path for name in files for path in sorted(PACKAGE.glob(name.replace("<api>", "*")))]
    assert sources, files
    inner = [path for each in sources for path in ([each] if each.is_file() else each.rglob("*.py"))]
    text = "\n".join(path.read_text() for path in inner)
    for word in words:
        assert re.search(rf"(\b{word}\b)" if word.isupper() else rf"\b(def|class) {word}\b", text), word


@pytest.mark.parametrize("page", sorted((ROOT / "docs/paths").glob("*.md")), ids=lambda page: page.stem)
def test_names_on_the_journeys_are_in_the_code(page: Path) -> None:
    names = re.findall(r"`(?:\w+\.)*([A-Za-z_]\w+)(?:\(\))?`", page.read_text())
    assert not [name for name in names if name not in _words()]


@functools.cache
def _words() -> frozenset[str]:
    """All that the code has."""
    return frozenset(word for path in PACKAGE.rglob("*.py") for word in re.findall(r"\w+", path.read_text()))


MIB = 1 << 20


@pytest.mark.parametrize(
    ("page", "sentence", "bytes_"),
    [
        ("ARCHITECTURE.md", r"windows, (\d+) MiB in all", MEMORY_BYTES_MAX),
        ("ARCHITECTURE.md", r"bounded number of (\d+) MiB answers", FETCH_BYTES),
        ("docs/paths/fetch.md", r"All windows together take (\d+) MiB", MEMORY_BYTES_MAX),
        ("docs/paths/fetch.md", r"a window of \d+ KiB to (\d+) MiB", WINDOW_BYTES_MAX),
        ("docs/paths/fetch.md", r"the first one of a reader (\d+) MiB at most", FIRST_WINDOW_BYTES),
    ],
)
def test_figures_are_those_of_the_code(page: str, sentence: str, bytes_: int) -> None:
    found = re.findall(sentence, " ".join((ROOT / page).read_text().split()))
    assert [int(figure) * MIB for figure in found] == [bytes_]
