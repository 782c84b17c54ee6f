"""What every command pays before it does anything, and what it says last."""

import logging
import re
import subprocess
import sys

from click.testing import CliRunner

from headrace.cli.main import cli


def test_the_version_is_told_and_no_other_command_looks_for_it() -> None:
    script = "import sys; from headrace.cli.main import cli; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    for option in ("-V", "--version"):
        assert re.fullmatch(r"headrace \d+\.\d+.*\n", CliRunner().invoke(cli, [option]).output)


def test_the_package_is_a_program_too() -> None:
    """For those who have several environments, and no command of this one on their PATH."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "-V"], capture_output=True, text=True, check=True
    )
    assert done.stdout == CliRunner().invoke(cli, ["-V"]).output


def test_an_error_is_the_last_line_though_a_thread_writes_the_log() -> None:
    """The handler of a node hands its lines to a thread; `flush` waits until they are written."""
    asked: list[str] = []

    class Slow(logging.Handler):
        def flush(self) -> None:
            asked.append("flush")

    slow = Slow()
    logging.root.addHandler(slow)
    try:
        done = CliRunner().invoke(cli, ["start", "--set", "no.such.setting=1"])
    finally:
        logging.root.removeHandler(slow)
    assert done.exit_code != 0
    assert asked
