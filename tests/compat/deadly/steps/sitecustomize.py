"""Ends this process at a chosen step: see `tests.compat.deadly`.

Python imports a module of this name at its start. It stands before `os` functions, not before anything of the
broker's: what the broker does with its files is what an operating system sees of it. Nothing here is imported
that a broker would not import anyway.
"""

import json
import os
import re
import signal
import threading

_PLAN = os.environ["DEADLY_PLAN"]
_lock = threading.Lock()
_counts: dict[str, int] = {}
_paths: dict[int, str] = {}
_open, _replace, _unlink, _rmdir, _pwrite, _pwritev = (
    os.open,
    os.replace,
    os.unlink,
    os.rmdir,
    os.pwrite,
    os.pwritev,
)


def _is_last(what: str, path: str) -> bool:
    """Whether this step is the one that the process does not survive."""
    try:
        with open(_PLAN, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return False
    plan = json.loads(text)
    if not re.search(plan["pattern"], f"{what} {path}"):
        return False
    _counts[text] = _counts.get(text, 0) + 1
    return bool(_counts[text] == plan["at"])


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def open_(path, flags, mode=0o777, **more):
    fd = _open(path, flags, mode, **more)
    _paths[fd] = os.fspath(path)
    return fd


def replace(old, new, **more):
    with _lock:
        if _is_last("rename", f"{old} {new}"):
            _end()
        return _replace(old, new, **more)


def unlink(path, **more):
    with _lock:
        if os.path.exists(path) and _is_last("remove", path):
            _end()
        return _unlink(path, **more)


def rmdir(path, **more):
    with _lock:
        if not os.listdir(path) and _is_last("remove", path):
            _end()
        return _rmdir(path, **more)


def pwrite(fd, data, position):
    with _lock:
        if _is_last("write", _paths.get(fd, "")):
            _pwrite(fd, bytes(data)[: len(data) // 2], position)
            _end()
        return _pwrite(fd, data, position)


def pwritev(fd, chunks, position, *more):
    with _lock:
        if _is_last("write", _paths.get(fd, "")):
            data = b"".join(chunks)
            _pwrite(fd, data[: len(data) // 2], position)
            _end()
        return _pwritev(fd, chunks, position, *more)


os.open, os.replace, os.unlink, os.rmdir, os.pwrite, os.pwritev = (
    open_,
    replace,
    unlink,
    rmdir,
    pwrite,
    pwritev,
)
