"""An environment for each version of Spark: its own pyspark, and the packages of this one behind it."""

import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.compat.prepare import _build, _call, _folder_of

ROOT: Final = Path(__file__).resolve().parents[3]
VERSIONS: Final = ("4.0", "4.1", "4.2", "4.3")


def python_with_spark(version: str) -> Path:
    """The Python of an environment that has the newest pyspark of a minor version; this one, where it has."""
    if metadata.version("pyspark").startswith(f"{version}."):
        return Path(sys.executable)
    packages = sysconfig.get_path("purelib")
    folder = _folder_of(f"spark-{version}", f"{sys.version}{packages}".encode())
    if not folder.exists():
        _build(folder, lambda work: _fill(work, version, packages))
    return folder / "bin/python"


def _fill(work: Path, version: str, packages: str) -> None:
    _call([sys.executable, "-m", "venv", str(work)], work, "Python's venv")
    _call([str(work / "bin/python"), "-m", "pip", "install", "-q", f"pyspark=={version}.*"], work, "PyPI")
    (own,) = work.glob("lib/python*/site-packages")
    # What is here comes first, so pyspark is the one above; headrace itself comes by PYTHONPATH.
    (own / "behind.pth").write_text(f"{packages}\n")


def installed_version(python: Path) -> str:
    asked = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.check_output(asked, text=True).strip()
