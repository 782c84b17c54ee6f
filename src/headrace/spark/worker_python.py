"""Which Python the workers of a session run, when driver and workers need not have the same one.

Spark knows one name for Python, and runs it in two places: where the driver is, for planning a Python source,
and on every executor. On one machine that name is the path of this Python. On a cluster there is seldom a
path that is right everywhere: the driver has a virtual environment, workers have theirs, or one that was
shipped as an archive. So a cluster's session is told a bare name, which each place looks up on its own PATH:

    driver      a temporary folder is first on the PATH of its JVM; the name in it is this Python
    executors   the folder of the chosen Python is first on their PATH (`spark.executorEnv.PATH`); where none
                was chosen their PATH is left as it is, and their own `python3` is taken

Chosen is, in this order: `spark.pyspark.python`, PYSPARK_PYTHON, the environment in `spark.archives`
(`env.tar.gz#environment` is unpacked as a folder `environment` where an executor runs).

Where `spark-submit` has started the JVM, its PATH and names are what they are: the name that it uses for
planning is told to executors too (`name_of_driver`).

Spark puts the zip of `pyspark` that it brings along before everything else on a worker's path. What is in a
zip is not kept compiled, so every process compiles some hundred modules again: 0.6 s of CPU before a stream's
planner can plan its first batch, and again for each kind of worker. Where the zip lies within the installed
`pyspark`, whose modules are the same and compiled, it is left out, by a shell script that Spark starts in
Python's place. Where Spark is another than the installed one, or somebody chose a Python for local workers,
nothing is changed.

Scripts live in temporary folders as long as this process does: a JVM of this session may start others.
"""

import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from headrace.node.temporary_folder import TemporaryFolder

PYTHON_SETTING: Final = "spark.pyspark.python"
PATH_SETTING: Final = "spark.executorEnv.PATH"
# What a login has; an executor whose Python was chosen finds the rest of what it needs there.
_PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON_DEFAULT: Final = "python3"  # as Spark has it
_PYTHON_NAMES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
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
_LINK: Final = """#!/bin/sh
exec {python} "$@"
"""


# One machine


@contextmanager
def workers_of_compiled_modules() -> Iterator[None]:
    """A session that is made within this starts such workers; the environment stays as it was."""
    home = _installed_spark()
    replaced = [name for name in _PYTHON_NAMES if os.environ.get(name) == sys.executable]
    if home is None or not replaced:
        yield
        return
    python = str(python_stand_in(Path(sys.executable), home))
    with _environment(dict.fromkeys(replaced, python)):
        yield


def python_stand_in(python: Path, home: Path, name: str = "python") -> Path:
    """A script that starts `python` with nothing of `home` on its path."""
    names = {"python": python, "home": home, "real_home": home.resolve()}
    return _script(_STAND_IN.format(**{each: shlex.quote(str(path)) for each, path in names.items()}), name)


# A cluster


def chosen_python(config: Mapping[str, str]) -> str | None:
    """The Python that the workers of a cluster are to run; None where theirs is to be taken."""
    said = config.get(PYTHON_SETTING) or os.environ.get("PYSPARK_PYTHON")
    return said or _archived_python(config.get("spark.archives", ""))


def executor_settings(config: Mapping[str, str], python: str | None) -> dict[str, str]:
    """`config` with what lets executors find this Python under its bare name."""
    settings = {name: value for name, value in config.items() if name != PYTHON_SETTING}
    if python is not None and "/" in python:
        rest = settings.get(PATH_SETTING, _PATH_DEFAULT)
        settings[PATH_SETTING] = f"{PurePosixPath(python).parent}:{rest}"
    return settings


@contextmanager
def driver_of_this_python(python: str | None) -> Iterator[None]:
    """A JVM that is started within this finds this process's Python under the name that workers know."""
    name = PurePosixPath(python or _PYTHON_DEFAULT).name
    home = _installed_spark()
    if home is None:
        script = _script(_LINK.format(python=shlex.quote(sys.executable)), name)
    else:
        script = python_stand_in(Path(sys.executable), home, name)
    path = f"{script.parent}:{os.environ.get('PATH', _PATH_DEFAULT)}"
    with _environment({"PATH": path, **dict.fromkeys(_PYTHON_NAMES, name)}):
        yield


@contextmanager
def name_of_driver(variables: Mapping[str, str | None]) -> Iterator[None]:
    """A session that is made within this runs Python by the name that its JVM, with these variables, has."""
    name = variables.get("PYSPARK_DRIVER_PYTHON") or variables.get("PYSPARK_PYTHON") or _PYTHON_DEFAULT
    with _environment({"PYSPARK_PYTHON": name}):
        yield


def _archived_python(archives: str) -> str | None:
    """`./environment/bin/python` of an archive that has a name to be unpacked under."""
    for each in archives.split(","):
        _, mark, name = each.strip().partition("#")
        if mark and name:
            return f"./{name}/bin/python"
    return None


# Both


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _script(text: str, name: str) -> Path:
    script = TemporaryFolder("python").path / name
    script.write_text(text)
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
