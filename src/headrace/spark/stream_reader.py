"""Streaming reads where Spark says where a batch begins and how large it may be: from Spark 4.2 on.

Planning is in a process that lasts as long as the query (`stream_plan.py`).
"""

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.spark.stream_offset import StreamOffset
from headrace.spark.stream_plan import PlannedStreamReader


class HeadraceStreamReader(PlannedStreamReader, SupportsTriggerAvailableNow):
    """With limits, and with availableNow in as many batches as they ask for."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's names, here and below)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planning.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = StreamOffset.from_json(start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        may_wait = not isinstance(limit, ReadAllAvailable)
        end = self._planning.advance(begin, rows_max=rows_max, may_wait=may_wait)
        # Spark compares texts: the same offset has to be the same text.
        return start if end is begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._planning.lag()
