"""What is expected of each trial on each version of Spark."""

from typing import Final, NamedTuple

from tests.spark.versions.environments import VERSIONS


class Row(NamedTuple):
    """A trial, what it is about in words, and what it finds on each version."""

    trial: str
    what: str
    found: dict[str, str]


def _found(*found: str) -> dict[str, str]:
    return dict(zip(VERSIONS, found, strict=True))


_EVERYWHERE: Final = _found("yes", "yes", "yes", "yes")
NO_JAR: Final = "no jar yet"
ROWS: Final = (
    Row("batch_write", "batch writes, at least once and exactly once", _EVERYWHERE),
    Row("batch_read", "batch reads", _EVERYWHERE),
    Row(
        "filters",
        "filters on partition, offset and time are applied by",
        _found("Spark", "source", "source", "source"),
    ),
    Row("sql_tables", "`CREATE TABLE … USING headrace`", _EVERYWHERE),
    Row("stream_read", "streams, restarted, with `availableNow`", _EVERYWHERE),
    Row("stream_from_latest", "`startingOffsets=latest`, fixed by the first batch", _EVERYWHERE),
    Row(
        "stream_that_runs",
        "streams that run on, new partitions; progress is",
        _found("without lag", "without lag", "with lag", "with lag"),
    ),
    Row(
        "limits", "`maxOffsetsPerTrigger`, `minOffsetsPerTrigger`", _found("refused", "refused", "yes", "yes")
    ),
    Row("stream_write", "streams written exactly once", _EVERYWHERE),
    Row("topic_made_again", "a topic made again is told apart", _EVERYWHERE),
    Row("loads", "loads into Parquet, Delta and Iceberg, union reads", _EVERYWHERE),
    Row("pipeline_file", "pipeline files, with dead letters", _EVERYWHERE),
    Row("merge_into_delta", "`MERGE` into Delta by its own jar", _found("yes", "yes", "yes", NO_JAR)),
    Row("merge_into_iceberg", "`MERGE` into Iceberg by its own jar", _found("yes", "yes", NO_JAR, NO_JAR)),
    Row(
        "read_changed_delta",
        "Delta tables of loads whose schema has changed, read by its own jar",
        _found("yes", "yes", "yes", NO_JAR),
    ),
    Row(
        "read_changed_iceberg",
        "Iceberg tables of loads whose schema has changed, read by its own jar",
        _found("yes", "yes", NO_JAR, NO_JAR),
    ),
)


def as_markdown() -> str:
    """As docs/spark-clusters.md has it."""
    lines = [f"| | {' | '.join(VERSIONS)} |", f"|---|{'---|' * len(VERSIONS)}"]
    lines += [f"| {row.what} | {' | '.join(row.found[each] for each in VERSIONS)} |" for row in ROWS]
    return "\n".join(lines) + "\n"
