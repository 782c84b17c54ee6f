"""The Spark program that `tests.spark.fire` does harm to: one feed into another, again and again.

Each line on stdin starts the query, which reads what there is in batches of a few records and ends; a line on
stdout tells how. Tasks are tried four times, as on a cluster.
"""

import json
import sys

from headrace.spark.session import spark_session
from tests.spark.fire_source import FOLDER, TrappedSource

BATCH_RECORDS = 60


def main() -> None:
    plan = json.loads(sys.argv[1])
    config = {"spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "2"}
    spark = spark_session("under fire", master="local[2,4]", config=config, tell=lambda _: None)
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
