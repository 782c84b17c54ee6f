"""Topics as DataFrames, on Spark and without a jar: a source, a sink, pipelines and loads.

    from headrace.spark.session import spark_session

    spark = spark_session("orders")
    orders = (
        spark.read.format("headrace")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()
    )

The options are those of Spark's Kafka connector (`options.py`). The format is found where the module
`pyspark_headrace` can be imported; `register` makes it known where that is not so.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("headrace")` known to a session that has not found it by itself."""
    from pyspark.errors import AnalysisException

    from headrace.spark.data_source import HeadraceDataSource
    from headrace.spark.loads.stores import share_settings

    share_settings(spark)
    try:
        spark.dataSource.register(HeadraceDataSource)
    except AnalysisException as error:
        # Spark 4.0 refuses a name that it knows, and it knows this one: it found the module.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
