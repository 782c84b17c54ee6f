"""Held records as Arrow columns: those of an ordinary consumer, and how often each has been handed out."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.clients.internals.consumer.completed_fetch import broken
from headrace.clients.internals.share.acquired_fetch import AcquiredFetch
from headrace.records.columns.decode import read_columns
from headrace.records.columns.schema import COLUMNS, arrow, column_schema

DELIVERY_COUNT: Final = "delivery_count"
PLACE: Final = ("topic", "partition", "offset")


class HeldColumns(NamedTuple):
    """What a fetch brought: record batches, the offsets in them, and the offsets where there is no record."""

    batches: list[Any]
    offsets: list[int]
    gaps: set[int]


class ColumnReader:
    """Reads fetches into the columns that were asked for; ValueError for one that does not exist."""

    def __init__(self, columns: Sequence[str] | None) -> None:
        names = [*COLUMNS, DELIVERY_COUNT] if columns is None else list(columns)
        own = [each for each in names if each != DELIVERY_COUNT]
        pa = arrow()
        kinds = {each.name: each for each in column_schema(own)}
        kinds[DELIVERY_COUNT] = pa.field(DELIVERY_COUNT, pa.int16())
        self.schema = pa.schema([kinds[each] for each in names])
        self._read = [*own, "offset"] if "offset" not in own else own

    def read(self, fetch: AcquiredFetch) -> HeldColumns:
        """What the program has not got of a fetch. ClientError for bytes that are broken."""
        found = HeldColumns([], [], set())
        position = fetch.position
        if position is None:
            return found
        try:
            self._read_from(fetch, position, found)
        except InvalidBytesError as error:
            raise broken(fetch.partition, position, error) from error
        if fetch.rows is None:  # who made the rows told the gaps
            found.gaps.update(fetch.offsets.difference(found.offsets))
        return found

    def _read_from(self, fetch: AcquiredFetch, position: int, found: HeldColumns) -> None:
        pa = arrow()
        firsts, lasts, counts = (np.array(each, np.int64) for each in zip(*fetch.ranges, strict=True))
        is_whole = False
        while not is_whole:
            decoded = read_columns(
                fetch.buffer, **fetch.partition._asdict(), from_offset=position, columns=self._read
            )
            offsets = decoded.rows.column("offset").to_numpy()
            at = np.searchsorted(firsts, offsets, side="right") - 1
            is_held = (at >= 0) & (offsets <= lasts[at])
            rows = decoded.rows.append_column(DELIVERY_COUNT, pa.array(counts[at].astype(np.int16)))
            rows = rows.select(self.schema.names).filter(pa.array(is_held))
            if rows.num_rows:
                found.batches.append(rows)
                found.offsets.extend(offsets[is_held].tolist())
            position, is_whole = decoded.next_offset, decoded.is_whole

    def table(self, batches: list[Any]) -> Any:
        """All of them as one pyarrow.Table."""
        return arrow().Table.from_batches(batches, schema=self.schema)


def places_of(table: Any) -> dict[TopicPartition, list[int]]:
    """Which records the rows of a table are; ClientError where its columns do not say."""
    missing = [each for each in PLACE if each not in table.schema.names]
    if missing:
        raise ClientError(
            f"the table has no column {missing[0]!r}: topic, partition and offset say which records are meant"
        )
    places: dict[TopicPartition, list[int]] = {}
    for topic, partition, offset in zip(*(table.column(each).to_pylist() for each in PLACE), strict=True):
        places.setdefault(TopicPartition(topic, partition), []).append(offset)
    return places
