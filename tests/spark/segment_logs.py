"""Logs on disk without a broker, and what direct reading makes of them."""

from contextlib import closing
from pathlib import Path

from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import encode_offsets
from headrace.log.file_names import HIGH_WATERMARKS
from headrace.log.system_disk import SystemDisk
from headrace.records.batch import batches, read_records
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments.direct import DirectReading, read_segments
from tests.log.building import TP, LogBuilder

DISK = SystemDisk()


def builder(tmp_path: Path) -> LogBuilder:
    """A log directory with one partition."""
    root = tmp_path / "data"
    root.mkdir(exist_ok=True)
    return LogBuilder(DISK, str(root))


def write_high_watermark(root: str, offset: int, partition: TopicPartition = TP) -> None:
    (Path(root) / HIGH_WATERMARKS).write_bytes(encode_offsets({partition: offset}))


def options(path: object, *, committed: bool = False, **more: str):
    given = {"path": str(path), **{name.replace("_", "."): value for name, value in more.items()}}
    if committed:
        given["kafka.isolation.level"] = "read_committed"
    return read_options(given, streaming=False)


def bounds(given, partition: TopicPartition = TP) -> tuple[int, int]:
    """The first and the end offset, by the files."""
    with closing(partition_offsets(given)) as asked:
        return asked.earliest([partition])[partition], asked.latest([partition])[partition]


def manifest_of(given, partition: TopicPartition = TP):
    with closing(partition_offsets(given)) as asked:
        return DirectReading(given, DISK).manifests(asked, [partition])[partition]


def plan(given, partition: TopicPartition = TP):
    """The tasks of all there is."""
    with closing(partition_offsets(given)) as asked:
        start, end = bounds(given, partition)
        return DirectReading(given, DISK).plan(asked, [OffsetRange(*partition, start, end)])


def read(
    given, start: int | None = None, end: int | None = None, *, manifest=None, partition=TP, window=None
):
    """The rows of a range as dictionaries; of all there is where nothing is said."""
    manifest = manifest or manifest_of(given, partition)
    wanted = OffsetRange(
        *partition,
        manifest.start if start is None else start,
        manifest.bound if end is None else end,
    )
    found = read_segments(wanted, given, manifest, window, DISK)
    return [row for batch in found for row in batch.to_pylist()]


def offsets(rows) -> list[int]:
    return [row["offset"] for row in rows]


def log_records(log):
    """Every record that is not a marker, one object each: what a reader may see at most."""
    found = []
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for at, header in batches(data):
            if not header.is_control:
                found += read_records(data, at)
    return [record for record in found if record.offset >= log.log_start_offset]
