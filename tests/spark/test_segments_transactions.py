"""Transactions out of files: aborted records are left out, and undecided ones end what is committed."""

import os
import random
from pathlib import Path

import pytest

from headrace.log.file_names import SNAPSHOT, TXN_INDEX
from headrace.log.transaction_index import ENTRY_BYTES
from headrace.spark.segments import direct
from headrace.spark.segments.direct import read_segments
from headrace.spark.segments.errors import DamagedSegmentError
from tests.log.building import append, append_marker, batch_of, sequenced
from tests.spark.segment_logs import (
    DISK,
    bounds,
    builder,
    log_records,
    manifest_of,
    offsets,
    options,
    plan,
    read,
    write_high_watermark,
)


def random_transactions(logs, rng, *, steps=120, segment_bytes=1500):
    """A log of plain, committed, aborted and open transactions; the offsets that each kind of reader sees."""
    log = logs.open(segment_bytes=segment_bytes, index_interval_bytes=300)
    sequences, opened, aborted = {}, {}, set()
    for _ in range(steps):
        producer = rng.randrange(1, 5)
        choice = rng.random()
        if choice < 0.2:
            append(log, batch_of(rng.randrange(1, 4)))
        elif choice < 0.7 or producer not in opened:
            count = rng.randrange(1, 4)
            first = log.log_end_offset
            append(log, sequenced(producer, 0, sequences.get(producer, 0), count, transactional=True))
            sequences[producer] = sequences.get(producer, 0) + count
            opened.setdefault(producer, []).extend(range(first, first + count))
        else:
            commit = rng.random() < 0.5
            append_marker(log, producer, 0, commit=commit)
            written = opened.pop(producer)
            aborted.update(() if commit else written)
    stable = min((written[0] for written in opened.values()), default=log.log_end_offset)
    seen = [record.offset for record in log_records(log)]
    return log, seen, [each for each in seen if each < stable and each not in aborted], stable


@pytest.mark.parametrize("seed", range(8))
def test_readers_of_committed_records_see_those_and_no_others(tmp_path, seed):
    rng = random.Random(seed)
    logs = builder(tmp_path)
    log, seen, committed, stable = random_transactions(logs, rng)
    end = log.log_end_offset
    assert bounds(options(logs.root)) == (0, end)
    assert offsets(read(options(logs.root))) == seen
    given = options(logs.root, committed=True)
    assert bounds(given) == (0, stable)
    assert offsets(read(given)) == committed
    for _ in range(15):
        first, last = sorted(rng.sample(range(stable + 1), 2))
        assert offsets(read(given, first, last)) == [each for each in committed if first <= each < last]


def test_a_task_that_ends_before_a_transactions_marker_leaves_its_records_out(tmp_path, monkeypatch):
    """The list of aborted transactions that has it lies beside a segment that the task does not read."""
    monkeypatch.setattr(direct, "TASK_BYTES", 600)
    logs = builder(tmp_path)
    log, seen, committed, _ = random_transactions(logs, random.Random(3), segment_bytes=600)
    write_high_watermark(logs.root, log.log_end_offset)
    log.close().sync()
    for given, expected in ((options(logs.root), seen), (options(logs.root, committed=True), committed)):
        tasks = plan(given)
        assert len(tasks) > 10
        found = [
            row["offset"]
            for piece, manifest in tasks
            for batch in read_segments(piece, given, manifest, None, DISK)
            for row in batch.to_pylist()
        ]
        assert found == expected


def test_a_marker_behind_the_high_watermark_has_decided_nothing(tmp_path):
    logs = builder(tmp_path)
    log = logs.open()
    append(log, batch_of(3))
    append(log, sequenced(7, 0, 0, 2, transactional=True))
    append_marker(log, 7, 0, commit=True)
    given = options(logs.root, committed=True)
    assert bounds(given) == (0, 6)
    write_high_watermark(logs.root, 5)
    assert bounds(given) == (0, 3)
    assert offsets(read(given)) == [0, 1, 2]


def aborted_log(logs):
    log = logs.open()
    append(log, batch_of(2))
    append(log, sequenced(7, 0, 0, 3, transactional=True))
    append_marker(log, 7, 0, commit=False)
    append(log, sequenced(7, 0, 3, 2, transactional=True))
    append_marker(log, 7, 0, commit=True)
    return log


@pytest.mark.parametrize("entry", ["whole", "torn", "not copied yet"])
def test_a_copy_whose_list_of_aborted_transactions_is_older_than_its_log(tmp_path, entry):
    logs = builder(tmp_path)
    aborted_log(logs)
    path = Path(logs.folder) / f"{0:020}{TXN_INDEX}"
    assert path.stat().st_size == ENTRY_BYTES
    if entry == "torn":
        os.truncate(path, ENTRY_BYTES - 5)
    elif entry == "not copied yet":
        path.unlink()
    assert offsets(read(options(logs.root, committed=True))) == [0, 1, 6, 7]
    assert offsets(read(options(logs.root))) == [0, 1, 2, 3, 4, 6, 7]


def test_a_compaction_that_took_a_marker_hides_nothing_else(tmp_path):
    """The list was read before the segment was swapped: it names a transaction whose marker is gone."""
    logs = builder(tmp_path)
    log = aborted_log(logs)
    given = options(logs.root, committed=True)
    manifest = manifest_of(given)
    assert [txn.last_offset for txn in manifest.aborted] == [5]
    path = Path(logs.folder) / f"{0:020}.log"
    data = path.read_bytes()
    gone = slice(log.segments.active.locate(2), log.segments.active.locate(6))
    path.write_bytes(data[: gone.start] + data[gone.stop :])
    assert offsets(read(given, manifest=manifest)) == [0, 1, 6, 7]


def test_a_list_that_is_no_list_is_told(tmp_path):
    logs = builder(tmp_path)
    aborted_log(logs)
    path = Path(logs.folder) / f"{0:020}{TXN_INDEX}"
    path.write_bytes(b"\x07" * ENTRY_BYTES)
    with pytest.raises(DamagedSegmentError, match=r"txnindex does not tell"):
        read(options(logs.root, committed=True))
    assert len(read(options(logs.root))) == 7


@pytest.mark.parametrize("state", ["there", "broken", "gone"])
def test_transactions_open_since_an_earlier_segment(tmp_path, state):
    logs = builder(tmp_path)
    log = logs.open(segment_bytes=600)
    append(log, batch_of(4))
    append(log, sequenced(7, 0, 0, 2, transactional=True))
    while len(log.segments) < 4:
        append(log, batch_of(2))
    snapshots = sorted(Path(logs.folder).glob(f"*{SNAPSHOT}"))
    assert snapshots
    for path in snapshots:
        if state == "broken":
            path.write_bytes(b"nothing")
        elif state == "gone":
            path.unlink()
    given = options(logs.root, committed=True)
    assert bounds(given) == (0, 4)
    append_marker(log, 7, 0, commit=True)
    assert bounds(given) == (0, log.log_end_offset)
