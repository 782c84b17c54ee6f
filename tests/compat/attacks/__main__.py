"""The command; see the package."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.compat.attacks.attackers import ATTACKS, QUICK, Attack, Sizes, Target
from tests.compat.attacks.stored import Stored
from tests.compat.attacks.victim import TOPIC, Answerer, Victim, Waits
from tests.compat.attacks.wire import let_pass
from tests.compat.brokers import ApacheKafkaBroker, Broker, HeadraceBroker

BROKERS = {"headrace": HeadraceBroker, "kafka": ApacheKafkaBroker}
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = _parser().parse_args()
    too_long: list[str] = []
    for name in options.brokers:
        with (
            tempfile.TemporaryDirectory(prefix="attacks-", ignore_cleanup_errors=True) as folder,
            BROKERS[name](Path(folder) / "data", {"auto.create.topics.enable": "false"}) as broker,
        ):
            broker.start()
            found = _play(broker, name, options.only or list(ATTACKS), QUICK if options.quick else Sizes())
            too_long += [f"{name}: {each}" for each in found]
    if too_long:
        sys.exit("waited too long:\n" + "\n".join(too_long))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.attacks")
    parser.add_argument("--only", nargs="*", choices=list(ATTACKS), help="these attacks alone")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--brokers", nargs="*", choices=list(BROKERS), default=["headrace"])
    return parser


def _play(broker: Broker, name: str, attacks: list[str], sizes: Sizes) -> list[str]:
    """Attack it; gives the rows in which the polite client waited too long."""
    target = Target(broker.bootstrap, Stored(broker.bootstrap), sizes)
    target.stored.topic(TOPIC)
    print(
        f"\n| {name} | requests | victim median ms | max ms | machine max ms | no answer | CPU s "
        "| ms/request | took s | MiB before | after |\n|---|---|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    let_pass(sizes.settle_seconds)  # what a node loads after its start
    too_long = []
    with Answerer() as answerer:
        for attack in attacks:
            row, waits = _row(broker, target, attack, ATTACKS[attack], answerer.bootstrap)
            print(row, flush=True)
            if waits.median > ATTACKS[attack].median_ms_max or waits.largest > ATTACKS[attack].ms_max:
                too_long.append(f"{attack}: {waits.median:.1f} ms at the median, {waits.largest:.0f} at most")
    return too_long


def _row(broker: Broker, target: Target, name: str, attack: Attack, answerer: str) -> tuple[str, Waits]:
    attack.prepare(target)
    victim, other = Victim(target.bootstrap, attack.victim_bytes), Victim(answerer, attack.victim_bytes)
    let_pass(target.sizes.settle_seconds)
    memory, cpu, began = _memory_mib(broker.pid), _cpu_seconds(broker.pid), time.monotonic()
    victim.start()
    other.start()
    answered = attack.run(target)
    waits, others_waits = victim.stop(), other.stop()
    cpu, took = _cpu_seconds(broker.pid) - cpu, time.monotonic() - began
    victim.end()
    other.end()
    let_pass(target.sizes.settle_seconds)
    each = f"{cpu * 1000 / answered:.1f}" if answered else ""
    columns = (
        *(name, answered or "", f"{waits.median:.1f}", f"{waits.largest:.0f}"),
        *(f"{others_waits.largest:.0f}", waits.failures or "", f"{cpu:.1f}", each, f"{took:.1f}"),
        *(f"{memory:.0f}", f"{_memory_mib(broker.pid):.0f}"),
    )
    return f"| {' | '.join(map(str, columns))} |", waits


def _memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
