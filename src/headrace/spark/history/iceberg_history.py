"""A history in Iceberg: offsets are a property of the table, set in the commit that adds the batch's files.

Properties and the current snapshot are in the same metadata file, which is what is pinned here.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.spark.history.held import HELD_PROPERTY, Holdings, holdings_from_text
from headrace.spark.history.snapshot import Bounds, HistoryFile
from headrace.spark.loads.errors import StoreError
from headrace.spark.loads.iceberg_catalog import IDENTIFIER, is_in_catalog, table_in
from headrace.spark.loads.stores import shared_settings
from headrace.spark.option_values import OptionError

_BOUNDED: Final = ("partition", "offset", "timestamp")


class IcebergSnapshot:
    """See `HistorySnapshot`."""

    def __init__(self, location: str) -> None:
        try:
            self._table = table_in(location, shared_settings())
        except StoreError as error:
            raise OptionError(f"option history={location}: {error}") from error
        if self._table is None:
            name = "such table" if is_in_catalog(location) else f"table {IDENTIFIER}"
            raise OptionError(f"option history={location}: the catalogue there has no {name}")
        snapshot = self._table.metadata.current_snapshot_id
        self.place = f"snapshot {snapshot} of the Iceberg table {location}"

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        return holdings_from_text(self._table.properties.get(HELD_PROPERTY), partitions)

    def schema(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def files(self) -> Sequence[HistoryFile]:
        return self._files

    @cached_property
    def _files(self) -> list[HistoryFile]:
        schema = self._table.schema()
        fields = [schema.find_field(name) for name in _BOUNDED]
        found = []
        for task in self._table.scan().plan_files():
            if task.delete_files:
                raise OptionError(f"{self.place} has delete files: rows were deleted, it is no history")
            bounds = {field.name: own for field in fields if (own := _bounds(task.file, field)) is not None}
            location = task.file.file_path.removeprefix("file://")
            found.append(HistoryFile(location, task.file.file_size_in_bytes, bounds))
        return found


def _bounds(file: Any, field: Any) -> Bounds | None:
    from pyiceberg.conversions import from_bytes

    least, greatest = (
        (file.lower_bounds or {}).get(field.field_id),
        (file.upper_bounds or {}).get(field.field_id),
    )
    if least is None or greatest is None:
        return None
    kind: Any = field.field_type
    return Bounds(int(from_bytes(kind, least)), int(from_bytes(kind, greatest)))
