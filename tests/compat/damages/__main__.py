"""The command; see the package."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.compat.damages.cluster import ThreeNodes
from tests.compat.damages.harm import KINDS
from tests.compat.damages.single import SingleNode
from tests.compat.damages.verdict import Verdict


def main() -> None:
    options = _parser().parse_args()
    seeds = [seed for part in options.seeds.split(",") for seed in _range(part)]
    with tempfile.TemporaryDirectory(prefix="damages-", ignore_cleanup_errors=True) as folder:
        kept = Path(options.folder or folder)
        world = SingleNode(kept) if options.nodes == 1 else ThreeNodes(kept)
        with world.broker:
            world.prepare()
            count: Counter[tuple[str, Verdict]] = Counter()
            for seed in seeds:
                began = time.monotonic()
                state, harm, outcome = world.play(seed, options.only)
                count[harm.kind, outcome.verdict] += 1
                took = time.monotonic() - began
                print(
                    f"{seed} {state}: {harm}: {outcome.verdict.value}, {outcome.why} ({took:.1f} s)",
                    flush=True,
                )
                for line in outcome.lines[:2] if options.lines else ():
                    print(f"    {line[:400]}", flush=True)
                if outcome.verdict is Verdict.SILENT and options.folder:
                    shutil.copy(world.log, kept / f"seed-{seed}.out")
        _print_table(count)
    sys.exit(any(verdict is Verdict.SILENT for _, verdict in count))


def _range(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.damages")
    parser.add_argument("--seeds", default="1..200", help="A..B, or several with commas")
    parser.add_argument("--only", nargs="*", choices=list(KINDS), help="files of these kinds alone")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="three: one of them is damaged")
    parser.add_argument("--folder", help="keep files and what a node said here")
    parser.add_argument("--lines", action="store_true", help="show what the node said")
    return parser


def _print_table(count: Counter[tuple[str, Verdict]]) -> None:
    print(f"\n| file | {' | '.join(verdict.value for verdict in Verdict)} |\n|---|{'---|' * len(Verdict)}")
    for kind in [*KINDS, ""]:
        row = [
            sum(n for (each, found), n in count.items() if found is verdict and kind in ("", each))
            for verdict in Verdict
        ]
        if any(row):
            print(f"| {kind or 'all'} | {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
