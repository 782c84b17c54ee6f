"""The command; see the package."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.compat.faults import hosts
from tests.spark.clusters.cases import CASES, Trial


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.clusters")
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all if none is given"
    )
    parser.add_argument("--folder", type=Path, help="keep logs and files here")
    parser.add_argument(hosts.ENTER, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    if not options.inside:
        if hosts.are_possible():
            command = [sys.executable, "-m", "tests.spark.clusters", *sys.argv[1:]]
            os.execvp("unshare", hosts.inside(command))
        print("workers have loopback addresses: hosts of their own need Linux and root", flush=True)
    with tempfile.TemporaryDirectory(prefix="clusters-", ignore_cleanup_errors=True) as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder, options.cases or list(CASES), hosts.Hosts(2) if options.inside else None)
    return 0


def _run(folder: Path, names: list[str], network: hosts.Hosts | None) -> None:
    since_s = time.monotonic()
    with Trial(folder, network) as trial:
        print(f"a cluster is up after {time.monotonic() - since_s:.0f} s", flush=True)
        for name in names:
            since_s = time.monotonic()
            CASES[name](trial)
            print(f"{name}: right, {time.monotonic() - since_s:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
