"""Apache Kafka's own DumpLogSegments reads a segment file of our batches, to the last record."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.records.batch import (
    Codec,
    ControlType,
    Record,
    build_batch,
    build_txn_marker,
    read_header,
    stamp,
)
from headrace.records.validate import ValidationRules, validate_produced

VERSION = "4.3.1"
PEERS = Path(os.environ.get("PEERS_HOME") or Path.home() / ".cache" / "peers")
LIBS = PEERS / "kafka" / VERSION / "libs"
START_MS = 1_700_000_000_000

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("java") is None, reason="no java on the PATH"),
    pytest.mark.skipif(not LIBS.is_dir(), reason=f"Apache Kafka's jars are not in {LIBS} (set PEERS_HOME)"),
]


def varied_batches() -> list[bytearray]:
    """Every codec, every kind of batch; offsets go on from one to the next."""
    rows = [Record(0, START_MS + n, b"key%d" % n, b"value%d" % n * n, ((f"h{n}", b"x"),)) for n in range(50)]
    made = [build_batch(rows, codec=codec) for codec in Codec]
    made += [build_batch([Record(0, START_MS, None, None)])]
    made += [build_batch(rows, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)]
    made += [
        build_txn_marker(
            commit=commit, producer_id=7, producer_epoch=1, coordinator_epoch=2, timestamp_ms=START_MS
        )
        for commit in (True, False)
    ]
    for kept in Codec:
        rules = ValidationRules(codec=kept, log_append_time=kept == Codec.GZIP)
        produced = validate_produced(build_batch(rows), rules=rules, now_ms=START_MS, api_version=9)
        made.append(bytearray(produced.buffer))
    made.append(build_batch([Record(0, START_MS, b"k")], delete_horizon_ms=START_MS + 5))
    return made


def write_segment(folder: Path) -> tuple[Path, list[bytearray]]:
    path = folder / "00000000000000000000.log"
    made = varied_batches()
    offset = 0
    for batch in made:
        stamp(batch, 0, base_offset=offset, leader_epoch=6)
        offset = read_header(batch).next_offset
    path.write_bytes(b"".join(made))
    return path, made


def dump(path: Path) -> str:
    command = ["java", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log", "--files", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout


def test_dump_log_segments_reads_ours(tmp_path: Path) -> None:
    path, made = write_segment(tmp_path)
    text = dump(path)
    headers = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert len(headers) == len(made)
    for line, batch in zip(headers, made, strict=True):
        header = read_header(batch)
        fields = dict(re.findall(r"(\w+): ?(\S+)", line))
        assert fields["isvalid"] == "true", line
        assert int(fields["baseOffset"]) == header.base_offset
        assert int(fields["lastOffset"]) == header.last_offset
        assert int(fields["count"]) == header.record_count
        assert int(fields["partitionLeaderEpoch"]) == 6
        assert int(fields["crc"]) == header.crc
        assert fields["isControl"] == str(header.is_control).lower()
        assert fields["compresscodec"] == Codec(header.codec).name.lower()
    records = [line for line in text.splitlines() if line.startswith("| offset:")]
    assert len(records) == sum(read_header(batch).record_count for batch in made)
    assert sum("payload: value49" in line for line in records) == 6 + len(Codec)
    assert sum(f"endTxnMarker: {name}" in text for name in (ControlType.COMMIT.name, "ABORT")) == 2
