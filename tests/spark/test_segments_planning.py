"""Before a byte is read: cutting ranges into tasks, finding times in files, whose folder it is."""

import itertools
import pickle
import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.base.ids import TopicId
from headrace.log.checkpoints import encode_offsets, encode_partition_metadata
from headrace.log.meta_properties import MetaProperties
from headrace.spark.columns import spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import Bound, read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments import direct
from headrace.spark.segments.direct import DirectReading
from headrace.spark.segments.folders import FolderOffsets
from headrace.spark.stream_reader import HeadraceStreamReader
from tests.log.building import NOW_MS, TP, append, batch_of
from tests.spark.segment_logs import bounds, builder, manifest_of, offsets, options, plan, read


def sized_log(logs, *, batches, segment_bytes, flushed=True):
    log = logs.open(segment_bytes=segment_bytes, index_interval_bytes=100)
    for _ in range(batches):
        append(log, batch_of(3))
    if flushed:
        log.close()
    return log


@pytest.mark.parametrize("flushed", [True, False], ids=["index", "no index"])
@pytest.mark.parametrize("segment_bytes", [500, 3000, 1 << 20])
def test_tasks_cover_a_partition_once_and_are_of_a_size(tmp_path, monkeypatch, segment_bytes, flushed):
    monkeypatch.setattr(direct, "TASK_BYTES", 2000)
    monkeypatch.setattr(direct, "INTERVAL_BYTES", 300)
    logs = builder(tmp_path)
    log = sized_log(logs, batches=150, segment_bytes=segment_bytes, flushed=flushed)
    total = log.size_bytes
    given = options(logs.root)
    tasks = plan(given)
    wanted = [each for each, _ in tasks]
    assert wanted[0].start == 0
    assert wanted[-1].end == 450
    assert all(one.end == other.start for one, other in itertools.pairwise(wanted))
    assert total / 4000 <= len(tasks) <= total / 1000
    assert max(each.size for each in wanted) * total / 450 < 4500
    rows = [offsets(read(given, each.start, each.end, manifest=manifest)) for each, manifest in tasks]
    assert [offset for found in rows for offset in found] == list(range(450))


def test_tasks_start_with_segments_where_those_are_large_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(direct, "TASK_BYTES", 2000)
    logs = builder(tmp_path)
    log = sized_log(logs, batches=150, segment_bytes=2000)
    assert [each.start for each, _ in plan(options(logs.root))] == log.segments.bases[: len(log.segments)]


def test_tasks_that_start_inside_of_an_active_segment_are_told_where(tmp_path, monkeypatch):
    """Its index is in the broker's memory; the driver walks over what is new, and no task over the rest."""
    monkeypatch.setattr(direct, "INTERVAL_BYTES", 300)
    logs = builder(tmp_path)
    log = sized_log(logs, batches=100, segment_bytes=1 << 20, flushed=False)
    given = options(logs.root)
    reading = DirectReading(given)
    asked = FolderOffsets(given)
    walked = []
    scan = direct.scan_headers
    monkeypatch.setattr(
        direct,
        "scan_headers",
        lambda file, start, end: (walked.append(start), scan(file, start, end))[1],
    )
    hints = []
    for start in (200, 290, 350):
        while log.log_end_offset < start + 10:
            append(log, batch_of(3))
        ((_, manifest),) = reading.plan(asked, [OffsetRange(*TP, start, start + 10)])
        hints.append(manifest.hint[1])
        assert 0 <= log.segments.active.locate(start) - manifest.hint[1] <= 600
        assert offsets(read(given, start, start + 10, manifest=manifest)) == list(range(start, start + 10))
        wrong = replace(manifest, hint=(manifest.hint[0], manifest.hint[1] + 7))
        assert offsets(read(given, start, start + 10, manifest=wrong)) == list(range(start, start + 10))
    assert hints == sorted(set(hints))
    assert walked[0] == 0
    assert walked[-1] >= hints[-2], "only what is new"


def test_a_user_may_want_more_tasks(tmp_path):
    logs = builder(tmp_path)
    sized_log(logs, batches=10, segment_bytes=1 << 20)
    assert len(plan(options(logs.root))) == 1
    assert len(plan(options(logs.root, minPartitions="4"))) == 4
    assert len(plan(options(logs.root, maxRecordsPerPartition="10"))) == 3


def test_plans_can_be_sent_to_tasks(tmp_path):
    logs = builder(tmp_path)
    sized_log(logs, batches=10, segment_bytes=500)
    given = options(logs.root, committed=True)
    again, tasks = pickle.loads(pickle.dumps((given, plan(given))))
    rows = [row for each, manifest in tasks for row in read(again, each.start, each.end, manifest=manifest)]
    assert offsets(rows) == list(range(30))


def test_a_stream_of_a_path_goes_to_what_the_files_say(tmp_path):
    logs = builder(tmp_path)
    log = logs.open()
    append(log, batch_of(5))
    given = read_options({"path": logs.root, "startingOffsets": "earliest"}, streaming=True)
    reader = HeadraceStreamReader(given, spark_schema(given.columns))
    start = reader.initialOffset()
    seen = []
    for count in (5, 3):
        end = reader.latestOffset(start, ReadAllAvailable())
        tasks = reader.partitions(start, end)
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        assert len(rows) == count
        seen += rows
        start = end
        append(log, batch_of(3))
    assert offsets(seen) == list(range(8))
    reader.stop()


# -- times ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flushed", [True, False], ids=["index", "no index"])
def test_times_are_found_as_the_log_finds_them(tmp_path, seed, flushed):
    rng = random.Random(seed)
    logs = builder(tmp_path)
    log = logs.open(segment_bytes=800, index_interval_bytes=150)
    for _ in range(80):
        append(log, batch_of(rng.randrange(1, 5), timestamp=NOW_MS + rng.randrange(1000)))
    times = [NOW_MS + rng.randrange(-10, 1020) for _ in range(40)]
    expected = [log.offset_for_timestamp(time) for time in times]
    if flushed:
        log.close()
    asked = FolderOffsets(options(logs.root))
    found = [asked.at_times({TP: time})[TP] for time in times]
    assert found == [None if each is None else each.offset for each in expected]


def test_a_start_by_time_without_a_broker(tmp_path):
    logs = builder(tmp_path)
    append(logs.open(), batch_of(10))
    asked = FolderOffsets(read_options({"path": logs.root}, streaming=False))
    assert asked.partitions() == [TP]
    assert asked.starting(Bound(time_ms=NOW_MS + 4, by_time=True), [TP]) == {TP: 4}


# -- identity ------------------------------------------------------------------------------------------------


def with_identity(logs, topic_id, node_id):
    folder, disk = logs.folder, logs.disk
    disk.replace_file(f"{folder}/partition.metadata", encode_partition_metadata(TopicId(topic_id)))
    meta = MetaProperties("cluster", node_id, b"\1" * 16)
    disk.replace_file(f"{logs.root}/meta.properties", meta.encode())


@pytest.mark.parametrize(
    ("topic_id", "nodes", "says"),
    [
        (b"a" * 16, (1, 2), None),
        (b"b" * 16, (1, 2), "another topic"),
        (b"a" * 16, (2, 3), "broker 1, which is not in sync"),
        (b"\0" * 16, (), None),
    ],
)
def test_a_folder_of_somebody_else_is_not_read(tmp_path, topic_id, nodes, says):
    """A task may run where another broker has a folder of the same name."""
    logs = builder(tmp_path)
    append(logs.open(), batch_of(3))
    with_identity(logs, b"a" * 16, 1)
    given = options(logs.root)
    manifest = replace(manifest_of(given), topic_id=TopicId(topic_id), nodes=nodes)
    if says is None:
        assert offsets(read(given, manifest=manifest)) == [0, 1, 2]
    else:
        with pytest.raises(LostDataError, match=says):
            read(given, manifest=manifest)


def test_a_tiered_log_without_its_store_is_not_taken_for_a_whole_one(tmp_path):
    """Its first files have left the disk; where it begins is in the checkpoint."""
    logs = builder(tmp_path)
    log = sized_log(logs, batches=12, segment_bytes=600)
    starts = [segment.base_offset for segment in log.segments]
    for path in Path(logs.root).glob(f"*/{0:020d}.*"):
        path.unlink()
    logs.disk.replace_file(f"{logs.root}/log-start-offset-checkpoint", encode_offsets({TP: 0}))
    given = options(logs.root)
    assert bounds(given) == (0, 36)
    with pytest.raises(LostDataError, match=rf"start at {starts[1]}.*store\.url too"):
        read(given)
    assert offsets(read(given, starts[1])) == list(range(starts[1], 36))
    assert offsets(read(options(logs.root, failOnDataLoss="false"))) == list(range(starts[1], 36))


def test_internal_topics_are_left_out_of_a_path(tmp_path):
    logs = builder(tmp_path)
    append(logs.open(), batch_of(1))
    for name in ("__consumer_offsets-0", "_headrace_sink_decisions-0"):
        shutil.copytree(f"{logs.root}/{TP.topic}-{TP.partition}", f"{logs.root}/{name}")
    with closing(partition_offsets(options(logs.root))) as asked:
        assert asked.partitions() == [TP]
    with closing(partition_offsets(options(logs.root, subscribe="__consumer_offsets"))) as asked:
        assert [each.topic for each in asked.partitions()] == ["__consumer_offsets"]


def test_records_that_were_deleted_do_not_count(tmp_path):
    logs = builder(tmp_path)
    append(logs.open(), batch_of(10))
    logs.disk.replace_file(f"{logs.root}/log-start-offset-checkpoint", encode_offsets({TP: 6}))
    given = options(logs.root)
    assert bounds(given) == (6, 10)
    assert offsets(read(given)) == [6, 7, 8, 9]
