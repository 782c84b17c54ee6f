"""python -m tests.spark.fire [--restarts 20] [--delivery exactly_once] [--broker kafka] [--speculation]
[--seed N]: harm a streaming query in every way, and miss nothing.

Records go into one feed, and a query copies them to another. Each round adds records, sets a trap at one
step of a batch (`fire_source`) and starts the query again:

    driver   the whole Spark program is killed while it stands at that step
    broker   the broker is killed there, and started again
    worker   the Python process that comes there is killed
    task     what comes there fails, and Spark tries it again or gives the query up
    twin     what comes there stands still, and Spark starts a second attempt beside it; only with
             --speculation, for which a Spark cluster is started (`fire_cluster`)

Every kind and every step has its turn, in an order that the seed decides. In the end the query runs in
peace, and every acknowledged record must be in the output: once, as a reader of committed records sees it,
or at least once where that was asked for.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headrace.clients import Admin, Producer
from tests.compat.brokers import Broker, under_test
from tests.compat.clients.face import eventually
from tests.spark.fire_cluster import TwoHosts
from tests.spark.fire_source import EXACT_STEPS, STEPS, TASK_STEPS, arm
from tests.spark.whole_topics import whole_topic

ROOT = Path(__file__).resolve().parents[2]
RECORDS_A_ROUND = 90
PARTITIONS = 3
# A JVM starts in ten seconds; nine others at once on two cores take longer.
PATIENCE_S = 240.0
KINDS = ("driver", "broker", "worker", "task")
TWIN = "twin"
LOCAL = "local[2,4]"
EXACTLY_ONCE = "exactly_once"


class Job:
    """The Spark program, and all the processes below it."""

    def __init__(self, plan: dict[str, str], log: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.fire_job", json.dumps(plan)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._wait(lambda: "ready" in self._said, "Spark")
        self._said.clear()

    def begin(self) -> None:
        self._said.clear()
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def how_it_ended(self) -> str | None:
        """What the program said about its last query, once it is over."""
        return self._said[0] if self._said else None

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Until it is so, or the query is over."""
        self._wait(lambda: is_so() or bool(self._said), "the query")

    def kill(self) -> None:
        """What a power cut is to it: everything at once, nothing said."""
        pids = [self._process.pid, *_below(self._process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._listener.join()

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        def is_so_or_dead() -> bool:
            if is_so():
                return True
            assert self._process.poll() is None, f"the Spark program ended with {self._process.poll()}"
            return False

        eventually(is_so_or_dead, what, PATIENCE_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line.strip())


def _below(root: int) -> list[int]:
    """All processes below one, as they are now."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [each for each, parent in parents.items() if parent == pid]
    return found[1:]


class Fire:
    """One run: a broker, a query, and harm."""

    def __init__(
        self, folder: Path, broker: Broker, delivery: str, master: str, tell: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._broker = broker
        self._tell = tell
        self._traps = folder / "traps"
        self._traps.mkdir()
        self._written = 0
        self._job: Job | None = None
        self._plan = {
            "bootstrap": broker.bootstrap,
            "traps": str(self._traps),
            "checkpoint": str(folder / "checkpoint"),
            "in": "in",
            "out": "out",
            "delivery": delivery,
            "master": master,
        }
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            for topic in ("in", "out"):
                admin.create_topic(topic, partitions=PARTITIONS)

    def round(self, kind: str, step: str, passes: int) -> None:
        """More records, a trap, the query, and what the trap does to it."""
        self._produce()
        deed = {"worker": "die", "task": "fail"}.get(kind, "wait")
        arm(self._traps, step, deed, passes)
        job = self._job = self._job or Job(self._plan, self._folder / "spark.log")
        job.begin()
        job.wait_for((self._traps / "sprung").exists)
        is_sprung = (self._traps / "sprung").exists()
        if is_sprung and kind == "driver":
            job.kill()
            self._job = None
        elif is_sprung and kind == "broker":
            self._broker.kill()
            (self._traps / "go").touch()
            self._broker.start()
        if self._job is not None:
            job.wait_for(lambda: False)
        (self._traps / "go").touch()  # a twin that was left standing
        assert not (self._traps / "forgotten").exists(), f"{kind} at {step}: nobody took its place"
        self._tell(f"{kind:7} at {step:14} {self._ending(is_sprung)}")

    def _ending(self, is_sprung: bool) -> str:
        if not is_sprung:
            return "was not reached"
        said = "killed" if self._job is None else str(self._job.how_it_ended)
        return said[:100]

    def finish(self) -> Counter[int]:
        """The query in peace, to its end; how often each record came out."""
        for path in self._traps.iterdir():
            path.unlink()
        self._produce()
        job = self._job = self._job or Job(self._plan, self._folder / "spark.log")
        job.begin()
        job.wait_for(lambda: False)
        assert job.how_it_ended == "ended", job.how_it_ended
        return self._came_out()

    def close(self) -> None:
        if self._job is not None:
            self._job.kill()

    def missing(self, came: Counter[int]) -> list[int]:
        strange = [number for number in came if not 0 <= number < self._written]
        assert not strange, f"nobody wrote {strange[:10]}"
        return [number for number in range(self._written) if number not in came]

    def _produce(self) -> None:
        with Producer(bootstrap_servers=self._broker.bootstrap) as producer:
            sent = [
                producer.send("in", str(number).encode(), key=str(number % 17).encode())
                for number in range(self._written, self._written + RECORDS_A_ROUND)
            ]
            producer.flush()
            for each in sent:
                each.result(60)
        self._written += RECORDS_A_ROUND

    def _came_out(self) -> Counter[int]:
        return Counter(int(record.value or b"") for record in whole_topic(self._broker.bootstrap, "out"))


def harms(
    rng: random.Random, count: int, delivery: str, kinds: Sequence[str] = KINDS
) -> list[tuple[str, str, int]]:
    """(kind, step, how often the step is passed before): each kind and step in turn, then by chance."""
    steps = (*STEPS, *EXACT_STEPS) if delivery == EXACTLY_ONCE else STEPS
    every = [("driver", step) for step in steps] + [("broker", step) for step in steps]
    every += [("worker", step) for step in TASK_STEPS] + [("task", step) for step in steps]
    every += [(TWIN, step) for step in TASK_STEPS]
    every = [(kind, step) for kind, step in every if kind in kinds]
    rng.shuffle(every)
    chosen = [every[number % len(every)] for number in range(count)]
    return [(kind, step, rng.randrange(2)) for kind, step in chosen]


def run(
    chosen: list[tuple[str, str, int]],
    delivery: str,
    tell: Callable[[str], None],
    *,
    speculation: bool = False,
) -> None:
    """All of these, one after the other; AssertionError where a record is missing in the end, or doubled."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-fire-")))
        broker = stack.enter_context(under_test(folder))
        broker.start()
        master = stack.enter_context(TwoHosts(folder)).master if speculation else LOCAL
        fire = Fire(folder, broker, delivery, master, tell)
        try:
            for number, harm in enumerate(chosen, 1):
                tell(f"{number}/{len(chosen)}")
                fire.round(*harm)
            came = fire.finish()
        finally:
            fire.close()
        missing = fire.missing(came)
        again = came.total() - len(came)
        tell(f"{len(came)} records came out, {again} of them again, {len(missing)} missing")
        assert not missing, f"missing: {missing[:20]}"
        assert not again or delivery != EXACTLY_ONCE, f"doubled: {came.most_common(20)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.fire", description=__doc__)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--delivery", choices=(EXACTLY_ONCE, "at_least_once"), default=EXACTLY_ONCE)
    parser.add_argument("--broker", choices=("headrace", "kafka"), default="headrace")
    parser.add_argument("--speculation", action="store_true", help="slow attempts get a twin beside them")
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, TWIN), help="only harm of these kinds")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    os.environ["COMPAT_BROKER"] = options.broker
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    print(f"seed {seed} (--seed {seed} does the same again)", flush=True)
    began = time.monotonic()

    def tell(text: Any) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    kinds = options.kinds or ((*KINDS, TWIN) if options.speculation else KINDS)
    chosen = harms(random.Random(seed), options.restarts, options.delivery, kinds)
    run(chosen, options.delivery, tell, speculation=options.speculation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
