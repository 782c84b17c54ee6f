"""Upserts: one row for each key, a batch's last change of it counts, tombstones delete, each batch once."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.clients import Producer
from headrace.spark.loads.batches import BatchWriter, TableTarget
from headrace.spark.loads.compaction import compact
from headrace.spark.loads.tables import LoadBatch, LoadError, open_table
from headrace.spark.loads.upserts import Upsert
from headrace.testing import Cluster
from tests.spark.feeds import Feeds, run_file, run_files
from tests.spark.local_folder import LocalFolder
from tests.spark.test_loads_batches import read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ["delta", "iceberg"]
DROP = "--   tombstones: drop\n"
MakeTopic = Callable[..., str]
SCHEMA = pa.schema([("id", pa.int64()), ("Part", pa.string()), ("n", pa.int32())])


def upsert(rows: list[Any], deletes: list[Any], schema: pa.Schema = SCHEMA, key: str = "id") -> Upsert:
    return Upsert(
        pa.Table.from_pylist(rows, schema), pa.Table.from_pylist(deletes, schema), tuple(key.split(","))
    )


def row(number: int, part: str, n: int) -> dict[str, Any]:
    return {"id": number, "Part": part, "n": n}


@pytest.mark.parametrize("partition_by", [(), ("Part",)], ids=["whole", "partitioned"])
@pytest.mark.parametrize("kind", KINDS)
def test_merges(kind: str, partition_by: tuple[str, ...], tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    table = open_table(kind, folder, partition_by)
    first, second, third = (LoadBatch("a" * 32, number) for number in range(3))
    table.merge(first, upsert([row(1, "a", 1), row(2, "b", 1), row(3, "a", 1)], [row(9, "a", 1)]))
    assert read_back(kind, tmp_path) == [row(1, "a", 1), row(2, "b", 1), row(3, "a", 1)]
    table.merge(second, upsert([row(2, "a", 2), row(4, "b", 2)], [{"id": 1}, {"id": 8}]))
    assert read_back(kind, tmp_path) == [row(2, "a", 2), row(3, "a", 1), row(4, "b", 2)]
    assert [open_table(kind, folder, partition_by).has(each) for each in (first, second, third)] == [
        True,
        True,
        False,
    ]
    # With a column that is new, a key of two columns, and nothing but deletes at the end.
    more = SCHEMA.append(pa.field("note", pa.string()))
    table.merge(third, upsert([{**row(3, "a", 3), "note": "x"}, row(3, "b", 3)], [], more, "id,Part"))
    after = [{**row(*each), "note": None} for each in ((2, "a", 2), (3, "b", 3), (4, "b", 2))]
    found = read_back(kind, tmp_path)
    assert len(found) == 4
    assert all(each in found for each in [*after, {**row(3, "a", 3), "note": "x"}])
    table.merge(LoadBatch("a" * 32, 3), upsert([], [{"id": 3}, {"id": 4}], more))
    assert read_back(kind, tmp_path) == after[:1]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_changes_come_once(kind: str, spark: "SparkSession", tmp_path: Path) -> None:
    target = TableTarget(kind, str(tmp_path / "table"), key=("id",))
    writer = BatchWriter(target, load_id="a" * 32)

    def changes(*given: tuple[int | None, int, bool]) -> Any:
        return spark.createDataFrame(list(given), "id INT, n INT, tombstone BOOLEAN").coalesce(1)

    writer.write(changes((1, 1, False), (2, 1, False), (1, 2, False), (3, 1, False), (3, 1, True)), 0)
    again = BatchWriter(target, load_id="a" * 32)
    loaded = again.write(changes((2, 5, True), (2, 6, False), (1, 7, True), (None, 0, True)), 1)
    assert (loaded.rows, loaded.deletes) == (1, 1)
    assert not again.write(changes((1, 9, False)), 1).is_new
    assert read_back(kind, tmp_path / "table") == [{"id": 2, "n": 6}]
    with pytest.raises(LoadError, match=r"1 rows have no id.*WHERE id IS NOT NULL"):
        again.write(changes((None, 1, False)), 2)
    assert not list((tmp_path / "table" / "_headrace" / "upserts").glob("*-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_are_joined_between_batches(kind: str, spark: "SparkSession", tmp_path: Path) -> None:
    """Not beside them: a batch that comes while files are joined would be refused."""
    target = TableTarget(kind, str(tmp_path / "table"), key=("id",), compact=2)
    writer = BatchWriter(target, load_id="a" * 32)
    for number in range(2):
        writer(spark.createDataFrame([(number, number)], "id INT, n INT").coalesce(1), number)
    assert writer._compaction is None
    assert compact(kind, str(tmp_path / "table")) is None, "there is one file"
    assert read_back(kind, tmp_path / "table") == [{"id": 0, "n": 0}, {"id": 1, "n": 1}]


def test_a_feed_as_a_table(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """From records to rows: tombstones delete in the table and go on in a feed; what is bad is counted.

    One kind of table is enough: how a batch gets into each is shown above.
    """
    kind = "delta"
    feeds, orders, open_orders = Feeds(cluster), make_topic(2), make_topic()

    def send(*records: tuple[str, bytes | None]) -> None:
        with Producer(bootstrap_servers=feeds.brokers) as producer:
            for key, value in records:
                producer.send(orders, value, key=key.encode())

    head = f"-- in orders: feed {orders}\n--   json: id INT, state STRING\n"
    query = "SELECT id, state, record.tombstone FROM orders\n"
    table = f"{head}-- out: {kind} table\n--   key: id\n--   mode: upsert\n{query}"
    feed = f"{head}-- out: feed {open_orders}\n--   key: id\n{query}"
    send(("1", b'{"id": 1, "state": "new"}'), ("2", b'{"id": 2, "state": "new"}'), ("3", b"no JSON"))
    send(("1", b'{"id": 1, "state": "paid"}'))
    reports, _ = run_file(spark, feeds, tmp_path / "table.sql", table)
    assert sum(each.bad_rows for each in reports) == 1
    assert read_back(kind, tmp_path / "table") == [{"id": 1, "state": "paid"}, {"id": 2, "state": "new"}]
    send(("1", None), ("2", b'{"id": 2, "state": "paid"}'), ("1", None))
    reports, _ = run_file(spark, feeds, tmp_path / "table.sql", table)
    assert (sum(each.tombstones for each in reports), sum(each.bad_rows for each in reports)) == (2, 0)
    assert read_back(kind, tmp_path / "table") == [{"id": 2, "state": "paid"}]
    # A plain query that does not name them carries them on, whatever it filters, unless told otherwise.
    plain = feed.replace(", record.tombstone FROM orders", " FROM orders WHERE state = 'paid'")
    copies = {"carry": make_topic(), "drop": make_topic()}
    carry = plain.replace(open_orders, copies["carry"])
    drop = plain.replace(open_orders, copies["drop"]).replace("--   key: id\n", f"--   key: id\n{DROP}")
    # Without a payload they are rows as any other, and counted once, however often the view is named.
    raw = f"-- in orders: feed {orders}\n-- out: console\n"
    raw += "SELECT key FROM orders WHERE value IS NULL UNION ALL SELECT key FROM orders WHERE offset < 0\n"
    files = {"feed.sql": feed, "carry.sql": carry, "drop.sql": drop, "raw.sql": raw}
    reports, _ = run_files(spark, feeds, tmp_path, files)

    def total(name: str, what: str) -> int:
        return sum(getattr(each, what) or 0 for each in reports if each.pipeline == name)

    assert {name: total(name, "tombstones") for name in ("feed", "carry", "drop", "raw")} == dict.fromkeys(
        ("feed", "carry", "drop", "raw"), 2
    )
    assert total("feed", "bad_rows") == 1
    found = [(record.key, record.value) for record in feeds.read(open_orders)]
    assert found.count((b"1", None)) == 2
    assert (b"2", b'{"id":2,"state":"paid"}') in found
    for name, rows_out in (("carry", 4), ("drop", 2)):
        assert total(name, "rows_out") == rows_out
        found = [(record.key, record.value) for record in feeds.read(copies[name])]
        assert found.count((b"1", None)) == rows_out - 2
        assert (b"2", b'{"id":2,"state":"paid"}') in found
