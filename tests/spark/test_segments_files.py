"""Rows out of a partition's files: all codecs, useless indexes, gaps, tails that are half written."""

import itertools
import os
import random
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log.file_names import INDEX, LOG
from headrace.records.batch import Record, build_batch
from headrace.records.codecs import Codec
from headrace.records.validate import validate_produced
from headrace.spark.data_loss import LostDataError
from headrace.spark.option_values import OptionError
from headrace.spark.ranges import OffsetRange, TimeWindow
from headrace.spark.segments import rows as segment_rows
from headrace.spark.segments.direct import read_segments
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError
from headrace.spark.segments.rows import PartitionRows
from tests.log.building import NOW_MS, TP, append, batch_of
from tests.spark.segment_logs import (
    DISK,
    bounds,
    builder,
    log_records,
    manifest_of,
    offsets,
    options,
    read,
    write_high_watermark,
)


def append_checked(log, batch):
    """Append a batch that unpacks to so much that a node has it checked by a thread."""
    produced = validate_produced(batch, rules=log.rules, now_ms=NOW_MS, api_version=13, at_once=False)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, produced=produced)


CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def random_log(logs, rng, *, batches=60, segment_bytes=3000):
    """Batches of all codecs and sizes over many segments."""
    log = logs.open(segment_bytes=segment_bytes, index_interval_bytes=200)
    for _ in range(batches):
        records = [
            Record(
                timestamp=NOW_MS + rng.randrange(10_000),
                key=rng.choice([None, b"", rng.randbytes(5)]),
                value=rng.choice([None, b"", rng.randbytes(rng.randrange(80))]),
                headers=(("h", b"1"), ("h", None)) if rng.random() < 0.3 else (),
            )
            for _ in range(rng.randrange(1, 12))
        ]
        append(log, build_batch(records, codec=rng.choice(CODECS)))
    return log


def expected(record):
    return {
        "key": record.key,
        "value": record.value,
        "topic": TP.topic,
        "partition": TP.partition,
        "offset": record.offset,
        "timestampType": 0,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def plain(rows):
    """Rows without their time, which is compared apart."""
    return [{name: value for name, value in row.items() if name != "timestamp"} for row in rows]


def close(log):
    flush = log.close()
    if flush is not None:
        flush.sync()


@pytest.mark.parametrize("seed", range(6))
def test_any_range_is_what_the_log_holds(tmp_path, seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(segment_rows, "CHUNK_BYTES", rng.choice([200, 1000, 1 << 20]))
    logs = builder(tmp_path)
    log = random_log(logs, rng)
    if rng.random() < 0.5:
        close(log)  # else the active segment's index is still in memory
    records = log_records(log)
    given = options(logs.root, includeHeaders="true")
    assert bounds(given) == (0, len(records))
    every = read(given)
    assert plain(every) == [expected(record) for record in records]
    assert [row["timestamp"].timestamp() for row in every] == [record.timestamp / 1000 for record in records]
    for _ in range(20):
        start, end = sorted(rng.sample(range(len(records) + 1), 2))
        assert read(given, start, end) == every[start:end]


def test_only_the_wanted_columns_are_there_whatever_cuts_the_rows(tmp_path):
    logs = builder(tmp_path)
    append(logs.open(), batch_of(10))
    given = options(logs.root, columns="value,key")
    assert read(given, 3, 5) == [{"value": b"v" * 10, "key": b"k3"}, {"value": b"v" * 10, "key": b"k4"}]
    window = TimeWindow((NOW_MS + 7) * 1000, (NOW_MS + 8) * 1000)
    assert [row["key"] for row in read(given, window=window)] == [b"k7", b"k8"]


def test_large_batches_grow_the_buffer_and_many_rows_come_in_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_rows, "CHUNK_BYTES", 100)
    logs = builder(tmp_path)
    log = logs.open()
    append(log, batch_of(3, value=b"x" * 50_000))
    append(log, batch_of(5))
    assert offsets(read(options(logs.root))) == list(range(8))


def test_a_batch_that_unpacks_to_more_than_others_is_read_all_the_same(tmp_path):
    logs = builder(tmp_path)
    log = logs.open(max_message_bytes=4 << 20)
    append(log, batch_of(2))
    value = random.Random(1).randbytes(1 << 20) * 20
    append_checked(log, build_batch([Record(timestamp=NOW_MS, value=value)], codec=Codec.ZSTD))
    append(log, batch_of(2, codec=Codec.ZSTD))
    found = read(options(logs.root))
    assert offsets(found) == list(range(5))
    assert found[2]["value"] == value


def test_memory_stays_bounded_on_a_log_many_times_its_size(tmp_path):
    logs = builder(tmp_path)
    log = logs.open(max_message_bytes=4 << 20)
    for number in range(40):
        noise = random.Random(number).randbytes(50_000)
        records = [Record(timestamp=NOW_MS, value=noise) for _ in range(80)]
        append_checked(log, build_batch(records, codec=Codec.ZSTD))
    given = options(logs.root, columns="value")
    manifest = manifest_of(given)
    before, seen, most = pa.total_allocated_bytes(), 0, 0
    for batch in read_segments(OffsetRange(*TP, 0, manifest.bound), given, manifest):
        seen += batch.nbytes
        most = max(most, pa.total_allocated_bytes() - before)
    assert seen > 160_000_000
    assert most < 50_000_000


# -- indexes -------------------------------------------------------------------------------------------------


def filled(logs, count=200, **settings):
    log = logs.open(index_interval_bytes=100, **settings)
    for _ in range(count):
        append(log, batch_of(2))
    return log


@pytest.mark.parametrize("damage", ["missing", "half an entry", "other log", "reserved", "nonsense"])
def test_an_index_that_does_not_help_is_not_needed(tmp_path, damage):
    logs = builder(tmp_path)
    close(filled(logs))
    path = Path(logs.folder) / f"{0:020}{INDEX}"
    data = path.read_bytes()
    assert len(data) > 80, "else there is nothing to be misled by"
    match damage:
        case "missing":
            path.unlink()
        case "half an entry":
            path.write_bytes(data[:-3])
        case "other log":
            path.write_bytes(b"".join(data[at : at + 4] + b"\0\0\1\7" for at in range(0, len(data), 8)))
        case "reserved":  # as Apache Kafka leaves it while the segment is active
            path.write_bytes(data + bytes(10 << 10))
        case "nonsense":
            path.write_bytes(random.Random(1).randbytes(len(data)))
    given = options(logs.root)
    assert bounds(given) == (0, 400)
    for start in (0, 1, 77, 250, 398):
        assert offsets(read(given, start, start + 2)) == [start, start + 1]


def test_seeking_by_the_index_reads_little(tmp_path):
    logs = builder(tmp_path)
    close(filled(logs))
    given = options(logs.root)
    manifest = manifest_of(given)
    log_path = Path(logs.folder) / f"{0:020}{LOG}"
    with log_path.open("r+b") as file:  # batches before the one that is sought are not looked at
        file.seek(5)
        file.write(b"\xff" * 300)
    assert offsets(read(given, 380, 400, manifest=manifest)) == list(range(380, 400))


# -- the end -------------------------------------------------------------------------------------------------


def tail_file(logs):
    names = sorted(name for name in os.listdir(logs.folder) if name.endswith(LOG))
    return Path(logs.folder) / names[-1]


@pytest.mark.parametrize("cut", [1, 40, 70])
def test_a_torn_last_batch_ends_the_log(tmp_path, cut):
    logs = builder(tmp_path)
    filled(logs, 10)
    path = tail_file(logs)
    os.truncate(path, path.stat().st_size - cut)
    given = options(logs.root)
    assert bounds(given) == (0, 18)
    assert offsets(read(given)) == list(range(18))
    write_high_watermark(logs.root, 20)
    assert bounds(given) == (0, 18)


def test_room_reserved_behind_the_last_batch_is_not_data(tmp_path):
    logs = builder(tmp_path)
    filled(logs, 10)
    with tail_file(logs).open("ab") as file:
        file.write(bytes(4096))
    given = options(logs.root)
    assert bounds(given) == (0, 20)
    write_high_watermark(logs.root, 20)
    assert offsets(read(given)) == list(range(20))


def test_nothing_behind_the_high_watermark_is_looked_at(tmp_path):
    logs = builder(tmp_path)
    log = filled(logs, 10)
    end = log.segments.active.size
    append(log, batch_of(5))
    write_high_watermark(logs.root, 20)
    with tail_file(logs).open("r+b") as file:
        file.seek(end)
        file.write(b"\xee" * 90)
    given = options(logs.root)
    assert bounds(given) == (0, 20)
    assert offsets(read(given)) == list(range(20))


def test_damage_below_the_high_watermark_is_told_by_its_place(tmp_path):
    logs = builder(tmp_path)
    log = filled(logs, 10)
    position = log.segments.active.locate(12)
    write_high_watermark(logs.root, 20)
    with tail_file(logs).open("r+b") as file:
        file.seek(position + 65)
        file.write(b"\xee")
    given = options(logs.root)
    assert bounds(given) == (0, 20)
    assert offsets(read(given, 0, 12)) == list(range(12))
    with pytest.raises(
        DamagedSegmentError, match=r"00000000000000000000\.log.*offset 12 does not match its CRC"
    ):
        read(given)


def test_damage_that_is_no_batch_at_all_is_told_too(tmp_path):
    logs = builder(tmp_path)
    log = filled(logs, 10)
    position = log.segments.active.locate(12)
    given = options(logs.root)
    manifest = manifest_of(given)
    with tail_file(logs).open("r+b") as file:
        file.seek(position + 16)
        file.write(b"\x07")
    with pytest.raises(DamagedSegmentError, match=f"byte {position} has magic 7"):
        read(given, manifest=manifest)


def test_without_a_watermark_the_log_ends_where_its_batches_do(tmp_path):
    logs = builder(tmp_path)
    log = filled(logs, 10)
    with tail_file(logs).open("r+b") as file:
        file.seek(log.segments.active.locate(14) + 65)
        file.write(b"\xee")
    given = options(logs.folder)
    assert bounds(given) == (0, 14)
    assert offsets(read(given)) == list(range(14))


def test_what_lies_behind_the_bound_is_not_given_out(tmp_path):
    logs = builder(tmp_path)
    filled(logs, 10)
    write_high_watermark(logs.root, 7)
    given = options(logs.root)
    assert bounds(given) == (0, 7)
    assert offsets(read(given)) == list(range(7))
    with pytest.raises(LostDataError, match="behind 7"):
        read(given, 0, 20)


# -- segments that go ----------------------------------------------------------------------------------------


def many_segments(logs):
    log = filled(logs, 60, segment_bytes=600)
    assert len(log.segments) > 8
    return log


def delete_first(logs, count):
    """As retention does it."""
    names = sorted(os.listdir(logs.folder))
    bases = sorted({name.partition(".")[0] for name in names if name.endswith(LOG)})
    for name in names:
        if name.partition(".")[0] in bases[:count]:
            os.rename(f"{logs.folder}/{name}", f"{logs.folder}/{name}.deleted")
    return int(bases[count])


def test_a_segment_deleted_meanwhile_is_missed_aloud(tmp_path):
    logs = builder(tmp_path)
    many_segments(logs)
    given = options(logs.root)
    manifest = manifest_of(given)
    start = delete_first(logs, 2)
    with pytest.raises(LostDataError, match=f"offsets 0 to 120.*segments start at {start}"):
        read(given, manifest=manifest)
    relaxed = options(logs.root, failOnDataLoss="false")
    assert offsets(read(relaxed, manifest=manifest)) == list(range(start, 120))
    assert bounds(given) == (start, 120)


def test_segments_deleted_while_they_are_read_are_missed_only_from_there_on(tmp_path):
    logs = builder(tmp_path)
    many_segments(logs)
    given = options(logs.root)
    manifest = manifest_of(given)
    reading = PartitionRows(DISK, manifest, OffsetRange(*TP, 0, 120), given)
    batches = reading.read()
    seen = next(batches).column("offset").to_pylist()
    start = delete_first(logs, 4)
    with pytest.raises(NotInFilesError, match=f"segments start at {start}"):
        seen += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert seen == list(range(reading.next_offset))
    assert 0 < reading.next_offset < start


def test_segments_that_a_compaction_put_together_are_found_again(tmp_path):
    logs = builder(tmp_path)
    many_segments(logs)
    given = options(logs.root)
    manifest = manifest_of(given)
    merge_segments(logs, first=2, count=4)
    assert offsets(read(given, manifest=manifest)) == list(range(120))
    assert offsets(read(given)) == list(range(120))


def merge_segments(logs, *, first, count):
    """What compaction does to segments it could put into one, here without taking records out."""
    paths = sorted(Path(logs.folder).glob(f"*{LOG}"))[first : first + count]
    paths[0].write_bytes(b"".join(path.read_bytes() for path in paths))
    for path in paths:
        path.with_suffix(INDEX).unlink()
    for path in paths[1:]:
        path.unlink()


def test_nothing_is_missed_while_segments_are_swapped(tmp_path, monkeypatch):
    """Renames in a compaction's order, over and over, each time for other segments."""
    # On a busy machine a swap may stand still for longer than a broker's does.
    monkeypatch.setattr("headrace.spark.segments.listing.LOOKS_MAX", 6000)
    logs = builder(tmp_path)
    many_segments(logs)
    given = options(logs.root)
    stopped = threading.Event()
    names = sorted(path.name for path in Path(logs.folder).glob(f"*{LOG}"))

    def keep_swapping():
        for number in itertools.cycle(range(len(names) - 2)):
            if stopped.is_set():
                return
            paths = [Path(logs.folder) / name for name in names[number : number + 2]]
            for path in paths:
                shutil.copyfile(path, f"{path}.cleaned")
            for path in paths:
                os.rename(f"{path}.cleaned", f"{path}.swap")
            for path in paths:
                os.rename(path, f"{path}.deleted")
            for path in paths:
                os.rename(f"{path}.swap", path)
                os.unlink(f"{path}.deleted")

    swapping = threading.Thread(target=keep_swapping)
    swapping.start()
    try:
        for _ in range(100):
            assert offsets(read(given)) == list(range(120))
    finally:
        stopped.set()
        swapping.join()


def test_a_swap_that_never_ends_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.spark.segments.listing.LOOK_AGAIN_S", 0)
    logs = builder(tmp_path)
    many_segments(logs)
    (Path(logs.folder) / f"{0:020}{LOG}.swap").write_bytes(b"")
    with pytest.raises(Exception, match="swapped in by a compaction"):
        read(options(logs.root))


def test_gaps_of_a_compaction_are_passed(tmp_path):
    logs = builder(tmp_path)
    log = logs.open(segment_bytes=400)
    kept = []
    for base in range(0, 300, 10):
        chosen = [delta for delta in range(10) if random.Random(base + delta).random() < 0.3]
        records = [Record(base + delta, NOW_MS, b"k", b"v") for delta in chosen]
        batch = build_batch(records, base_offset=base, keep_offsets=True, last_offset_delta=9)
        if records:
            log.append_as_follower(batch, now_ms=NOW_MS)
            kept += [base + delta for delta in chosen]
    given = options(logs.root)
    assert offsets(read(given)) == kept
    end = manifest_of(given).bound
    for start in range(0, end, 7):
        assert offsets(read(given, start, end)) == [each for each in kept if each >= start]


# -- paths ---------------------------------------------------------------------------------------------------


def test_a_path_is_a_log_directory_a_partition_or_several(tmp_path):
    logs = builder(tmp_path)
    append(logs.open(), batch_of(3))
    other = tmp_path / "elsewhere" / "other-0"
    other.parent.mkdir()
    os.rename(logs.folder, tmp_path / "saved")
    (tmp_path / "data" / str(TP)).mkdir()
    for name in os.listdir(tmp_path / "saved"):
        os.link(tmp_path / "saved" / name, tmp_path / "data" / str(TP) / name)
    os.rename(tmp_path / "saved", other)
    partition = TP._replace(topic="other", partition=0)
    both = options(f"{logs.root},{other}")
    assert offsets(read(both)) == [0, 1, 2]
    assert offsets(read(both, partition=partition)) == [0, 1, 2]
    assert read(both, partition=partition)[0]["topic"] == "other"


@pytest.mark.parametrize(
    ("path", "says"), [("nowhere", "not a folder"), ("empty", "neither a log directory")]
)
def test_a_path_without_partitions_is_refused(tmp_path, path, says):
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match=says):
        bounds(options(tmp_path / path))


def test_of_two_copies_the_one_that_reaches_further_is_read(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = builder(tmp_path / "a"), builder(tmp_path / "b")
    append(first.open(), batch_of(3))
    log = second.open()
    append(log, batch_of(3))
    append(log, batch_of(3))
    assert bounds(options(f"{first.root},{second.root}")) == (0, 6)
    write_high_watermark(second.root, 2)
    assert bounds(options(f"{first.root},{second.root}")) == (0, 3)
