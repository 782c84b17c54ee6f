"""Derived feeds, from end to end on a node: what the file says is in the feed that it names."""

import json
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.checked_ranges import BLOCK_OFFSETS
from headrace.spark.pipeline.runner import run
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.testing import Cluster
from tests.spark.feeds import Feeds, run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # queries of several batches, one after the other

MakeTopic = Callable[..., str]


@pytest.fixture
def feeds(cluster: Cluster) -> Feeds:
    return Feeds(cluster)


def test_filter_and_enrich(
    spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path
) -> None:
    logs, errors = make_topic(2), make_topic(2)
    spark.createDataFrame([("web", "anna"), ("db", "ben")], "service STRING, owner STRING").write.parquet(
        str(tmp_path / "owners")
    )
    feeds.write(
        logs,
        [
            {"service": name, "level": level, "n": number}
            for number in range(10)
            for name in ("web", "db")
            for level in ("INFO", "ERROR")
        ],
    )
    text = f"""\
-- in logs: feed {logs}
--   json: service STRING, level STRING, n INT
-- in owners: parquet owners
-- out: feed {errors}
--   key: service
SELECT service, n, owner, record.topic AS origin
FROM logs JOIN owners USING (service)
WHERE level = 'ERROR'
"""
    reports, [stop] = run_file(spark, feeds, tmp_path / "errors.sql", text)
    found = feeds.read(errors)
    assert {(record.key, record.partition) for record in found} == {
        (key, record.partition) for key in (b"web", b"db") for record in found if record.key == key
    }
    assert sorted(json.loads(record.value or b"")["n"] for record in found) == sorted([*range(10)] * 2)
    first = json.loads(found[0].value or b"")
    assert first == {
        "service": first["service"],
        "n": first["n"],
        "owner": {"web": "anna", "db": "ben"}[first["service"]],
        "origin": logs,
    }
    assert (sum(each.rows_in for each in reports), sum(each.rows_out or 0 for each in reports)) == (40, 20)
    assert (reports[-1].lag, stop.last_batch) == (0, reports[-1].batch)
    assert sum(stop.ends[logs].values()) == 40

    # What comes later is read by the next run, and only that.
    feeds.write(logs, [{"service": "web", "level": "ERROR", "n": 99}])
    reports, _ = run_file(spark, feeds, tmp_path / "errors.sql", text)
    assert sum(each.rows_in for each in reports) == 1
    assert len(feeds.read(errors)) == 21


def test_window_with_watermark(
    spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path
) -> None:
    logs, minutes = make_topic(), make_topic()
    text = f"""\
-- in logs: feed {logs}
--   json: service STRING, at TIMESTAMP
--   watermark: at, 30 seconds
-- out: feed {minutes}
--   key: service
SELECT service, date_format(window.start, 'HH:mm') AS minute, count(*) AS errors
FROM logs
GROUP BY service, window(at, '1 minute')
"""
    times = ["12:00:05", "12:00:50", "12:01:10", "12:03:00"]
    feeds.write(logs, [{"service": "web", "at": f"2026-01-31 {time}"} for time in times])
    reports, _ = run_file(spark, feeds, tmp_path / "minutes.sql", text)
    # The last minute is open still: nothing says that no more of it will come.
    assert sorted(feeds.rows(minutes), key=itemgetter("minute")) == [
        {"service": "web", "minute": "12:00", "errors": 2},
        {"service": "web", "minute": "12:01", "errors": 1},
    ]
    assert reports[-1].state_rows == 1
    assert reports[-1].state_bytes > 0
    feeds.write(logs, [{"service": "web", "at": f"2026-01-31 {time}"} for time in ("12:00:07", "12:05:00")])
    reports, _ = run_file(spark, feeds, tmp_path / "minutes.sql", text)
    assert feeds.rows(minutes)[2:] == [{"service": "web", "minute": "12:03", "errors": 1}]
    assert sum(each.late_rows for each in reports) == 1


def test_join_of_two_feeds(
    spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path
) -> None:
    orders, payments, paid = make_topic(2), make_topic(2), make_topic()
    text = f"""\
-- in orders: feed {orders}
--   json: id LONG, at TIMESTAMP
--   watermark: at, 1 minute
-- in payments: feed {payments}
--   json: order_id LONG, paid_at TIMESTAMP
--   watermark: paid_at, 1 minute
-- out: feed {paid}
SELECT id, cast(paid_at - at AS long) AS seconds
FROM orders JOIN payments
  ON id = order_id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR
"""
    feeds.write(orders, [{"id": number, "at": "2026-01-31 12:00:00"} for number in range(6)])
    feeds.write(
        payments, [{"order_id": number, "paid_at": "2026-01-31 12:00:30"} for number in range(0, 6, 2)]
    )
    run_file(spark, feeds, tmp_path / "paid.sql", text)
    # An order that is paid in a later run is in the state that the checkpoint keeps.
    feeds.write(payments, [{"order_id": 1, "paid_at": "2026-01-31 12:00:40"}])
    run_file(spark, feeds, tmp_path / "paid.sql", text)
    found = sorted(feeds.rows(paid), key=lambda row: int(row["id"]))
    assert [(row["id"], row["seconds"]) for row in found] == [(0, 30), (1, 40), (2, 30), (4, 30)]


def test_stateful(spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path) -> None:
    clicks, counts = make_topic(), make_topic()
    text = f"""\
# in clicks: feed {clicks}
#   json: user STRING
# out: feed {counts}
#   key: user
#   mode: update
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql import Row


class Counter(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timer_values):
        before = self.count.get()[0] if self.count.exists() else 0
        now = before + sum(1 for _ in rows)
        self.count.update((now,))
        yield Row(user=key[0], clicks=now)

    def close(self):
        pass


def query(clicks):
    return clicks.groupBy("user").transformWithState(Counter(), "user STRING, clicks LONG", "Update", "None")
"""
    feeds.write(clicks, [{"user": name} for name in ("anna", "ben", "anna")])
    run_file(spark, feeds, tmp_path / "clicks.py", text)
    feeds.write(clicks, [{"user": "anna"}])
    run_file(spark, feeds, tmp_path / "clicks.py", text)
    found = [(row["user"], row["clicks"]) for row in feeds.rows(counts)]
    assert sorted(found) == [("anna", 2), ("anna", 3), ("ben", 1)]
    assert found.index(("anna", 2)) < found.index(("anna", 3))
    # Spark repeats a batch whose end it did not see: it is decided already, and nothing is written again.
    commits = tmp_path / "checkpoints/clicks/query/commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    reports, _ = run_file(spark, feeds, tmp_path / "clicks.py", text)
    assert [(each.batch, each.rows_in) for each in reports] == [(last, 1)]
    assert [(row["user"], row["clicks"]) for row in feeds.rows(counts)] == found


def test_fan_out_and_dead_letters(
    spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path
) -> None:
    logs, dead = make_topic(), make_topic(1, {"max.message.bytes": "2000000"})
    by_level = {level: make_topic() for level in ("info", "error")}
    huge = b"x" * 950_000
    feeds.write(
        logs,
        [
            {"level": "info", "n": 1},
            b'{"level": "info", "n":',
            {"level": "error", "n": 2},
            huge,
            {"level": "info", "n": "three"},
            {"level": "info", "n": 4},
        ],
    )
    cases = " ".join(f"WHEN '{level}' THEN '{topic}'" for level, topic in by_level.items())
    text = f"""\
-- in logs: feed {logs}
--   json: level STRING, n INT
--   dead letters: {dead}
-- out: feeds
SELECT CASE level {cases} END AS topic, n FROM logs
"""
    reports, stops = run_file(spark, feeds, tmp_path / "levels.sql", text)
    assert feeds.rows(by_level["info"]) == [{"n": 1}, {"n": 4}]
    assert feeds.rows(by_level["error"]) == [{"n": 2}]
    letters = feeds.read(dead)
    assert [len(letter.value or b"") for letter in letters] == [22, 900 * 1024, 31]
    said = dict(letters[1].headers)
    assert said["headrace.dead-letter.offset"] == b"3"
    assert said["headrace.dead-letter.topic"] == logs.encode()
    assert said["headrace.dead-letter.bytes"] == b"950000"
    assert [stop.query for stop in stops] == ["levels", "dead letters of logs"]
    out = {each.query: each.rows_out for each in reports}
    assert out == {"levels": 3, "dead letters of logs": 3}
    assert {each.query: each.bad_rows for each in reports}["levels"] == 3

    # What is clean is read once: the dead letters' query hears of it and reads nothing of it.
    feeds.write(logs, [{"level": "info", "n": number} for number in range(5, 3000)])
    feeds.write(logs, [b"{poison"])
    reports = []
    run(  # without a trigger: both queries run at the same time
        spark,
        read_spec(str(tmp_path / "levels.sql"), text, {}),
        feeds.brokers,
        tell=reports.append,
        should_stop=lambda: any(each.rows_out for each in reports if each.query == stops[1].query),
    )
    rows_in = {
        name: sum(each.rows_in for each in reports if each.query == name)
        for name in ("levels", stops[1].query)
    }
    assert rows_in["levels"] == 2996
    assert 0 < rows_in["dead letters of logs"] <= BLOCK_OFFSETS
    assert [letter.value for letter in feeds.read(dead)[3:]] == [b"{poison"]


def test_what_is_expected_of_rows(
    spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path
) -> None:
    orders, dead, good = make_topic(), make_topic(), make_topic()
    feeds.write(
        orders,
        [
            {"id": 1, "amount": 5},
            {"id": 2, "amount": -5},
            {"id": 3},
            {"id": -4, "amount": 7},
            b"no JSON",
            {"id": -6, "amount": -7},
        ],
    )
    text = f"""\
-- in orders: feed {orders}
--   json: id INT, amount INT
--   expect: amount > 0 or dead letters
--   expect: id > 0 or drop
--   dead letters: {dead}
-- out: feed {good}
SELECT id FROM orders
"""
    reports, _ = run_file(spark, feeds, tmp_path / "orders.sql", text)
    assert feeds.rows(good) == [{"id": 1}]
    reasons = [dict(letter.headers)["headrace.dead-letter.error"] for letter in feeds.read(dead)]
    assert sorted(reasons)[1:] == [b"not as expected: amount > 0"] * 3
    (main,) = [each for each in reports if each.query == "orders"]
    assert (main.bad_rows, main.violations) == (4, {"amount > 0": 3, "id > 0": 1})

    text = text.replace("id > 0 or drop", "id > 0 or fail").replace(good, make_topic())
    path = tmp_path / "strict.sql"
    path.write_text(f"-- trigger: available now\n{text}")
    stops = run(
        spark,
        read_spec(str(path), path.read_text(), {}),
        feeds.brokers,
        tell=lambda _: None,
        should_stop=lambda: False,
    )
    assert f"not as expected: id > 0: record {orders} 0 3" in str(stops[0].failure)


def test_a_table_out(spark: "SparkSession", feeds: Feeds, make_topic: MakeTopic, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    logs = make_topic()
    text = f"""\
-- in logs: feed {logs}
--   json: service STRING, n INT
-- out: delta table
--   partition by: service
SELECT service, n FROM logs
"""
    feeds.write(logs, [{"service": f"s{number % 3}", "n": number} for number in range(30)])
    reports, _ = run_file(spark, feeds, tmp_path / "table.sql", text)
    assert sum(each.rows_out or 0 for each in reports) == 30
    table = DeltaTable(str(tmp_path / "table"))
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(30))
    assert len(table.file_uris()) == 3
