"""A history table as one query sees it: one version, the offsets it holds, and its files.

Both formats are opened by their own libraries on the driver, and read as Parquet by the tasks (`file_rows`).
Only what the commits say is asked for here: a file that cannot have a wanted row, by the bounds of its
columns, is never opened.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.spark.columns import ALL_COLUMNS, arrow_schema
from headrace.spark.history.held import Holdings, id_number
from headrace.spark.option_values import OptionError
from headrace.spark.ranges import OffsetRange, TimeWindow

_MILLISECOND_US: Final = 1000


class Bounds(NamedTuple):
    """The least and the greatest value of a column in a file, both included; times in microseconds."""

    least: int
    greatest: int


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A Parquet file of the table."""

    location: str
    """A path, or a URI on other stores."""
    size_bytes: int
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """Of `partition`, `offset` and `timestamp`, as far as the table knows them."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Columns that are not in the file: those that the table is partitioned by."""

    def parts(self, wanted: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Those of the ranges that the file may have rows of."""
        return [each for each in wanted if self._may_have(each)]

    def _may_have(self, wanted: OffsetRange) -> bool:
        if self.constants.get("topic", wanted.topic) != wanted.topic:
            return False
        if self.constants.get("partition", wanted.partition) != wanted.partition:
            return False
        numbers, offsets = self.bounds.get("partition"), self.bounds.get("offset")
        if numbers is not None and not numbers.least <= wanted.partition <= numbers.greatest:
            return False
        return offsets is None or (offsets.least < wanted.end and offsets.greatest >= wanted.start)

    def is_within(self, window: TimeWindow | None) -> bool:
        """Whether any row may be of that time. Some writers cut a file's times to the millisecond."""
        times = self.bounds.get("timestamp")
        if window is None or times is None:
            return True
        return times.least <= window.last_us and times.greatest + _MILLISECOND_US > window.first_us


@dataclass(frozen=True, slots=True)
class FilePart:
    """The rows of a file, or of a piece of it, that belong to these ranges."""

    file: HistoryFile
    ranges: Sequence[OffsetRange]
    piece: int = 0
    pieces: int = 1
    """Into which a large file is cut, between its groups of rows."""


class HistorySnapshot(Protocol):
    """One version of a table."""

    place: str
    """The table and its version, for people."""

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        """What it holds of these partitions."""
        ...

    def schema(self) -> pa.Schema: ...

    def files(self) -> Sequence[HistoryFile]: ...


def open_snapshot(location: str) -> HistorySnapshot:
    """The newest version of the table in a folder; OptionError where there is none."""
    from headrace.spark.history.delta_history import DeltaSnapshot
    from headrace.spark.history.iceberg_history import IcebergSnapshot
    from headrace.spark.loads.iceberg_catalog import is_in_catalog

    plain = location.removeprefix("file://") if location.startswith("file:///") else location
    if is_in_catalog(plain):
        return IcebergSnapshot(plain)
    if "://" in plain or (Path(plain) / "_delta_log").is_dir():
        return DeltaSnapshot(plain)
    if (Path(plain) / "catalog.db").is_file():
        return IcebergSnapshot(plain)
    raise OptionError(
        f"option history={location}: there is no table of Delta or Iceberg in that folder. "
        f"`headrace load TOPIC {location} --to delta` makes one"
    )


def held_by(
    snapshot: HistorySnapshot,
    partitions: Sequence[TopicPartition],
    topic_ids: Mapping[str, str],
    *,
    is_committed: bool,
) -> Holdings:
    """What the table holds of these partitions; OptionError where it is not their history."""
    held = snapshot.holdings(partitions)
    names = ", ".join(sorted({each.topic for each in partitions}))
    if not held.ranges:
        if snapshot.files():
            raise OptionError(
                f"{snapshot.place} is not a history of {names}: its commits do not say which offsets it "
                "holds. Tables loaded with --select, --where or by a pipeline have fields and no records: "
                "load the records as they are, `headrace load TOPIC PATH --to delta`, and parse what is read"
            )
        return held
    _check_columns(snapshot)
    for topic, number in held.ids.items():
        if topic in topic_ids and id_number(topic_ids[topic]) != number:
            raise OptionError(
                f"{snapshot.place} has the history of another topic {topic!r}, which was deleted: load the "
                "one of that name now into another folder"
            )
    if held.is_committed != is_committed:
        level = "read_committed" if held.is_committed else "read_uncommitted"
        raise OptionError(
            f"{snapshot.place} was loaded with isolation level {level}: read with the same, "
            f"kafka.isolation.level={level}"
        )
    return held


def _check_columns(snapshot: HistorySnapshot) -> None:
    missing = missing_columns(snapshot.schema())
    if missing:
        raise OptionError(
            f"{snapshot.place} is not a history of records: it lacks {', '.join(missing)}. Load it anew "
            "without --select"
        )


def missing_columns(schema: pa.Schema) -> list[str]:
    """Columns of records that a table lacks, or has as something else."""
    from headrace.spark.loads.schema_changes import plain_schema

    plain, own = plain_schema(schema), plain_schema(arrow_schema(ALL_COLUMNS))
    return [
        name
        for name in own.names
        if name not in plain.names or plain.field(name).type != own.field(name).type
    ]
