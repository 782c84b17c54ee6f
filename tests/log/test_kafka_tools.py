"""Apache Kafka's DumpLogSegments reads what we write, and finds nothing wrong with it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.records.batch import Record, build_batch
from tests.log.building import NOW_MS, LogBuilder, append, append_marker, batch_of, sequenced

PEERS = Path(os.environ.get("PEERS_HOME") or Path.home() / ".cache" / "peers")
LIBS = PEERS / "kafka" / "4.3.1" / "libs"

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java runtime"),
    pytest.mark.skipif(not LIBS.is_dir(), reason=f"Apache Kafka's jars are not in {LIBS} (set PEERS_HOME)"),
]


def dump(*words):
    done = subprocess.run(
        ["java", "-Xmx256M", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments", *words],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr  # where it says what is wrong with an index


def files(folder, suffix):
    return ",".join(str(path) for path in sorted(folder.glob(f"*{suffix}")))


@pytest.fixture(scope="module", params=["closed", "recovered"])
def folder(request, tmp_path_factory):
    """A partition with everything in it: codecs, producers, transactions, gaps, many segments."""
    root = tmp_path_factory.mktemp("data")
    logs = LogBuilder(SystemDisk(), str(root))
    log = logs.open(segment_bytes=6000, index_interval_bytes=300)
    for i in range(60):
        now_ms = NOW_MS + 10 * i
        rows = [Record(0, now_ms - row, b"key", b"value" * row, (("h", b"x"),)) for row in range(5)]
        append(log, build_batch(rows, codec=i % 5), now_ms=now_ms, leader_epoch=i // 20)
        append(log, sequenced(7, 0, i, timestamp=now_ms), leader_epoch=i // 20)
        append(log, sequenced(8, 2, 2 * i, 2, transactional=True, timestamp=now_ms), leader_epoch=i // 20)
        if i % 3 == 0:
            fields = {"commit": i % 2 == 0, "coordinator_epoch": 4, "timestamp": now_ms}
            append_marker(log, 8, 2, leader_epoch=i // 20, **fields)
    log.append_as_follower(
        batch_of(2, base_offset=log.log_end_offset + 17, leader_epoch=5, timestamp=NOW_MS + 600),
        now_ms=NOW_MS,
    )
    assert len(log.segments) > 3
    if request.param == "recovered":
        log = logs.open(segment_bytes=6000, index_interval_bytes=300)
    log.close().sync()
    return Path(log.folder)


def test_every_batch_is_valid(folder):
    text = dump("--deep-iteration", "--print-data-log", "--files", files(folder, ".log"))
    assert text.count("isvalid: true") == 60 * 3 + 20 + 1
    assert "isvalid: false" not in text
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert len(offsets) == 60 * 8 + 20 + 2
    assert offsets == sorted(offsets)
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert set(re.findall(r"endTxnMarker: (\w+)", text)) == {"COMMIT", "ABORT"}


def test_indexes_agree_with_the_log(folder):
    text = dump("--verify-index-only", "--files", f"{files(folder, '.index')},{files(folder, '.timeindex')}")
    assert not re.search(
        "mismatch|indexed offset|not found|out of order|found timestamp", text, re.IGNORECASE
    )
    text = dump("--index-sanity-check", "--files", f"{files(folder, '.index')},{files(folder, '.timeindex')}")
    assert text.count("passed sanity check") == 2 * len(list(folder.glob("*.index")))


def test_producer_snapshots(folder):
    text = dump("--files", files(folder, ".snapshot"))
    found = re.findall(r"producerId: (\d+) producerEpoch: (\d+).*?coordinatorEpoch: (-?\d+)", text)
    assert set(found) == {("7", "0", "-1"), ("8", "2", "4")}
    assert text.rstrip().endswith("]") or "lastTimestamp" in text


def test_aborted_transactions(folder):
    text = dump("--files", files(folder, ".txnindex"))
    found = re.findall(r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)", text)
    assert len(found) == 10
    assert {(version, producer) for version, producer, _, _ in found} == {("0", "8")}
