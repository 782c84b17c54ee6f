"""The Spark program of the demonstration: two derived feeds and a table, each a streaming query.

    python -m headrace.spark.demo.job PLAN

PLAN is a JSON object (`Plan`). The program tells what it is at, one JSON object a line on stdout, and
listens on stdin: `finish` lets the queries read what there is and ends them; the end of input, as when
the other side has died, ends them at once. It knows nothing of the account that is made of its work.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, SESSIONS, TABLE, USERS, WATERMARK_MS
from headrace.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOG_LINE: Final = (
    "number long, at_ms long, service string, level string, status int, latency_ms double, path string, "
    "session string, user string, message string"
)
SESSION: Final = "session long, user string, device string, started_ms long"
USER: Final = "id string, name string, plan string, country string, since_ms long"

_WATERMARK: Final = f"{WATERMARK_MS} milliseconds"
# How long a session waits for its user. Users that are there are kept for good.
_USER_COMES_WITHIN: Final = "interval 1 minute"
_FEED_TRIGGER: Final = "1 second"
# Fewer and larger files than a batch a second would make.
_TABLE_TRIGGER: Final = "3 seconds"
_REPORT_S: Final = 0.5

Publish = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the program is told: the cluster, where feeds begin, and a folder for table and checkpoints."""

    bootstrap_servers: str
    starts: dict[str, dict[str, int]]
    folder: str
    master: str = "local[*]"

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class Pipeline:
    """The three queries over a session."""

    def __init__(self, spark: "SparkSession", plan: Plan) -> None:
        self._spark = spark
        self._plan = plan

    def start(self) -> "list[StreamingQuery]":
        logs = self.feed(LOGS, LOG_LINE)
        return [
            self._to_feed(ERRORS, errors_per_minute(logs)),
            self._to_feed(JOINED, sessions_with_users(self.feed(SESSIONS, SESSION), self.feed(USERS, USER))),
            self._to_table(TABLE, logs),
        ]

    def feed(self, topic: str, schema: str) -> "DataFrame":
        """A feed's JSON values as columns, beside the place of each record."""
        from pyspark.sql import functions as F  # noqa: N812

        records = (
            self._spark.readStream.format("headrace")
            .option("kafka.bootstrap.servers", self._plan.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", json.dumps({topic: self._plan.starts[topic]}))
            .load()
        )
        value = F.from_json(F.col("value").cast("string"), schema).alias("v")
        return records.select("partition", "offset", "timestamp", value).select(
            "partition", "offset", "timestamp", "v.*"
        )

    def _to_feed(self, topic: str, records: "DataFrame") -> "StreamingQuery":
        return (
            records.writeStream.format("headrace")
            .queryName(topic)
            .option("kafka.bootstrap.servers", self._plan.bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", f"{self._plan.folder}/checkpoints/{topic}")
            .trigger(processingTime=_FEED_TRIGGER)
            .start()
        )

    def _to_table(self, name: str, rows: "DataFrame") -> "StreamingQuery":
        return (
            rows.coalesce(1)
            .writeStream.format("parquet")
            .queryName(name)
            .option("path", f"{self._plan.folder}/{name}")
            .option("checkpointLocation", f"{self._plan.folder}/checkpoints/{name}")
            .trigger(processingTime=_TABLE_TRIGGER)
            .start()
        )


def errors_per_minute(logs: "DataFrame") -> "DataFrame":
    """How many errors each service had in each minute, once the minute is over.

    All lines are counted over, not errors alone: Spark moves a filter before the watermark, and then only
    errors would tell it that time has passed.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return (
        logs.withColumn("at", F.timestamp_millis("at_ms"))
        .withWatermark("at", _WATERMARK)
        .groupBy("service", F.window("at", "1 minute"))
        .agg(F.count_if(F.col("level") == "ERROR").alias("errors"))
        .where("errors > 0")
        .select("service", F.unix_millis("window.start").alias("minute_ms"), "errors")
        .select(
            F.col("service").cast("binary").alias("key"),
            F.to_json(F.struct("service", "minute_ms", "errors")).cast("binary").alias("value"),
        )
    )


def sessions_with_users(sessions: "DataFrame", users: "DataFrame") -> "DataFrame":
    """Each session with its user's name, plan and country."""
    from pyspark.sql import functions as F  # noqa: N812

    begun = sessions.select("session", "user", "device", F.timestamp_millis("started_ms").alias("started"))
    known = users.select("id", "name", "plan", "country", F.timestamp_millis("since_ms").alias("since"))
    same = F.expr(f"user = id AND since <= started + {_USER_COMES_WITHIN}")
    joined = begun.withWatermark("started", _WATERMARK).join(known.withWatermark("since", _WATERMARK), same)
    return joined.select(
        F.col("user").cast("binary").alias("key"),
        F.to_json(F.struct("session", "user", "device", "name", "plan", "country"))
        .cast("binary")
        .alias("value"),
    )


def progress_of(query: "StreamingQuery") -> dict[str, Any] | None:
    """The figures of a query's last batch, or None before there is one."""
    last = query.lastProgress
    if last is None:
        return None
    return {
        "query": query.name,
        "batch": last["batchId"],
        "rows": last["numInputRows"],
        "batch_ms": last["durationMs"].get("triggerExecution", 0),
        "state_rows": sum(each["numRowsTotal"] for each in last["stateOperators"]),
        "ends": [json.loads(each["endOffset"] or "{}") for each in last["sources"]],
    }


def run(plan: Plan, lines: Iterable[str], tell: Publish) -> None:
    """Start, report, and end as `lines` say."""
    tell("step", text="starting Spark's JVM")
    config = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    spark = spark_session("headrace demo", master=plan.master, config=config, tell=lambda _: None)
    tell("step", text="planning the queries")
    queries = Pipeline(spark, plan).start()
    tell("step", text="first batches")
    is_over = threading.Event()
    reporter = threading.Thread(target=_report, args=(queries, tell, is_over), daemon=True)
    reporter.start()
    try:
        for line in lines:
            if line.strip() == "finish":
                for query in queries:
                    query.processAllAvailable()
                break
    finally:
        is_over.set()
        for query in queries:
            query.stop()
        reporter.join()
        spark.stop()
    tell("done")


def _report(queries: "list[StreamingQuery]", tell: Publish, is_over: threading.Event) -> None:
    told: dict[str, Any] = {}
    while not is_over.wait(_REPORT_S):
        for query in queries:
            error = query.exception()
            if error is not None:
                tell("failed", text=f"query {query.name}: {error}")
                return
            now = progress_of(query)
            if now is not None and told.get(query.name) != now:
                told[query.name] = now
                tell("progress", **now)


def _to_stdout(kind: str, **details: Any) -> None:
    print(json.dumps({"kind": kind, **details}), flush=True)


def main() -> None:
    """The entry point."""
    plan = Plan(**json.loads(sys.argv[1]))
    run(plan, sys.stdin, _to_stdout)


if __name__ == "__main__":
    main()
