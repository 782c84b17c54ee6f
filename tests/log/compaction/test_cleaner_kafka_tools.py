"""Apache Kafka's DumpLogSegments reads a log that was compacted here, and finds nothing wrong with it."""

import re

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.records.batch import Record, build_batch
from headrace.settings.definition import LONG_MAX
from tests.log.building import NOW_MS, LogBuilder, append, batch_of, sequenced
from tests.log.compaction.keyed_log import SETTINGS, KeyedLog, chunks, clean_log
from tests.log.test_kafka_tools import dump, files, pytestmark  # noqa: F401 - what it needs, this needs

COMPLAINTS = re.compile(r"mismatch|corrupt|invalid|error|exception|does not", re.IGNORECASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Codecs, producers, transactions, delete markers with and without a horizon, merged segments."""
    root = tmp_path_factory.mktemp("data")
    logs = LogBuilder(SystemDisk(), str(root))
    log = logs.open(**SETTINGS, delete_retention_ms=1000)
    writer = KeyedLog(log, 9, keys=40, codecs=(0, 1, 2, 3, 4))
    for number in range(3):
        writer.write(40, now_ms=NOW_MS + 700 * number)
        clean_log(log, now_ms=NOW_MS + 700 * number)
    writer.end_all()
    found = [(header.base_offset, header.record_count) for header, _ in chunks(log)]
    assert any(not count for _, count in found)
    logs.reopen(log, **SETTINGS)
    return root / "events-3", found


def dumped(path):
    """What the tool says of all files, and what of it is a complaint."""
    every = ",".join(files(path, suffix) for suffix in (".log", ".index", ".timeindex", ".txnindex"))
    text = dump("--deep-iteration", "--files", every.replace(",,", ",").strip(","))
    return text, [
        line for line in text.splitlines() if COMPLAINTS.search(line) and "isvalid: true" not in line
    ]


def test_the_dump_of_a_compacted_log_has_no_complaint(folder):
    path, found = folder
    text, told = dumped(path)
    assert not told
    batches = re.findall(
        r"^baseOffset: (\d+) lastOffset: \d+ count: (\d+) .*isvalid: true", text, re.MULTILINE
    )
    assert [(int(base), int(count)) for base, count in batches] == found
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", text)


@pytest.mark.parametrize("how", ["closed", "rebuilt", "recovered"])
def test_nor_where_the_youngest_batch_of_a_segment_has_no_record_left(tmp_path, how):
    """One that ends its group, and a producer's last."""
    logs = LogBuilder(SystemDisk(), str(tmp_path))
    log = logs.open(**{**SETTINGS, "segment_bytes": 4_000})
    for number in range(80):
        row = Record(0, NOW_MS + number, b"key %d" % number, b"v" * 80)
        append(log, build_batch([row]), now_ms=NOW_MS)
        if number % 20 == 19:
            if number == 39:
                append(log, sequenced(7, 0, 0, timestamp=NOW_MS + 100))
            else:
                append(log, batch_of(timestamp=NOW_MS + number + 1))
            log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    empty = [header for header, _ in chunks(log) if not header.record_count]
    assert {header.producer_id for header in empty} == {-1, 7}
    logs.reopen(log, **SETTINGS)
    if how == "rebuilt":
        for path in tmp_path.glob("*/*.timeindex"):
            path.unlink()
    again = logs.open(clean=how != "recovered", **SETTINGS)
    for segment in again.segments:
        segment.time_index()
    logs.reopen(again, **SETTINGS)
    assert dumped(tmp_path / "events-3")[1] == []


def test_nor_where_delete_markers_stay_for_ever(tmp_path):
    settings = {**SETTINGS, "delete_retention_ms": LONG_MAX}
    logs = LogBuilder(SystemDisk(), str(tmp_path))
    log = logs.open(**settings)
    for codec in range(5):
        row = Record(0, NOW_MS + codec, b"key %d" % codec, None)
        append(log, build_batch([row], codec=codec), now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    logs.reopen(log, **settings)
    text, told = dumped(tmp_path / "events-3")
    assert told == []
    assert len(re.findall(r"deleteHorizonMs: OptionalLong\[\d+\]", text)) == 5
    assert [int(time) for time in re.findall(r"offset: \d CreateTime: (\d+)", text)] == [
        *range(NOW_MS, NOW_MS + 5)
    ]
