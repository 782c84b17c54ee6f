"""Apache Kafka's own DumpLogSegments over every file of a data directory: it must read all, and find nothing
wrong.

`python -m tests.compat.dump_check FOLDER` does the same to any folder whose broker has stopped.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from headrace.log.file_names import ABORTED_SEALS
from headrace.log.log_directory import RUNNING
from headrace.raft.committed_mark import COMMITTED
from tests.compat import prepare
from tests.compat.brokers import Broker
from tests.compat.clients.external import Program

SEGMENT_SUFFIXES = frozenset({".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"})
CHECKPOINTS = frozenset(
    {
        "cleaner-offset-checkpoint",
        "leader-epoch-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
)
OTHER_FILES = frozenset(
    {
        "meta.properties",
        "partition.metadata",
        "quorum-state",
        ".lock",
        ".kafka_cleanshutdown",
        RUNNING,
        ABORTED_SEALS,
        COMMITTED,
    }
)

# The tool reads whole entries only and says nothing of a rest.
ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34}

# What the tool prints when it finds fault, beside ending with another code than 0.
FAULTS = re.compile(
    r"isvalid: false|mismatch|not found|out of order|invalid|non-consecutive|failed|corrupt|exception|error",
    re.IGNORECASE,
)


def check_files(broker: Broker) -> None:
    """Stops the broker in order, and has all its files read. A broker that is not ours cannot be checked."""
    broker.stop()
    for folder in broker.folders.values():
        check_folder(folder)


def check_folder(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_leaving(path))
    strangers = [path for path in files if not _is_known(path)]
    assert not strangers, f"Apache Kafka has no such files: {strangers}"
    for path in files:
        if path.name in CHECKPOINTS:
            _check_checkpoint(path)
        size = path.stat().st_size
        assert size % ENTRY_BYTES.get(path.suffix, 1) == 0, f"{path}: {size} bytes are not whole entries"
    dumpable = [path for path in files if path.suffix in SEGMENT_SUFFIXES]
    assert any(path.suffix == ".log" for path in dumpable), f"no log at all in {folder}"
    program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    try:
        for decoder, group in _by_decoder(dumpable).items():
            _dump(program, decoder, group)
    finally:
        program.close()


def _by_decoder(files: Iterable[Path]) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = {}
    for path in files:
        if path.parent.name.startswith("__cluster_metadata-") or path.suffix == ".checkpoint":
            decoder = "--cluster-metadata-decoder"
        elif path.parent.name.startswith("__consumer_offsets-"):
            decoder = "--offsets-decoder"
        elif path.parent.name.startswith("__transaction_state-"):
            decoder = "--transaction-log-decoder"
        else:
            decoder = "--deep-iteration"
        groups.setdefault(decoder, []).append(path)
    return groups


def _dump(program: Program, decoder: str, files: list[Path]) -> None:
    """First everything with its content, then the indexes against their logs."""
    _run(program, files, *sorted({decoder, "--deep-iteration"}))
    indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
    for option in ("--index-sanity-check", "--verify-index-only"):
        if indexes:
            _run(program, indexes, option)


def _run(program: Program, files: list[Path], *options: str) -> None:
    arguments = ["--files", ",".join(map(str, files)), *options]
    done = program.ask("tool", main="org.apache.kafka.tools.DumpLogSegments", arguments=arguments, stdin="")
    said = done["out"] + done["err"]
    faults = [line for line in said.splitlines() if FAULTS.search(line)]
    assert done["code"] == 0, (
        f"DumpLogSegments {' '.join(options)} ended with {done['code']}:\n{said[-4000:]}"
    )
    assert not faults, f"DumpLogSegments {' '.join(options)} found fault:\n" + "\n".join(faults[:20])


def _is_leaving(path: Path) -> bool:
    """In a folder that waits to be removed, and was not closed as others are."""
    return path.parent.name.endswith("-delete")


def _is_known(path: Path) -> bool:
    return path.suffix in SEGMENT_SUFFIXES or path.name in CHECKPOINTS or path.name in OTHER_FILES


def _check_checkpoint(path: Path) -> None:
    """A version, a count, and as many lines of numbers; or nothing at all, if it was never written."""
    if path.stat().st_size == 0:
        return
    version, count, *entries = path.read_text().split("\n")
    assert version == "0", f"{path}: version {version!r}"
    assert entries[-1] == "", f"{path}: does not end with a line break"
    assert len(entries) - 1 == int(count), f"{path}: {count} entries announced, {len(entries) - 1} there"


if __name__ == "__main__":
    check_folder(Path(sys.argv[1]))
    print("nothing wrong")
