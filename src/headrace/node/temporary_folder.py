"""Temporary folders that do not stay behind: removed by their process, or after it by another one.

A process that is killed removes nothing. So each folder has a file that its process keeps locked: such a lock
ends with the process, however that ends. The first folder that a process makes has it look for folders of
processes that are gone, and remove them. A lock is seen in other containers too, where process ids mean
nothing.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PREFIX: Final = "headrace-"
LOCK: Final = ".in-use"


class TemporaryFolder:
    """A new folder `headrace-<kind>-…` in the system's place for such, until `remove` or the process ends."""

    def __init__(self, kind: str) -> None:
        parent = Path(tempfile.gettempdir())
        _sweep_once(parent)
        self.path, self._lock = _made(parent, kind)
        self._process = os.getpid()
        atexit.register(self.remove)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Again is harmless. A fork leaves it to its parent."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.remove)
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _made(parent: Path, kind: str) -> tuple[Path, int | None]:
    """A folder and the descriptor that locks it; None where the file system has no locks."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=parent))
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # who sweeps was faster than the lock: another folder
        except OSError:
            os.close(lock)
            (folder / LOCK).unlink(missing_ok=True)
            return folder, None
        else:
            if os.fstat(lock).st_nlink:
                return folder, lock
        os.close(lock)


@functools.cache
def _sweep_once(parent: Path) -> None:
    sweep(parent)


def sweep(parent: Path) -> None:
    """Remove this user's folders of processes that are gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, somebody else's, not one of these, or gone meanwhile
            _remove_abandoned(folder)


def _remove_abandoned(folder: Path) -> None:
    """OSError where the folder is in use or none of these."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
