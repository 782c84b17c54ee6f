"""Apache Kafka's DumpLogSegments reads a log that was compacted here, and finds nothing wrong with it."""

import re

import pytest

from headrace.log.system_disk import SystemDisk
from tests.log.building import NOW_MS, LogBuilder
from tests.log.cleaning import SETTINGS, KeyedLog, chunks, clean_log
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


def test_the_dump_of_a_compacted_log_has_no_complaint(folder):
    path, found = folder
    every = ",".join(files(path, suffix) for suffix in (".log", ".index", ".timeindex", ".txnindex"))
    text = dump("--deep-iteration", "--files", every.replace(",,", ",").strip(","))
    told = [line for line in text.splitlines() if COMPLAINTS.search(line) and "isvalid: true" not in line]
    assert not told
    batches = re.findall(
        r"^baseOffset: (\d+) lastOffset: \d+ count: (\d+) .*isvalid: true", text, re.MULTILINE
    )
    assert [(int(base), int(count)) for base, count in batches] == found
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", text)
