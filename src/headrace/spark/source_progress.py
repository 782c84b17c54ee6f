"""What a query's progress says about a source: where its topics end, how far it is behind, and what it reads.

Spark's Kafka connector tells this by `sources[].metrics` and `sources[].description`. A source in Python has
no say in these: of all that Spark asks one (`python_streaming_source_runner`), only the answer to
`reportLatestOffset` is shown, as `sources[].latestOffset`. So they are in there, beside the offsets, under
the connector's names and in its form:

    {"orders": {"0": 10}, "@lag": {"orders": {"0": 4}}, "@description": "headrace[Subscribe[orders]]",
     "@metrics": {"minOffsetsBehindLatest": "4", "maxOffsetsBehindLatest": "4",
                  "avgOffsetsBehindLatest": "4.0"}}

`source_metrics` takes them out again.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.spark.offsets import offsets_json
from headrace.spark.options import ReadOptions

LAG: Final = "@lag"
METRICS: Final = "@metrics"
DESCRIPTION: Final = "@description"


class SourceMetrics(NamedTuple):
    """What the connector has in `sources[].description` and `sources[].metrics`."""

    description: str
    metrics: dict[str, str]


def source_metrics(progress: Mapping[str, Any]) -> list[SourceMetrics]:
    """Of each of our sources in a query's progress, which is as `StreamingQueryProgress.json` has it."""
    found = []
    for source in progress.get("sources") or ():
        told = told_offset(source.get("latestOffset"))
        if METRICS in told:
            found.append(SourceMetrics(told[DESCRIPTION], dict(told[METRICS])))
    return found


def told_offset(told: object) -> dict[str, Any]:
    """An offset as a progress has it: a dict or its text, which is Python's and not JSON before Spark 4.2."""
    found: Any = told
    if isinstance(told, str) and told:
        try:
            found = json.loads(told)
        except ValueError:
            found = ast.literal_eval(told)
    return found if isinstance(found, dict) else {}


def lag_json(
    latest: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], description: str
) -> dict[str, Any]:
    """What is told once a batch that ends there is planned, and the partitions end at `latest`."""
    lags = {each: max(0, end - ends.get(each, end)) for each, end in latest.items()}
    return {
        **offsets_json(latest),
        LAG: offsets_json(lags),
        METRICS: {
            "minOffsetsBehindLatest": str(min(lags.values(), default=0)),
            "maxOffsetsBehindLatest": str(max(lags.values(), default=0)),
            "avgOffsetsBehindLatest": str(sum(lags.values()) / max(1, len(lags))),
        },
        DESCRIPTION: description,
    }


def described(options: ReadOptions) -> str:
    """A source in the connector's form, which is KafkaV2[Subscribe[orders]] there."""
    selection = options.selection
    if selection.pattern is not None:
        what = f"SubscribePattern[{selection.pattern}]"
    elif selection.partitions:
        what = f"Assign[{', '.join(map(str, selection.partitions))}]"
    else:
        what = f"Subscribe[{', '.join(selection.topics)}]"
    return f"headrace[{what}]"
