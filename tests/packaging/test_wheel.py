"""What a release has: wheel and source archive, whole and the same bytes whenever they are built, and the
bill of materials. The wheel gives a command that serves records, in a fresh environment."""

import email
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.house.source import ROOT

# What a newcomer does after the installation, in the fresh environment's own Python.
FIRST_STEPS = """
from headrace.clients import Consumer, Producer
from headrace.testing import Cluster

with Cluster() as cluster:
    cluster.create_topic("orders", partitions=1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"hello").result()
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest",
                  group_id="readers") as consumer:
        consumer.subscribe(["orders"])
        print(next(iter(consumer)).value.decode())
"""


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release has, in a folder."""
    folder = tmp_path_factory.mktemp("built")
    _run(sys.executable, ROOT / "tools/package.py", folder, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def archive(built: Path) -> Path:
    return next(built.glob("*.tar.gz"))


def test_the_wheel_is_complete(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "headrace/py.typed" in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
    shared = {name.partition("/share/headrace/")[2] for name in names if "/share/headrace/" in name}
    assert {"systemd/headrace.service", "kubernetes/headrace.yaml", "container/Containerfile"} <= shared


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    read = zipfile.ZipFile(wheel)
    (name,) = [each for each in read.namelist() if each.endswith(".dist-info/METADATA")]
    told = email.message_from_bytes(read.read(name))
    assert told["License-Expression"] == "Apache-2.0"
    assert {"arrow", "console", "spark", "stores", "tracing"} <= set(told.get_all("Provides-Extra") or ())
    assert told["Requires-Python"] == ">=3.11"
    assert "Kafka's semantics" in str(told.get_payload())


def test_the_source_archive_has_all_that_is_needed_to_test_it(archive: Path) -> None:
    with tarfile.open(archive) as read:
        names = {name.partition("/")[2] for name in read.getnames()}
    for needed in ("run", "test", "requirements.lock", "tools/set-up.sh", "LICENSE", "tests/conftest.py"):
        assert needed in names
    assert {"docs/operations.md", "packaging/container/Containerfile", "bench/__main__.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".git/", ".venv"))]


def test_the_same_tree_gives_the_same_bytes(built: Path, archive: Path, tmp_path: Path) -> None:
    """Built again out of the source archive, in another folder, by files with other times."""
    with tarfile.open(archive) as read:
        read.extractall(tmp_path, filter="data")
    tree = tmp_path / archive.name.removesuffix(".tar.gz")
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    again = tmp_path / "again"
    _run(sys.executable, tree / "tools/package.py", again, cwd=tmp_path, SOURCE_DATE_EPOCH=epoch)
    sums = [hashlib.sha256(next(folder.glob("*.whl")).read_bytes()).hexdigest() for folder in (built, again)]
    assert sums[0] == sums[1]
    assert (built / "SHA256SUMS").read_text() == (again / "SHA256SUMS").read_text()


def test_the_bill_of_materials_names_every_locked_package(built: Path) -> None:
    bill = json.loads(next(built.glob("*.cdx.json")).read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = [(each["name"], each["version"]) for each in bill["components"]]
    lock = (ROOT / "requirements.lock").read_text()
    assert named == re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", lock, re.MULTILINE)
    hashes = [
        each["value"] for one in bill["components"] for each in one["properties"] if "sha256" in each["name"]
    ]
    assert sorted(hashes) == sorted(re.findall(r"--hash=sha256:(\w+)", lock))
    assert len({each["bom-ref"] for each in bill["components"]}) == len(named)


@pytest.mark.timeout(600)
def test_it_installs_and_serves(wheel: Path, tmp_path: Path) -> None:
    # This environment's pip, without bytecode: to install pip there, and to compile what nobody runs, takes
    # longer than all the rest.
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh", cwd=tmp_path)
    binaries = tmp_path / "fresh/bin"
    install = [
        "--python",
        binaries / "python",
        "install",
        "-q",
        "--no-compile",
        "--disable-pip-version-check",
    ]
    _run(sys.executable, "-m", "pip", *install, wheel, cwd=tmp_path)
    version = wheel.name.split("-")[1]
    assert _run(binaries / "headrace", "--version", cwd=tmp_path).strip() == f"headrace {version}"
    assert _run(binaries / "python", "-I", "-c", FIRST_STEPS, cwd=tmp_path).strip() == "hello"
    assert (tmp_path / "fresh/share/headrace/systemd/headrace.service").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pipx_uvx_and_the_schema_of_the_bill(built: Path, wheel: Path, tmp_path: Path) -> None:
    """With the tools of others, from PyPI: by a command of its own."""
    _run(sys.executable, "-m", "venv", tmp_path / "tools", cwd=tmp_path)
    tools = tmp_path / "tools/bin"
    needed = ["pipx", "uv", "cyclonedx-python-lib[json-validation]"]
    _run(tools / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *needed, cwd=tmp_path)
    homes = {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_PYTHON": sys.executable,
        "PYTHONPATH": "",
    }
    version = f"headrace {wheel.name.split('-')[1]}"
    _run(tools / "pipx", "install", wheel, cwd=tmp_path, **homes)
    assert _run(tmp_path / "bin/headrace", "--version", cwd=tmp_path, **homes).strip() == version
    words = ["--from", wheel, "headrace", "--version"]
    assert _run(tools / "uvx", *words, cwd=tmp_path, **homes).strip() == version
    bill = next(built.glob("*.cdx.json"))
    assert _run(tools / "python", "-c", CHECK_BILL, bill, cwd=tmp_path).strip() == "None"


CHECK_BILL = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()))
"""
