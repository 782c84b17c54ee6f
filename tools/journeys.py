"""Counts six journeys through the code: `python tools/journeys.py [--runs N] [--files]`.

Each is played for real, on brokers in this process, while a profiler notes every call of a function of the
package: the files that were passed in most of the runs, and the median of the calls. The clients that play
them run on other threads and are not counted; of the sink's micro-batch it is the sink itself.
`PYTHONPATH=OTHER/src python tools/journeys.py` counts another checkout; only what users import is used here.
"""

import argparse
import importlib
import inspect
import os
import statistics
import sys
import tempfile
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import headrace
from headrace.clients import Admin, Consumer, Producer
from headrace.testing import Cluster

SOURCES: Final = os.path.dirname(headrace.__file__) + os.sep
WAIT_S: Final = 60.0
# By another name in older checkouts.
NAMES: Final = inspect.signature(Admin.create_topic).parameters
REPLICATION: Final = "replication_factor" if "replication_factor" in NAMES else "replication"


class Trace:
    """The calls of one journey: how many, and into which files."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls = 0
        self.files: set[str] = set()

    def note(self, frame: types.FrameType, event: str, _: Any) -> None:
        """For sys.setprofile."""
        if self.is_on and event == "call":
            path = frame.f_code.co_filename
            if path.startswith(SOURCES):
                self.calls += 1
                self.files.add(path[len(SOURCES) :])

    @contextmanager
    def on(self) -> Iterator[None]:
        self.calls, self.files = 0, set()
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False


class Stage:
    """Brokers whose thread is profiled, and clients that are not."""

    def __init__(self, nodes: int = 1, **settings: str) -> None:
        self.trace = Trace()
        threading.setprofile(self.trace.note)  # for the threads that the brokers start
        self.cluster = Cluster(nodes, {name.replace("_", "."): value for name, value in settings.items()})
        self.cluster.__enter__()
        threading.setprofile(None)  # type: ignore[arg-type]
        self.address = {"bootstrap.servers": self.cluster.bootstrap_servers}

    def close(self) -> None:
        self.cluster.__exit__(None, None, None)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the journey did not come to its end")
        time.sleep(0.005)


def load_kernels() -> None:
    """Compile them first, as a node does soon after its start: they are no part of a journey then."""
    names = ("headrace.records.kernels.choice", "headrace.records.kernel_choice")
    try:
        choice = importlib.import_module(names[0])
    except ModuleNotFoundError:  # an older checkout
        choice = importlib.import_module(names[1])
    choice.load_compiled()


Journey = Callable[[int], Iterator[Trace]]


def produce(runs: int) -> Iterator[Trace]:
    """One record, three replicas, acks=all."""
    stage = Stage(3)
    with Admin(stage.address) as admin:
        admin.create_topic("t", partitions=1, **{REPLICATION: 3})
    with Producer(stage.address, acks="all") as producer:
        for number in range(runs + 5):
            time.sleep(0.05)
            with stage.trace.on():
                producer.send("t", b"value").result()
            if number >= 5:
                yield stage.trace
    stage.close()


def fetch(runs: int) -> Iterator[Trace]:
    """A Fetch that waits is woken by a record, and the next one waits."""
    stage = Stage(1)
    stage.cluster.create_topic("t")
    seen: list[Any] = []

    def read() -> None:
        with Consumer(
            stage.address, group_id="g", auto_offset_reset="earliest", client_id="reader"
        ) as consumer:
            consumer.subscribe(["t"])
            for record in consumer:
                seen.append(record)
                if record.value == b"end":
                    return

    reader = threading.Thread(target=read)
    reader.start()
    with Producer(stage.address, acks="1") as producer:
        producer.send("t", b"first").result()
        until(lambda: bool(seen))
        for _ in range(runs):
            time.sleep(0.05)
            before = len(seen)
            with stage.trace.on():
                producer.send("t", b"value").result()
                until(lambda before=before: len(seen) > before)
            yield stage.trace
        producer.send("t", b"end").result()
    reader.join()
    stage.close()


def heartbeat(runs: int) -> Iterator[Trace]:
    """A member joins a consumer group (KIP-848) and has its partitions."""
    stage = Stage(1)
    stage.cluster.create_topic("t", 3)
    for number in range(runs + 1):
        settings = {"group.id": f"g{number}", "group.protocol": "consumer"}
        with Consumer(stage.address | settings) as consumer:
            consumer.subscribe(["t"])
            with stage.trace.on():
                until(lambda consumer=consumer: not consumer.poll(0.01) and len(consumer.assignment) == 3)
        if number:
            yield stage.trace
    stage.close()


def failover(runs: int) -> Iterator[Trace]:
    """The active controller's node stops, and another one is the active controller."""
    stage = Stage(3)
    with Admin(stage.address) as admin:
        for _ in range(min(runs, 3)):
            leader = admin.describe_quorum().leader_id
            with stage.trace.on():
                stage.cluster.stop_node(leader)
                until(lambda leader=leader: admin.describe_quorum().leader_id != leader)
            yield stage.trace
            stage.cluster.start_node(leader)
    stage.close()


def micro_batch(runs: int) -> Iterator[Trace]:
    """Two tasks' rows through the exactly-once sink, and the commit of their batch."""
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.types import BinaryType, StructField, StructType

    from headrace.spark.data_source import HeadraceDataSource

    stage = Stage(1)
    stage.cluster.create_topic("t", 2)
    options = {"kafka.bootstrap.servers": stage.cluster.bootstrap_servers, "topic": "t"}
    schema = StructType([StructField("value", BinaryType())])
    trace, current = Trace(), TaskContext.get
    for batch in range(runs + 1):
        properties = {
            "streaming.sql.batchId": str(batch),
            "sql.streaming.queryId": "q",
            "spark.jobGroup.id": "r",
        }
        with trace.on():
            sys.setprofile(trace.note)
            messages = []
            for task in range(2):
                context = types.SimpleNamespace(
                    getLocalProperty=properties.get,
                    partitionId=lambda task=task: task,
                    attemptNumber=lambda: 0,
                )
                TaskContext.get = classmethod(lambda _, context=context: context)  # type: ignore
                writer: Any = HeadraceDataSource(options).streamWriter(schema, False)
                messages.append(writer.write(iter([pa.record_batch({"value": [b"1", b"2"]})])))
            writer.commit(messages, batch)
            sys.setprofile(None)
        if batch:
            yield trace
    TaskContext.get = current
    stage.close()


def copy_segment(runs: int) -> Iterator[Trace]:
    """A segment is closed and copied to the remote tier."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(
            1,
            remote_log_storage_system_enable="true",
            rsm_config_url=f"file://{folder}",
            remote_log_manager_task_interval_ms="1000",
            rlmm_config_remote_log_metadata_topic_num_partitions="1",
        )
        settings = {"remote.storage.enable": "true", "internal.segment.bytes": "4096"}
        stage.cluster.create_topic("t", configs=settings)

        def copied() -> int:
            return sum(name.endswith(".log") for _, _, names in os.walk(folder) for name in names)

        with Producer(stage.address) as producer:
            for number in range(runs + 1):
                before = copied()
                with stage.trace.on():
                    while copied() == before:
                        producer.send("t", b"x" * 2000).result()
                        time.sleep(0.2)
                if number:
                    yield stage.trace
        stage.close()


JOURNEYS: Final[dict[str, Journey]] = {
    "produce, acks=all, three replicas": produce,
    "fetch with a long poll": fetch,
    "join by a KIP-848 heartbeat": heartbeat,
    "controller failover": failover,
    "micro-batch, exactly-once sink": micro_batch,
    "segment copied to the remote tier": copy_segment,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--files", action="store_true", help="list the files of each journey")
    parser.add_argument("--only", help="a word of the journey's name")
    arguments = parser.parse_args()
    load_kernels()
    print("| journey | files | calls |\n|---|---|---|", flush=True)
    for name, journey in JOURNEYS.items():
        if arguments.only and arguments.only not in name:
            continue
        found = [(trace.calls, trace.files) for trace in journey(arguments.runs)]
        times = Counter(file for _, files in found for file in files)
        passed = sorted(file for file, count in times.items() if count * 2 > len(found))
        calls = statistics.median(count for count, _ in found)
        print(f"| {name} | {len(passed)} | {calls:.0f} |", flush=True)
        if arguments.files:
            print("\n".join(f"    {file}" for file in passed))


if __name__ == "__main__":
    main()
