"""Streaming reads of Spark 4.0 and 4.1, which ask how far there are records, and take all of them at once.

They do not say where the batch begins: it begins where the batch before ended, which this process knows once
it has planned one. After a restart Spark first has the last end planned again, as an empty range; should it
ask for an end before that, the answer has what batch 0 begins with in case that it is batch 0 (`@first`), and
topics that were made again are found when the tasks are planned.

Limits cannot be kept: an end short of the last record would be the end of an availableNow query.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from headrace.base.clock import Clock
from headrace.spark.abilities import needs_newer
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions
from headrace.spark.stream_offset import StreamOffset
from headrace.spark.stream_plan import PlannedStreamReader


class WholeStreamReader(PlannedStreamReader):
    """Without limits; availableNow is one batch."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        # A batch cannot end where another query has got to, so all is read that this query may want.
        super().__init__(replace(options, checked_file=None), schema, clock)
        self._last: dict[str, Any] | None = None
        for name, value in (
            ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
            ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
        ):
            if value is not None:
                raise OptionError(
                    needs_newer(
                        f"option {name}", "4.2", "leave it out, and each batch reads all that is there"
                    )
                )

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._last is None:
            return self._planning.end_of_all().to_json()
        begin = StreamOffset.from_json(self._last)
        end = self._planning.advance(begin)
        # Spark compares texts: the same offset has to be the same text.
        return self._last if end is begin else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks = super().partitions(start, end)
        self._last = end
        return tasks
