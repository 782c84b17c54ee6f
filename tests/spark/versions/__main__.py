"""The command; see the package."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.spark.jvm_options import hurry_jvms
from tests.spark.versions.environments import ROOT, VERSIONS, installed_version, python_with_spark
from tests.spark.versions.lakes import LAKE_TRIALS, jars_for
from tests.spark.versions.table import NO_JAR, ROWS

_CHOOSES_PYTHON = ("PYSPARK", "PYTHON", "SPARK_HOME")


class Outcome(NamedTuple):
    """What a trial found on a version."""

    trial: str
    found: str
    seconds: float


def outcomes(version: str, trials: Sequence[str], jars: str = "") -> Iterator[Outcome]:
    """In a process of the version's environment, as they are found."""
    variables = {name: each for name, each in os.environ.items() if not name.startswith(_CHOOSES_PYTHON)}
    variables["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory(prefix="versions-", ignore_cleanup_errors=True) as folder:
        command = [str(python_with_spark(version)), "-m", "tests.spark.versions.inside", folder]
        command += [*(["--jars", jars] if jars else []), *trials]
        errors = Path(folder, "errors")
        with (
            errors.open("wb") as told,
            subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=told, text=True, env=variables
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                yield Outcome(**json.loads(line))
        if process.returncode:
            said = errors.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"the trials on Spark {version} ended with {process.returncode}:\n{said}")


def try_version(version: str, wanted: Sequence[str]) -> bool:
    """Whether everything was as expected; each outcome is printed."""
    expected = {row.trial: row.found[version] for row in ROWS if row.found[version] != NO_JAR}
    chosen = [name for name in expected if not wanted or name in wanted]
    plain = [name for name in chosen if name not in LAKE_TRIALS]
    lakes = [name for name in chosen if name in LAKE_TRIALS]
    is_right = True
    for names, jars in ((plain, ""), (lakes, jars_for(version) if lakes else "")):
        for each in outcomes(version, names, jars) if names else ():
            told = "" if each.found == expected[each.trial] else f", not {expected[each.trial]!r}"
            is_right &= not told
            print(f"  {each.trial}: {each.found}{told} ({each.seconds} s)", flush=True)
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions")
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help=f"of {', '.join(VERSIONS)}; all if none is given"
    )
    parser.add_argument("--trials", nargs="+", default=[], metavar="TRIAL", help="only these")
    options = parser.parse_args()
    hurry_jvms()
    is_right = True
    for version in options.versions or VERSIONS:
        print(f"Spark {installed_version(python_with_spark(version))}", flush=True)
        is_right &= try_version(version, options.trials)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
