"""`format("headrace")`: the door between Spark and source and sink.

Spark makes one of these for every read and write, in a process of its own, and asks it for a schema, a reader
or a writer. All the work is elsewhere: each kind of reader and writer is imported when it is asked for.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from headrace.spark.abilities import LIMITS_BATCHES
from headrace.spark.columns import spark_schema
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions, read_columns, read_options, write_options
from headrace.spark.table_options import kept_options, with_options
from headrace.spark.worker import spare_modules

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class HeadraceDataSource(DataSource):
    """Topics of headrace or Apache Kafka as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        spare_modules()
        return with_options(spark_schema(read_columns(self.options)), self.options)

    def reader(self, schema: StructType) -> "DataSourceReader":
        from headrace.spark.batch_reader import HeadraceBatchReader

        spare_modules()
        return HeadraceBatchReader(self._read_options(schema, streaming=False), schema)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802 (Spark's name)
        options = self._read_options(schema, streaming=True)
        if LIMITS_BATCHES:
            from headrace.spark.stream_reader import HeadraceStreamReader

            return HeadraceStreamReader(options, schema)
        from headrace.spark.whole_stream_reader import WholeStreamReader

        return WholeStreamReader(options, schema)

    def _read_options(self, schema: StructType, *, streaming: bool) -> ReadOptions:
        options = kept_options(schema, self.options)
        if not options:
            raise OptionError(
                "no options: Spark hands none of a table's to a source, so they are kept with its columns. "
                "Create the table without naming columns: CREATE TABLE … USING headrace OPTIONS (…)"
            )
        return read_options(options, streaming=streaming)

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        from headrace.spark.sink.writers import HeadraceBatchWriter

        spare_modules()
        return HeadraceBatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        from headrace.spark.sink.writers import HeadraceStreamWriter

        return HeadraceStreamWriter(write_options(self.options), schema, overwrite)
