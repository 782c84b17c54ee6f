"""The Spark program that `tests.spark.fire` does harm to: one feed into another, again and again.

Each line on stdin starts the query, which reads what there is in batches of a few records and ends; a line on
stdout tells how. Tasks are tried four times, as on a cluster. Speculation is something that Spark does on
clusters only (`fire_cluster`).
"""

import json
import sys

from headrace.spark.session import LOCAL_SETTINGS, prepare_environment, spark_session
from tests.spark import fire_cluster
from tests.spark.fire_source import FOLDER, TrappedSource

BATCH_RECORDS = 45


def main() -> None:
    plan = json.loads(sys.argv[1])
    config = {"spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2"}
    if not plan["master"].startswith("local"):
        prepare_environment()
        config |= LOCAL_SETTINGS | fire_cluster.SETTINGS
    spark = spark_session("under fire", master=plan["master"], config=config, tell=lambda _: None)
    spark.dataSource.register(TrappedSource)
    options = {"kafka.bootstrap.servers": plan["bootstrap"], FOLDER: plan["traps"]}
    print("ready", flush=True)
    for _ in sys.stdin:
        stream = spark.readStream.format("trapped").options(**options).option("subscribe", plan["in"])
        rows = (
            stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH_RECORDS).load()
        )
        writer = rows.select("key", "value").writeStream.format("trapped").options(**options)
        query = (
            writer.option("topic", plan["out"])
            .option("delivery", plan["delivery"])
            .option("checkpointLocation", plan["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            print("ended", flush=True)
        except Exception as error:
            print("failed " + json.dumps(str(error)[:2000]), flush=True)


if __name__ == "__main__":
    main()
