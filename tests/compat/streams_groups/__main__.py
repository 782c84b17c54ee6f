"""The command; see the package."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.compat import brokers
from tests.compat.cluster import HeadraceCluster
from tests.compat.streams_groups import __doc__ as purpose
from tests.compat.streams_groups.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.streams_groups",
        description=purpose,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument(
        "--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2"
    )
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--broker", choices=["headrace", "kafka"], default="headrace")
    parser.add_argument("--folder", type=Path, help="keep logs and files here")
    options = parser.parse_args()
    if options.broker == "kafka" and options.nodes > 1:
        parser.error("--nodes is for headrace alone")
    os.environ["COMPAT_BROKER"] = options.broker
    plan = Plan(
        options.guarantee, options.seed, seconds=round(options.minutes * 60), instances=options.instances
    )
    with tempfile.TemporaryDirectory(prefix="streams-", ignore_cleanup_errors=True) as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty: choose another --folder")
        with broker_of(options.nodes, folder, plan) as broker:
            broker.start()
            print(f"{options.broker} at {broker.bootstrap}, seed {options.seed}", flush=True)
            outcome = run(broker, plan, folder, say=lambda line: print(line, flush=True))
            broker.stop()
    print(outcome, flush=True)
    return 1 if outcome.violations else 0


def broker_of(nodes: int, folder: Path, plan: Plan) -> brokers.Broker:
    if nodes > 1:
        return HeadraceCluster(folder / "data", plan.settings, count=nodes)
    return brokers.under_test(folder, plan.settings)


if __name__ == "__main__":
    sys.exit(main())
