"""`headrace start`, up to the node: settings are checked first, and one that is wrong is named."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli


def start(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["start", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--nodes", "0"), 2, "0 is not in the range"),
        (("--nodes", "3", "--set", "num.partition=3"), 1, "did you mean num.partitions?"),
        (("--set", "num.partitions"), 2, "'num.partitions' is not NAME=VALUE"),
        (
            ("--set", "num.partition=3"),
            1,
            "num.partition: there is no broker setting of this name; did you mean num.partitions?",
        ),
        (("--set", "num.partitions=many"), 1, "num.partitions: 'many' is not a whole number"),
        (
            ("--set", "log.segment.bytes=5"),
            1,
            "log.segment.bytes: '5' is not allowed: it must be at least 1048576",
        ),
        (("--config", "/nowhere/x.properties"), 1, "/nowhere/x.properties: No such file or directory"),
        (("--port", "70000"), 2, "70000 is not in the range"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], code: int, said: str) -> None:
    found, output = start(*words)
    assert found == code
    assert said in output
    assert "Traceback" not in output


def test_a_file_with_a_slip(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nlog.retention.hour=5\n")
    code, output = start("--config", str(file))
    assert (code, "log.retention.hour: " in output, "log.retention.hours?" in output) == (1, True, True)


def test_starting_imports_neither_clients_nor_rich_nor_numba() -> None:
    program = "import sys, headrace.cli.main, headrace.cli.start; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "rich",
        "numba",
        "numpy",
        "asyncio",
        "cramjam",
        "headrace.clients.cluster_client",
        "headrace.wire.codec",
    }
    assert not heavy & set(modules)
