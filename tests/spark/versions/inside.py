"""The process in the environment of a version: `python -m tests.spark.versions.inside FOLDER TRIAL …`."""

import argparse
import sys
from pathlib import Path

from tests.spark.versions import lakes, trials


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions.inside")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jars", default="")
    parser.add_argument("trials", nargs="+", metavar="TRIAL")
    options = parser.parse_args()
    known = {**trials.TRIALS, **lakes.LAKE_TRIALS}
    config = lakes.settings(options.jars, options.folder) if options.jars else {}
    trials.run({name: known[name] for name in options.trials}, options.folder, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
