"""The long form on the command line; see the package."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.compat import brokers
from tests.compat.mixed_groups.roster import BROKER_SETTINGS, company
from tests.compat.mixed_groups.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.mixed_groups")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--broker", choices=["headrace", "kafka"], default="headrace")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--records-per-second", type=int, default=400)
    parser.add_argument("--without", nargs="*", default=[], choices=["java", "golang", "nodejs"])
    parser.add_argument("--folder", type=Path, help="keep logs and events here")
    options = parser.parse_args()
    os.environ["COMPAT_BROKER"] = options.broker
    seats = company(options.members, without=frozenset(options.without))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty: choose another --folder")
        with brokers.under_test(folder, BROKER_SETTINGS) as broker:
            broker.start()
            print(f"{options.broker} at {broker.bootstrap}, seed {options.seed}", flush=True)
            outcome = run(
                broker,
                seats,
                folder,
                seconds=options.minutes * 60,
                seed=options.seed,
                records_per_second=options.records_per_second,
                say=lambda line: print(line, flush=True),
            )
            broker.stop()
    print(outcome)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
