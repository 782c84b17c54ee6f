"""Derived feeds, from end to end on a node: what the file says is in the feed that it names."""

import json
import uuid
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from headrace.clients import ConsumerRecord
from headrace.spark.checked_ranges import BLOCK_OFFSETS
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import StoppedQuery, run
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.testing import Cluster
from tests.spark.feeds import Feeds, run_file, run_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # queries of several batches, one after the other

MakeTopic = Callable[..., str]


@pytest.fixture
def feeds(cluster: Cluster) -> Feeds:
    return Feeds(cluster)


class TwoRuns(NamedTuple):
    """What five files said and wrote, run side by side twice: a query starts as slowly alone."""

    folder: Path
    topics: dict[str, str]
    first: list[BatchReport]
    stops: list[StoppedQuery]
    before: dict[str, list[ConsumerRecord]]
    """What the feeds had between the runs."""
    second: list[BatchReport]

    def text(self, name: str) -> str:
        """A file's text, with the topics of this test."""
        return FILES[name].format(**self.topics)

    def reports(self, run: int, name: str) -> list[BatchReport]:
        return [each for each in (self.first, self.second)[run] if each.pipeline == name]


ERRORS = """\
-- in logs: feed {logs}
--   json: service STRING, level STRING, n INT
-- in owners: parquet owners
-- out: feed {errors}
--   key: service
SELECT service, n, owner, record.topic AS origin
FROM logs JOIN owners USING (service)
WHERE level = 'ERROR'
"""
MINUTES = """\
-- in logs: feed {times}
--   json: service STRING, at TIMESTAMP
--   watermark: at, 30 seconds
-- out: feed {minutes}
--   key: service
SELECT service, date_format(window.start, 'HH:mm') AS minute, count(*) AS errors
FROM logs
GROUP BY service, window(at, '1 minute')
"""
PAID = """\
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
CLICKS = """\
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
TABLE = """\
-- in logs: feed {services}
--   json: service STRING, n INT
-- out: delta table
--   partition by: service
SELECT service, n FROM logs
"""
FILES = {
    "errors.sql": ERRORS,
    "minutes.sql": MINUTES,
    "paid.sql": PAID,
    "clicks.py": CLICKS,
    "table.sql": TABLE,
}
PARTITIONS = {"logs": 2, "errors": 2, "times": 1, "minutes": 1, "orders": 2, "payments": 2, "paid": 1}
PARTITIONS |= {"clicks": 1, "counts": 1, "services": 1}


@pytest.fixture(scope="module")
def two_runs(spark: "SparkSession", cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    feeds, folder, mark = Feeds(cluster), tmp_path_factory.mktemp("two-runs"), uuid.uuid4().hex[:8]
    topics = {name: f"{name}-{mark}" for name in PARTITIONS}
    for name, partitions in PARTITIONS.items():
        cluster.create_topic(topics[name], partitions)
    files = {name: text.format(**topics) for name, text in FILES.items()}
    spark.createDataFrame([("web", "anna"), ("db", "ben")], "service STRING, owner STRING").write.parquet(
        str(folder / "owners")
    )
    feeds.write(
        topics["logs"],
        [
            {"service": name, "level": level, "n": number}
            for number in range(10)
            for name in ("web", "db")
            for level in ("INFO", "ERROR")
        ],
    )
    times = ("12:00:05", "12:00:50", "12:01:10", "12:03:00")
    feeds.write(topics["times"], [{"service": "web", "at": f"2026-01-31 {time}"} for time in times])
    feeds.write(topics["orders"], [{"id": number, "at": "2026-01-31 12:00:00"} for number in range(6)])
    paid = [{"order_id": number, "paid_at": "2026-01-31 12:00:30"} for number in range(0, 6, 2)]
    feeds.write(topics["payments"], paid)
    feeds.write(topics["clicks"], [{"user": name} for name in ("anna", "ben", "anna")])
    feeds.write(topics["services"], [{"service": f"s{number % 3}", "n": number} for number in range(30)])
    first, stops = run_files(spark, feeds, folder, files)
    before = {name: feeds.read(topics[name]) for name in ("errors", "minutes")}

    feeds.write(topics["logs"], [{"service": "web", "level": "ERROR", "n": 99}])
    later = ("12:00:07", "12:05:00")
    feeds.write(topics["times"], [{"service": "web", "at": f"2026-01-31 {time}"} for time in later])
    feeds.write(topics["payments"], [{"order_id": 1, "paid_at": "2026-01-31 12:00:40"}])
    feeds.write(topics["clicks"], [{"user": "anna"}])
    second, _ = run_files(spark, feeds, folder, files)
    return TwoRuns(folder, topics, first, stops, before, second)


def test_filter_and_enrich(two_runs: TwoRuns, feeds: Feeds) -> None:
    found = two_runs.before["errors"]
    assert {(record.key, record.partition) for record in found} == {
        (key, record.partition) for key in (b"web", b"db") for record in found if record.key == key
    }
    assert sorted(json.loads(record.value or b"")["n"] for record in found) == sorted([*range(10)] * 2)
    first = json.loads(found[0].value or b"")
    assert first == {
        "service": first["service"],
        "n": first["n"],
        "owner": {"web": "anna", "db": "ben"}[first["service"]],
        "origin": two_runs.topics["logs"],
    }
    reports = two_runs.reports(0, "errors")
    [stop] = [each for each in two_runs.stops if each.query == "errors"]
    assert (sum(each.rows_in for each in reports), sum(each.rows_out or 0 for each in reports)) == (40, 20)
    assert (reports[-1].lag, stop.last_batch) == (0, reports[-1].batch)
    assert sum(stop.ends[two_runs.topics["logs"]].values()) == 40

    # What comes later is read by the next run, and only that.
    assert sum(each.rows_in for each in two_runs.reports(1, "errors")) == 1
    assert len(feeds.read(two_runs.topics["errors"])) == 21


def test_window_with_watermark(two_runs: TwoRuns, feeds: Feeds) -> None:
    # The last minute is open still: nothing says that no more of it will come.
    rows = [json.loads(each.value or b"") for each in two_runs.before["minutes"]]
    assert sorted(rows, key=itemgetter("minute")) == [
        {"service": "web", "minute": "12:00", "errors": 2},
        {"service": "web", "minute": "12:01", "errors": 1},
    ]
    reports = two_runs.reports(0, "minutes")
    assert reports[-1].state_rows == 1
    assert reports[-1].state_bytes > 0
    later = feeds.rows(two_runs.topics["minutes"])[2:]
    assert later == [{"service": "web", "minute": "12:03", "errors": 1}]
    assert sum(each.late_rows for each in two_runs.reports(1, "minutes")) == 1


def test_join_of_two_feeds(two_runs: TwoRuns, feeds: Feeds) -> None:
    """An order that is paid in a later run is in the state that the checkpoint keeps."""
    found = sorted(feeds.rows(two_runs.topics["paid"]), key=lambda row: int(row["id"]))
    assert [(row["id"], row["seconds"]) for row in found] == [(0, 30), (1, 40), (2, 30), (4, 30)]


def test_stateful(spark: "SparkSession", two_runs: TwoRuns, feeds: Feeds) -> None:
    counts, folder = two_runs.topics["counts"], two_runs.folder
    found = [(row["user"], row["clicks"]) for row in feeds.rows(counts)]
    assert sorted(found) == [("anna", 2), ("anna", 3), ("ben", 1)]
    assert found.index(("anna", 2)) < found.index(("anna", 3))
    # Spark repeats a batch whose end it did not see: it is decided already, and nothing is written again.
    commits = folder / "checkpoints/clicks/query/commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    reports, _ = run_file(spark, feeds, folder / "clicks.py", two_runs.text("clicks.py"))
    assert [(each.batch, each.rows_in) for each in reports] == [(last, 1)]
    assert [(row["user"], row["clicks"]) for row in feeds.rows(counts)] == found


def test_a_table_out(two_runs: TwoRuns) -> None:
    from deltalake import DeltaTable

    assert sum(each.rows_out or 0 for each in two_runs.reports(0, "table")) == 30
    table = DeltaTable(str(two_runs.folder / "table"))
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(30))
    assert len(table.file_uris()) == 3


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
