"""What is told about a batch: rows in and out, lag, time, state. From Spark's progress, as plain numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.spark.pipeline.expectations import COUNTED
from headrace.spark.pipeline.plan import OBSERVED, OBSERVED_IN
from headrace.spark.source_progress import told_offset


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
    bad_rows: int = 0
    """Records that could not be parsed, whether they went to dead letters or were left out."""
    tombstones: int = 0
    """Records without a value that came in."""
    violations: Mapping[str, int] = field(default_factory=dict)
    """Rows that were not as expected, by condition; those that went to dead letters are bad rows too."""
    pipeline: str = ""
    started: str = ""
    """When it began, as Spark says it: 2026-01-31T12:00:00.000Z."""
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    """How long it was at what, under Spark's names; `triggerExecution`, which is all of it, is not there."""

    def as_json(self) -> dict[str, Any]:
        return {"event": "batch", **asdict(self)}


def batch_report(query: str, progress: Mapping[str, Any], pipeline: str = "") -> BatchReport:
    """A report of what Spark's `StreamingQueryProgress` says as JSON."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    state = progress.get("stateOperators") or []
    sources = progress.get("sources") or []
    ends: dict[str, Mapping[str, int]] = {}
    for source in sources:
        ends.update(_topics(told_offset(source.get("endOffset"))))
    lags = [_lag(source) for source in sources]
    known = [each for each in lags if each is not None]
    phases = {name: int(each) for name, each in (progress.get("durationMs") or {}).items()}
    duration_ms = phases.pop("triggerExecution", 0)
    return BatchReport(
        query,
        int(progress["batchId"]),
        int(progress.get("numInputRows") or 0),
        None if observed is None else int(_as_mapping(observed)["rows"]),
        sum(known) if known else None,
        duration_ms,
        sum(int(each.get("numRowsTotal", 0)) for each in state),
        sum(int(each.get("memoryUsedBytes", 0)) for each in state),
        sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in state),
        ends,
        _counted(progress, "bad"),
        _counted(progress, "tombstones"),
        _violations(progress),
        pipeline,
        str(progress.get("timestamp") or ""),
        phases,
    )


def _violations(progress: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, counts in (progress.get("observedMetrics") or {}).items():
        for what, count in _as_mapping(counts).items() if name.startswith(OBSERVED_IN) else ():
            if what.startswith(COUNTED) and count:
                condition = what.removeprefix(COUNTED)
                found[condition] = found.get(condition, 0) + int(count)
    return found


def _counted(progress: Mapping[str, Any], what: str) -> int:
    """The sum over all inputs of what was counted there."""
    observed = progress.get("observedMetrics") or {}
    counts = [dict(_as_mapping(each)) for name, each in observed.items() if name.startswith(OBSERVED_IN)]
    return sum(int(each.get(what) or 0) for each in counts)


def input_counts(progress: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """What was counted of one input; None where nothing was."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED_IN + name)
    return None if observed is None else _as_mapping(observed)


def _as_mapping(given: Any) -> Mapping[str, Any]:
    """A row of counts. Through Connect, Spark 4.3 tells of its values and of its schema instead."""
    found: Mapping[str, Any] = given.asDict() if hasattr(given, "asDict") else given
    if found.keys() != {"schema", "values"}:
        return found
    return dict(zip((each["name"] for each in found["schema"]["fields"]), found["values"], strict=True))


def _topics(offset: Mapping[str, Any]) -> dict[str, Mapping[str, int]]:
    return {
        name: each for name, each in offset.items() if not name.startswith("@") and isinstance(each, dict)
    }


def _lag(source: Mapping[str, Any]) -> int | None:
    """How far the batch's end is behind the feed's."""
    latest = told_offset(source.get("latestOffset"))
    if not latest:
        return None
    ends = _topics(told_offset(source.get("endOffset")))
    lag = 0
    for topic, numbers in _topics(latest).items():
        for partition, number in numbers.items():
            lag += max(0, number - ends.get(topic, {}).get(partition, number))
    return lag
