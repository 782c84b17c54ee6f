"""Folders go with their process: when it ends, and when it was killed, with the next one."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.node import temporary_folder
from headrace.node.temporary_folder import TemporaryFolder, sweep

PROGRAM = """
import sys
from headrace.node.temporary_folder import TemporaryFolder
folder = TemporaryFolder("test")
(folder.path / "data").mkdir()
(folder.path / "data/file").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""

FORKED = """
import os
from headrace.node.temporary_folder import TemporaryFolder
with TemporaryFolder("test") as folder:
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    print(folder.path.exists())
"""


@pytest.fixture(autouse=True)
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    temporary_folder._sweep_once.cache_clear()
    return tmp_path


def started() -> tuple["subprocess.Popen[str]", Path]:
    """A process that has a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_goes_with_its_process() -> None:
    process, folder = started()
    assert (folder / "data/file").exists()
    process.communicate()
    assert not folder.exists()


def test_a_killed_process_s_folder_goes_with_the_next_process_and_others_stay(parent: Path) -> None:
    killed, left_behind = started()
    killed.kill()
    killed.communicate()
    running, in_use = started()
    (parent / "headrace-something").mkdir()  # whoever made that
    (parent / "headrace-file").touch()
    with TemporaryFolder("test") as folder:
        assert not left_behind.exists()
        assert in_use.exists()
        assert (parent / "headrace-something").exists()
        sweep(parent)
        assert folder.path.exists()
        assert in_use.exists()
    assert not folder.path.exists()
    folder.remove()
    running.communicate()
    assert sorted(each.name for each in parent.iterdir()) == ["headrace-file", "headrace-something"]


def test_a_fork_leaves_the_folder_to_its_parent() -> None:
    """In a process of its own: a fork of one with threads and many libraries may stand still for ever."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_folder_that_was_swept_while_it_was_made_is_not_used(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweeper comes between the file and its lock."""
    flock, made = temporary_folder.fcntl.flock, []

    def swept_before(descriptor: int, how: int) -> None:
        made.append(descriptor)
        if len(made) == 1:
            sweep(parent)  # takes the lock, and the folder
        flock(descriptor, how)

    monkeypatch.setattr(temporary_folder.fcntl, "flock", swept_before)
    with TemporaryFolder("test") as folder:
        assert (folder.path / temporary_folder.LOCK).exists()
        assert len(made) > 2
