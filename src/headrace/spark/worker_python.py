"""The Python that Spark starts its workers with on this machine: this one, without Spark's zip on its path.

Spark puts the zip of `pyspark` that it brings along before everything else on a worker's path. What is in a
zip is not kept compiled, so every process compiles some hundred modules anew: 0.6 s of CPU before a stream's
planner can plan its first batch, and again for each kind of worker. Where the zip lies within the installed
`pyspark`, whose modules are the same and compiled, it is left out, by a shell script that Spark starts in
Python's place. It lives in a temporary folder as long as this process does.

Where Spark is another than the installed one, or somebody chose a Python for workers, nothing is changed.
"""

import atexit
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAMES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_STAND_IN: Final = """#!/bin/sh
# Starts {python} with what is on PYTHONPATH, but for what lies within {home}.
path=
set -f
IFS=:
for each in $PYTHONPATH; do
  case $each in
    {home}/*|{real_home}/*) ;;
    *) path=$path${{path:+:}}$each ;;
  esac
done
PYTHONPATH=$path
export PYTHONPATH
exec {python} "$@"
"""


@contextmanager
def workers_of_compiled_modules() -> Iterator[None]:
    """A session that is made within this starts such workers; the environment stays as it was."""
    home = _installed_spark()
    replaced = [name for name in _NAMES if os.environ.get(name) == sys.executable]
    if home is None or not replaced:
        yield
        return
    python = str(stand_in(Path(sys.executable), home))
    os.environ.update(dict.fromkeys(replaced, python))
    try:
        yield
    finally:
        os.environ.update(dict.fromkeys(replaced, sys.executable))


def stand_in(python: Path, home: Path) -> Path:
    """A script that starts `python` with nothing of `home` on its path."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "python"
    names = {"python": python, "home": home, "real_home": home.resolve()}
    script.write_text(_STAND_IN.format(**{name: shlex.quote(str(path)) for name, path in names.items()}))
    script.chmod(0o755)
    return script


def _installed_spark() -> Path | None:
    """The folder of the installed `pyspark`, where that is the Spark which a session would start."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent
    chosen = os.environ.get("SPARK_HOME")
    is_same = chosen is None or Path(chosen).resolve() == home.resolve()
    return home if is_same and (home / "python/lib/pyspark.zip").exists() else None
