"""The command; see the package."""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.compat.faults import hosts, schedule
from tests.compat.faults.readers import ConfluentReader
from tests.compat.faults.run import Plan, run
from tests.compat.faults.topic import NODES


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if options.folder and options.folder.exists() and any(options.folder.iterdir()):
        parser.error(f"{options.folder} is not empty: choose another --folder")
    if options.secure and options.transactions:
        parser.error("--secure goes with records, not with --transactions")
    kinds = set(options.only or schedule.EVERYTHING)
    needs_hosts = not kinds.isdisjoint(schedule.CUTS | schedule.DISKS)
    if needs_hosts and not options.inside:
        if hosts.are_possible():
            sys.stdout.flush()
            command = [
                sys.executable,
                "-m",
                "tests.compat.faults",
                *sys.argv[1:],
                "--seed",
                str(options.seed),
            ]
            os.execvp("unshare", hosts.inside(command))
        kinds &= set(schedule.PROCESSES)
        print("left out: cuts of the network and full disks, which need Linux and root", flush=True)
    plan = Plan(
        options.seed,
        options.minutes * 60,
        kinds,
        options.records_per_second,
        options.rounds,
        options.transactions,
        options.secure,
    )
    print(f"up to {options.minutes:g} minutes with --seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=folder / "clients.log", format="%(asctime)s %(name)s %(message)s")
        if options.librdkafka_debug:
            ConfluentReader.debug = options.librdkafka_debug
            logging.getLogger("librdkafka").setLevel(logging.DEBUG)
        network = hosts.Hosts(NODES) if options.inside else None
        outcome = run(plan, folder, network, say=lambda line: print(line, flush=True))
        if outcome.violations and options.folder and network:
            # What lies on a tmpfs of this namespace ends with it.
            shutil.copytree(folder / "nodes", folder / "kept")
    print(outcome, flush=True)
    return 1 if outcome.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.faults")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, help="no more than these, however short")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--only", nargs="*", choices=sorted(schedule.EVERYTHING), help="these faults alone")
    parser.add_argument(
        "--transactions", action="store_true", help="transactional producers, and their rules"
    )
    parser.add_argument(
        "--secure", action="store_true", help="SASL_SSL everywhere, and keys and passwords that change"
    )
    parser.add_argument("--records-per-second", type=float, default=150.0, help="of each producer")
    parser.add_argument("--folder", type=Path, help="keep logs and files here")
    parser.add_argument(
        "--librdkafka-debug", metavar="KINDS", help="what its reader tells clients.log: fetch,topic,broker"
    )
    parser.add_argument(hosts.ENTER, action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
