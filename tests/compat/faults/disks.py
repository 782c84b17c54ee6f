"""Small disks: a tmpfs for each node, mounted in this command's own mount namespace, and a ballast to fill
it."""

import contextlib
import errno
import os
import subprocess
from pathlib import Path

SIZE_MB = 1024
BALLAST = "ballast"
STEPS = (64 << 20, 1 << 20, 4096)


def mount(folder: Path) -> None:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Until not one page is free."""
    with (folder / BALLAST).open("ab") as ballast:
        for step in STEPS:
            while _grow(ballast.fileno(), step):
                pass


def relieve(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (folder / BALLAST).unlink()


def _grow(file: int, step: int) -> bool:
    try:
        os.posix_fallocate(file, os.fstat(file).st_size, step)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True
