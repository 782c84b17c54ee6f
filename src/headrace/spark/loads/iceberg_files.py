"""Data files of an Iceberg table, read and written as rows of Arrow.

pyiceberg reads and writes files too, but what it brings to a table's columns has lost which lists and maps of
structs are null: they come out empty (`ArrowProjectionVisitor`). So files are read here, projected by its
visitor with the nulls put back, and written as a load's files are: columns by their names, which the table's
name mapping leads to their ids (specification, "Column Projection").
"""

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    ArrowScan,
    _determine_partitions,
    parquet_files_to_data_files,
    pyarrow_to_schema,
)
from pyiceberg.schema import visit_with_partner
from pyiceberg.table import TableProperties

from headrace.spark.loads.schema_changes import plain_schema


class _Projection(ArrowProjectionVisitor):
    """To a table's columns, by their ids."""

    def list(self, list_type: Any, list_array: Any, value_array: Any) -> Any:
        return _with_nulls(super().list(list_type, list_array, value_array), list_array)

    def map(self, map_type: Any, map_array: Any, key_result: Any, value_result: Any) -> Any:
        return _with_nulls(super().map(map_type, map_array, key_result, value_result), map_array)


def _with_nulls(made: Any, given: Any) -> Any:
    if made is None or not given.null_count:
        return made
    return pc.if_else(given.is_valid(), made, pa.scalar(None, made.type))


class Files:
    """Files of a table as it is in the middle of a transaction."""

    def __init__(self, metadata: Any, io: Any) -> None:
        self._metadata = metadata
        self._io = io

    def rows(self, task: Any, columns: Sequence[str] = ()) -> Any:
        """Of one file, without those that are deleted by other files, in the table's columns or some."""
        from pyiceberg.expressions import AlwaysTrue

        schema = self._metadata.schema()
        wanted = schema.select(*columns) if columns else schema
        if task.delete_files:
            return ArrowScan(self._metadata, self._io, wanted, AlwaysTrue()).to_table([task])
        with self._io.new_input(task.file.file_path).open() as opened:
            file = pq.ParquetFile(opened)
            mapping = self._metadata.name_mapping() or schema.name_mapping
            known = pyarrow_to_schema(file.schema_arrow, name_mapping=mapping)
            ids = {each.field_id for each in wanted.fields}
            names = [each.name for each in known.fields if each.field_id in ids]
            raw = file.read(columns=names)
        projection, accessor = _Projection(known), ArrowAccessor(known)
        found = [
            pa.RecordBatch.from_struct_array(visit_with_partner(wanted, batch, projection, accessor))
            for batch in raw.to_batches()
        ]
        return pa.Table.from_batches(found) if found else wanted.as_arrow().empty_table()

    def write(self, rows: Any) -> tuple[Any, ...]:
        """A new file for each of the table's partitions that has some of the rows; none for no rows."""
        if not rows.num_rows:
            return ()
        rows = rows.cast(plain_schema(rows.schema))
        schema, spec = self._metadata.schema(), self._metadata.spec()
        parts = [rows]
        if not spec.is_unpartitioned():
            parts = [each.arrow_table_partition for each in _determine_partitions(spec, schema, rows)]
        paths = [self._written(each) for each in parts]
        return tuple(parquet_files_to_data_files(self._io, self._metadata, iter(paths)))

    def _written(self, rows: Any) -> str:
        place = f"{self._metadata.location.rstrip('/')}/data/merged-{uuid.uuid4().hex}.parquet"
        with self._io.new_output(place).create() as file:
            pq.write_table(rows, file)
        return place


def name_columns(transaction: Any) -> None:
    """Have the table say which names its columns have in files without ids."""
    metadata = transaction.table_metadata
    if metadata.name_mapping() is None:
        mapping = metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
