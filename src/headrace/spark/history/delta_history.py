"""A history in Delta: offsets are application transactions of the batch's commit.

Delta keeps a number for each application id (`txn` actions), replaces it with the commit that says a new one,
and carries it over into its checkpoints: compactions, other writers and the cleaning of the log leave it as
it is:

    headrace.held/orders/0/end             47
    headrace.held/orders/0/first           12     where it is not 0
    headrace.held/orders/0/complete-from   20     where records before it were passed over
    headrace.held/orders/id                …      the topic's id, as a number

Asking for one takes a walk over the log of the table, so there is a mark for the rare ones.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from headrace.base.ids import TopicPartition
from headrace.spark.history.held import HeldRange, Holdings
from headrace.spark.history.snapshot import Bounds, HistoryFile
from headrace.spark.loads.stores import delta_options, shared_settings
from headrace.spark.option_values import OptionError

_PREFIX: Final = "headrace.held/"
_IS_LATE: Final = f"{_PREFIX}late"
_HAS_GAPS: Final = f"{_PREFIX}gaps"
_BOUNDED: Final = ("partition", "offset", "timestamp")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def held_transactions(held: Holdings) -> dict[str, int]:
    """What a commit has to say, by application id."""
    found = {f"{_PREFIX}committed": int(held.is_committed)}
    for topic, number in held.ids.items():
        found[f"{_PREFIX}{topic}/id"] = number
    for each, (first, end, complete_from) in held.ranges.items():
        name = f"{_PREFIX}{each.topic}/{each.partition}"
        found[f"{name}/end"] = end
        if first != 0:
            found |= {f"{name}/first": first, _IS_LATE: 1}
        if complete_from != first:
            found |= {f"{name}/complete-from": complete_from, _HAS_GAPS: 1}
    return found


def delta_holdings(table: Any, partitions: Sequence[TopicPartition]) -> Holdings:
    """What this version of a table says about these partitions."""
    number_of: Callable[[str], int | None] = table.transaction_version
    names = {each: f"{_PREFIX}{each.topic}/{each.partition}" for each in partitions}
    ends = {each: end for each, name in names.items() if (end := number_of(f"{name}/end")) is not None}
    if not ends:
        return Holdings()
    is_late, has_gaps = number_of(_IS_LATE), number_of(_HAS_GAPS)
    ranges = {}
    for each, end in ends.items():
        first = (number_of(f"{names[each]}/first") if is_late else None) or 0
        complete_from = number_of(f"{names[each]}/complete-from") if has_gaps else None
        ranges[each] = HeldRange(first, end, first if complete_from is None else complete_from)
    ids = {topic: number_of(f"{_PREFIX}{topic}/id") for topic in {each.topic for each in ranges}}
    known = {topic: number for topic, number in ids.items() if number is not None}
    return Holdings(ranges, known, number_of(f"{_PREFIX}committed") == 1)


class DeltaSnapshot:
    """See `HistorySnapshot`."""

    def __init__(self, location: str) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            self._table = DeltaTable(location, storage_options=delta_options(location, shared_settings()))
        except TableNotFoundError as error:
            raise OptionError(f"option history={location}: there is no table of Delta: {error}") from None
        self._location = location.rstrip("/")
        self.place = f"version {self._table.version()} of the Delta table {location}"

    def holdings(self, partitions: Sequence[TopicPartition]) -> Holdings:
        return delta_holdings(self._table, partitions)

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def files(self) -> Sequence[HistoryFile]:
        return self._files

    @cached_property
    def _files(self) -> list[HistoryFile]:
        if "deletionVectors" in (self._table.protocol().reader_features or ()):
            deleted = pa.table(self._table.deletion_vectors().read_all())
            if deleted.num_rows:
                raise OptionError(f"{self.place} has deletion vectors: rows were deleted, it is no history")
        actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [self._file(each) for each in actions]

    def _file(self, action: dict[str, Any]) -> HistoryFile:
        constants = {
            name.removeprefix("partition."): value
            for name, value in action.items()
            if name.startswith("partition.")
        }
        bounds = {}
        for name in _BOUNDED:
            least, greatest = _number(action.get(f"min.{name}")), _number(action.get(f"max.{name}"))
            if least is not None and greatest is not None:
                bounds[name] = Bounds(least, greatest)
        path = unquote(action["path"])  # the log has paths as URIs have them
        location = path if "://" in path else f"{self._location}/{path}"
        return HistoryFile(location, action["size_bytes"], bounds, constants)


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        value = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int((value - _EPOCH) / timedelta(microseconds=1))
    return value if isinstance(value, int) else None
