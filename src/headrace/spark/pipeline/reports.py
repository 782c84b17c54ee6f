"""What is told about a batch: rows in and out, lag, time, state. From Spark's progress, as plain numbers."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.spark.pipeline.plan import OBSERVED


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch of one query. `rows_out` and `lag` are None where nobody could tell."""

    query: str
    batch: int
    rows_in: int
    rows_out: int | None
    lag: int | None
    duration_ms: int
    state_rows: int
    state_bytes: int
    late_rows: int
    """Dropped, as they came later than the watermark allows."""
    ends: Mapping[str, Mapping[str, int]]
    """Where the batch ended, by topic and partition."""

    def as_json(self) -> dict[str, Any]:
        return {"event": "batch", **asdict(self)}


def batch_report(query: str, progress: Mapping[str, Any]) -> BatchReport:
    """A report of what Spark's `StreamingQueryProgress` says as JSON."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    state = progress.get("stateOperators") or []
    sources = progress.get("sources") or []
    ends: dict[str, Mapping[str, int]] = {}
    for source in sources:
        ends.update(_topics(_parsed(source.get("endOffset"))))
    lags = [_lag(source) for source in sources]
    known = [each for each in lags if each is not None]
    return BatchReport(
        query,
        int(progress["batchId"]),
        int(progress.get("numInputRows") or 0),
        None if observed is None else int(observed["rows"]),
        sum(known) if known else None,
        int((progress.get("durationMs") or {}).get("triggerExecution", 0)),
        sum(int(each.get("numRowsTotal", 0)) for each in state),
        sum(int(each.get("memoryUsedBytes", 0)) for each in state),
        sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in state),
        ends,
    )


def _parsed(offset: Any) -> dict[str, Any]:
    if isinstance(offset, str):
        offset = json.loads(offset)
    return offset if isinstance(offset, dict) else {}


def _topics(offset: Mapping[str, Any]) -> dict[str, Mapping[str, int]]:
    return {
        name: each for name, each in offset.items() if not name.startswith("@") and isinstance(each, dict)
    }


def _lag(source: Mapping[str, Any]) -> int | None:
    """How far the batch's end is behind the feed's."""
    latest = _parsed(source.get("latestOffset"))
    if not latest:
        return None
    ends = _topics(_parsed(source.get("endOffset")))
    lag = 0
    for topic, numbers in _topics(latest).items():
        for partition, number in numbers.items():
            lag += max(0, number - ends.get(topic, {}).get(partition, number))
    return lag
