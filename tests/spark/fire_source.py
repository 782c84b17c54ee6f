"""Our source and sink with a trap at every step of a batch, for `tests.spark.fire`.

A trap is a file in a folder: `armed-<step>-<passes>`. Whoever comes to that step, in whichever process,
renames it: to one pass less, or to `sprung` after the last, and then does what the file says: `wait` until
somebody outside has done harm and made `go`, `fail` with an error, or `die` by SIGKILL. A rename succeeds
once, so one task alone is hit, and its retry is not.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from headrace.spark.data_source import HeadraceDataSource
from headrace.spark.options import WriteOptions, read_options, write_options
from headrace.spark.sink.columns import check_columns
from headrace.spark.sink.decision_log import BatchDecision, DecisionLog
from headrace.spark.sink.exactly_once import ExactlyOnce
from headrace.spark.sink.writers import HeadraceStreamWriter
from headrace.spark.stream_reader import HeadraceStreamReader

DRIVER_STEPS = ("latest", "plan", "commit-before", "commit-after", "source-commit")
TASK_STEPS = ("read", "write-before", "write-after")
STEPS = (*DRIVER_STEPS, *TASK_STEPS)
EXACT_STEPS = ("decided", "finishing")
"""Of a commit with delivery=exactly_once: it has decided; it has committed some of the transactions."""
# Whoever waits this long was forgotten.
WAIT_S_MAX = 120.0
FOLDER = "trap.folder"


def arm(folder: Path, step: str, deed: str, passes: int) -> None:
    for name in ("sprung", "go"):
        (folder / name).unlink(missing_ok=True)
    for left in folder.glob("armed-*"):
        left.unlink()
    (folder / f"armed-{step}-{passes}").write_text(deed)


def come_to(folder: Path, step: str) -> None:
    for path in folder.glob(f"armed-{step}-*"):
        passes = int(path.name.rpartition("-")[2])
        into = folder / (f"armed-{step}-{passes - 1}" if passes else "sprung")
        try:
            path.rename(into)
        except FileNotFoundError:  # another process was quicker
            continue
        if not passes:
            _do(folder, into.read_text(), step)


def _do(folder: Path, deed: str, step: str) -> None:
    if deed == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "fail":
        raise RuntimeError(f"a trap at {step}")
    waiting, left = threading.Event(), WAIT_S_MAX
    while not (folder / "go").exists() and left > 0:
        waiting.wait(0.02)
        left -= 0.02
    if left <= 0:
        (folder / "forgotten").touch()


class TrappedSource(HeadraceDataSource):
    """`format("trapped")`: the same options, and the folder of traps."""

    @classmethod
    def name(cls) -> str:
        return "trapped"

    def __init__(self, options: dict[str, str]) -> None:
        self.folder = Path(options[FOLDER])
        super().__init__({name: value for name, value in options.items() if name.lower() != FOLDER})

    def streamReader(self, schema: StructType) -> "TrappedReader":  # noqa: N802
        reader = TrappedReader(read_options(self.options, streaming=True), schema)
        reader.folder = self.folder
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> "TrappedWriter":  # noqa: N802
        return TrappedWriter(write_options(self.options), schema, overwrite, self.folder)


class TrappedReader(HeadraceStreamReader):
    folder: Path

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        come_to(self.folder, "latest")
        return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        come_to(self.folder, "plan")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            come_to(self.folder, "read")

    def commit(self, end: dict[str, Any]) -> None:
        come_to(self.folder, "source-commit")
        super().commit(end)


class TrappedExactlyOnce(ExactlyOnce):
    folder: Path

    def _finish(self, log: DecisionLog, decision: BatchDecision) -> None:
        come_to(self.folder, "decided")
        for each in decision.transactions:
            super()._finish(log, replace(decision, transactions=(each,)))
            come_to(self.folder, "finishing")


class TrappedWriter(HeadraceStreamWriter):
    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool, folder: Path) -> None:
        super().__init__(options, schema, overwrite)
        self.folder = folder
        if options.delivery != "at_least_once":
            strategy = TrappedExactlyOnce(options, check_columns(schema, options.topic))
            strategy.folder = folder
            self._strategy = strategy

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        come_to(self.folder, "write-before")
        message = super().write(iterator)
        come_to(self.folder, "write-after")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        come_to(self.folder, "commit-before")
        super().commit(messages, batchId)
        come_to(self.folder, "commit-after")
