"""Merging into Iceberg: which files are rewritten, keys of every kind, and what a refused commit leaves."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.spark.loads import iceberg_files, iceberg_merge
from headrace.spark.loads.compaction import compact
from headrace.spark.loads.iceberg_table import IcebergLoadTable
from headrace.spark.loads.tables import LoadBatch
from headrace.spark.loads.upserts import Upsert
from tests.spark.local_folder import LocalFolder

MANY = iceberg_merge._VALUES_MAX + 1
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
NAN = float("nan")


class Merged:
    """A table on a local disk, whose batches are counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = IcebergLoadTable(LocalFolder(path), ())
        self._batches = 0

    def merge(self, rows: list[Any], deletes: list[Any] | None = None, schema: pa.Schema = SCHEMA) -> None:
        changes = Upsert(
            pa.Table.from_pylist(rows, schema), pa.Table.from_pylist(deletes or [], schema), ("id",)
        )
        self.table.merge(LoadBatch("a" * 32, self._batches), changes)
        self._batches += 1

    @property
    def loaded(self) -> Any:
        return self.table._opened(SCHEMA)

    def rows(self) -> list[tuple[Any, Any]]:
        return sorted((row["id"], row["n"]) for row in self.loaded.scan().to_arrow().to_pylist())

    def files(self) -> set[str]:
        return {task.file.file_path for task in self.loaded.scan().plan_files()}

    def files_on_disk(self) -> set[str]:
        return {f"file://{each}" for each in self.path.rglob("*.parquet")}


@pytest.fixture
def merged(tmp_path: Path) -> Merged:
    return Merged(tmp_path)


def numbered(first: int, end: int, n: int = 0) -> list[dict[str, int]]:
    return [{"id": number, "n": n} for number in range(first, end)]


def test_only_files_with_rows_of_a_key_are_written_anew(
    merged: Merged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more keys than bounds are compared with, and fewer rows joined at once than there are."""
    monkeypatch.setattr(iceberg_merge, "_ROWS_PER_JOIN", 3 * MANY)
    for first in range(0, 8 * MANY, 2 * MANY):
        merged.merge(numbered(first, first + 2 * MANY))
    before = merged.files()
    assert len(before) == 4
    merged.merge(numbered(3 * MANY, 5 * MANY, 1), [{"id": 5 * MANY}, {"id": 9 * MANY}])
    assert len(merged.files() & before) == 2
    expected = [(key, int(3 * MANY <= key < 5 * MANY)) for key in range(8 * MANY) if key != 5 * MANY]
    assert merged.rows() == expected
    snapshots = merged.loaded.snapshots()
    assert len(snapshots) == 5, "a batch is one snapshot"
    # All that a file has: it goes, and nothing comes for it.
    merged.merge([], numbered(0, 2 * MANY))
    assert merged.rows() == expected[2 * MANY :]
    assert len(merged.files() & before) == 1


@pytest.mark.parametrize(
    ("kind", "old", "new", "same"),
    [
        (pa.bool_(), False, True, False),
        (pa.float32(), 0.1, 2.0**60, 0.1),
        (pa.float64(), 0.0, NAN, -0.0),
        (pa.float64(), NAN, 0.0, NAN),
        (pa.string(), "ä" * 40, "", "ä" * 40),
        (pa.binary(), b"\x00", b"\xff" * 40, b"\x00"),
        (pa.date32(), date(2026, 1, 1), date(1960, 1, 1), date(2026, 1, 1)),
        (pa.timestamp("us"), datetime(2026, 1, 1), datetime(1960, 1, 1), datetime(2026, 1, 1)),
        (pa.timestamp("us", "UTC"), *(datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 1960, 2026))),
        (pa.decimal128(10, 2), Decimal("-1.50"), Decimal("99999999.99"), Decimal("-1.50")),
    ],
    ids=lambda each: str(each) if isinstance(each, pa.DataType) else "",
)
def test_keys_of_every_kind(kind: Any, old: Any, new: Any, same: Any, merged: Merged) -> None:
    schema = pa.schema([("id", kind), ("n", pa.int32())])
    merged.merge([{"id": old, "n": 1}, {"id": new, "n": 1}], schema=schema)
    merged.merge([{"id": same, "n": 2}], schema=schema)
    assert sorted(n for _, n in merged.rows()) == [1, 2]
    merged.merge([], [{"id": same}], schema)
    ((left, n),) = merged.rows()
    assert n == 1
    assert left == new or (left != left and new != new)


def test_a_key_that_grows_wider(merged: Merged) -> None:
    """In the commit that merges: the files have the narrow one."""
    narrow = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    merged.merge(numbered(0, 3), schema=narrow)
    merged.merge([{"id": 1, "n": 1}, {"id": 2**40, "n": 1}])
    merged.merge([{"id": 2**40, "n": 2}], [{"id": 0}])
    assert merged.rows() == [(1, 1), (2, 0), (2**40, 2)]


def test_a_key_of_two_columns_is_a_key_by_both(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int32())])
    table = IcebergLoadTable(LocalFolder(tmp_path), ())
    rows = [{"id": key, "part": part, "n": 0} for key in (1, 2) for part in "ab"]
    nobody = pa.Table.from_pylist([], schema)
    table.merge(LoadBatch("a", 0), Upsert(pa.Table.from_pylist(rows, schema), nobody, ("id", "part")))
    changes = [{"id": 1, "part": "b", "n": 1}, {"id": 2, "part": "a", "n": 1}]
    table.merge(LoadBatch("a", 1), Upsert(pa.Table.from_pylist(changes, schema), nobody, ("id", "part")))
    found = table._opened(schema).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["part"], row["n"]) for row in found) == [
        (1, "a", 0),
        (1, "b", 1),
        (2, "a", 1),
        (2, "b", 0),
    ]


def test_files_of_merges_are_joined_by_the_columns_ids(merged: Merged) -> None:
    """Avro would not have these names; one column is wider, one was not there."""
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("of whom?", pa.string())])
    merged.merge([{"id": 1, "n": 1, "of whom?": "x"}, {"id": 2, "n": 1, "of whom?": "y"}], schema=schema)
    more = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("of whom?", pa.string()), ("é", pa.float64())])
    merged.merge([{"id": 2**40, "n": 2, "of whom?": "z", "é": 0.5}], [{"id": 2}], more)
    before = sorted(merged.loaded.scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert len(before) == len(merged.files()) == 2
    assert compact("iceberg", str(merged.path)) == (2, 1)
    (joined,) = merged.files()
    found = merged.loaded.scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: int(row["id"])) == before
    assert compact("iceberg", str(merged.path)) is None
    merged.merge([{"id": 1, "n": 3, "of whom?": "w", "é": 1.5}], schema=more)
    assert joined not in merged.files()
    assert sorted(row["of whom?"] for row in merged.loaded.scan().to_arrow().to_pylist()) == ["w", "z"]


def test_nulls_stay_nulls_however_often_a_file_is_written_anew(merged: Merged) -> None:
    """Read by Arrow alone: pyiceberg's own reader shows a list or map of structs that is null as empty."""
    inner = pa.list_(pa.field("element", pa.struct([("z", pa.int32())])))
    pair = pa.struct([("x", pa.int32()), ("y", inner)])
    kinds = {"list": pa.list_(pa.field("element", pair)), "map": pa.map_(pa.string(), pair), "pair": pair}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    full = {"x": 1, "y": [{"z": 1}, None]}
    rows: list[dict[str, Any]] = [
        {"id": 0, "list": None, "map": None, "pair": None},
        {"id": 1, "list": [], "map": [], "pair": {"x": None, "y": None}},
        {"id": 2, "list": [None, full], "map": [("k", None), ("l", full)], "pair": full},
    ]
    merged.merge([*rows, {"id": 3}], schema=schema)
    # A field more in each struct, so that what is kept is projected too.
    wider = pa.struct([*pair, ("w", pa.int32())])
    kinds = {"list": pa.list_(pa.field("element", wider)), "map": pa.map_(pa.string(), wider), "pair": wider}
    merged.merge([{"id": 4}], [{"id": 3}], pa.schema([("id", pa.int64()), *kinds.items()]))
    assert compact("iceberg", str(merged.path)) is not None
    (file,) = merged.files()
    found = pq.read_table(file.removeprefix("file://")).to_pylist()
    full = {**full, "w": None}
    assert sorted(found, key=lambda row: int(row["id"])) == [
        {"id": 0, "list": None, "map": None, "pair": None},
        {"id": 1, "list": [], "map": [], "pair": {"x": None, "y": None, "w": None}},
        {"id": 2, "list": [None, full], "map": [("k", None), ("l", full)], "pair": full},
        {"id": 4, "list": None, "map": None, "pair": None},
    ]


def test_a_commit_that_came_too_late_leaves_no_file(merged: Merged, monkeypatch: pytest.MonkeyPatch) -> None:
    merged.merge(numbered(0, 4))
    other = Merged(merged.path)
    write = iceberg_files.Files.write
    written: list[Any] = []

    def overtaken(files: iceberg_files.Files, rows: Any) -> tuple[Any, ...]:
        made = write(files, rows)
        written.extend(made)
        if len(written) == 1:  # the rest of a file that the other commit takes away
            changes = pa.Table.from_pylist(numbered(0, 1, 7), SCHEMA)
            nobody = pa.Table.from_pylist([], SCHEMA)
            monkeypatch.setattr(iceberg_files.Files, "write", write)
            other.table.merge(LoadBatch("b" * 32, 0), Upsert(changes, nobody, ("id",)))
            monkeypatch.setattr(iceberg_files.Files, "write", overtaken)
        return made

    monkeypatch.setattr(iceberg_files.Files, "write", overtaken)
    before = merged.files_on_disk()
    merged.merge(numbered(1, 2, 1))
    assert merged.rows() == [(0, 7), (1, 1), (2, 0), (3, 0)]
    assert len(written) == 4, "a rest and the rows, twice"
    # The other commit's two, and two of this one's: those of the first attempt are gone.
    assert merged.files() <= merged.files_on_disk()
    assert len(merged.files_on_disk() - before) == 4
