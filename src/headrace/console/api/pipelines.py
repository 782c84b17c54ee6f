"""Pipelines that run: a graph of feeds, queries and tables with what goes through them, and dead letters."""

from collections.abc import Iterator
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import ConsumerRecord
from headrace.console.api.messages import read_record
from headrace.console.cluster_picture import ClusterPicture
from headrace.console.http_server import RefusedCallError
from headrace.console.pipeline_run import PipelineRun, QueryCourse
from headrace.console.visit import Visit

LETTERS_MAX: Final = 500
"""That one request sends again."""

_MARK: Final = "headrace.dead-letter."
_CUT: Final = {f"{_MARK}{name}" for name in ("bytes", "key-bytes", "headers-bytes")}
_FEEDS: Final = ("feed", "dead")


async def pipelines(visit: Visit) -> Any:
    """All runs whose /metrics are read. Where people log in, one sees the queries whose feeds one may see."""
    picture = await visit.watch.picture()
    runs = [] if visit.metrics is None else visit.metrics.runs()
    queries: list[dict[str, Any]] = []
    edges: list[dict[str, str]] = []
    hidden = 0
    for url, _, run in runs:
        unseen = _unseen(run, set(picture.topics)) if visit.needs_login else set()
        hidden += len(unseen)
        edges += [each for each in run.edges if (each["pipeline"], each["query"]) not in unseen]
        queries += [
            {"run": url, "pipeline": pipeline, "query": query, **_query_json(state)}
            for (pipeline, query), state in run.queries.items()
            if (pipeline, query) not in unseen
        ]
    shown = {each["pipeline"] for each in queries}
    feeds = {each["name"] for each in edges if each["kind"] in _FEEDS} & set(picture.topics)
    return {
        "taken": picture.taken_ms,
        "is_configured": visit.metrics is not None,
        "runs": [{"url": url, "error": error} for url, error, _ in runs],
        "hidden": hidden,
        "queries": queries,
        "edges": edges,
        "alerts": [each for *_, run in runs for each in run.alerts if each["pipeline"] in shown],
        "feeds": {name: {"rate": visit.watch.rate(name), "records": picture.records(name)} for name in feeds},
        "dead": sorted({each["name"] for each in edges if each["kind"] == "dead"} & feeds),
    }


def seen_queries(visit: Visit, picture: ClusterPicture) -> Iterator[tuple[str, str, QueryCourse]]:
    """Pipeline, query and its course, of all runs, as far as this person may see their feeds."""
    for *_, run in [] if visit.metrics is None else visit.metrics.runs():
        unseen = _unseen(run, set(picture.topics)) if visit.needs_login else set()
        for (pipeline, query), state in run.queries.items():
            if (pipeline, query) not in unseen:
                yield pipeline, query, state


def _unseen(run: PipelineRun, topics: set[str]) -> set[tuple[str, str]]:
    """Queries that read or write a feed which is not among these."""
    return {
        (each["pipeline"], each["query"])
        for each in run.edges
        if each["kind"] in _FEEDS and each["name"] not in topics
    }


def _query_json(state: QueryCourse) -> dict[str, Any]:
    rates = state.rates()
    return {
        **state.figures,
        "violations": state.violations,
        "rate_in": None if rates is None else rates[0],
        "rate_out": None if rates is None or "rows_out" not in state.figures else rates[1],
        "batch_at": state.batch_ms,
        "times": [each.at_ms for each in state.points],
        "course": state.course(),
        "lags": [each.lag for each in state.points],
    }


async def send_again(visit: Visit) -> Any:
    """Write dead letters to the feeds that they come from: key, value and own headers as they were.

    A letter stays where it is, for a topic only grows. One that was cut short is not sent.
    """
    topic = visit.arguments["topic"]
    sent = []
    for place, offset in _letters(visit.request.json(), topic):
        record = await read_record(visit, place, offset)
        to, partition = _origin(record)
        own = tuple((name, value) for name, value in record.headers if not name.startswith(_MARK))
        producer = visit.connection.producer()
        delivery = await producer.send(to, record.value, key=record.key, partition=partition, headers=own)
        written = await delivery
        sent.append({"topic": to, "partition": written.partition, "offset": written.offset})
        visit.details["sent"] = len(sent)
    visit.watch.changed()
    return {"sent": sent}


def _letters(body: dict[str, Any], topic: str) -> list[tuple[TopicPartition, int]]:
    given = body.get("letters")
    if not isinstance(given, list) or not 0 < len(given) <= LETTERS_MAX:
        raise RefusedCallError(400, f"'letters' must be a list of 1 to {LETTERS_MAX} places")
    try:
        return [(TopicPartition(topic, int(each["partition"])), int(each["offset"])) for each in given]
    except (KeyError, TypeError, ValueError):
        raise RefusedCallError(400, "a letter has a partition and an offset") from None


def _origin(record: ConsumerRecord) -> tuple[str, int]:
    """The feed and the partition that a letter says it was read from."""
    headers = dict(record.headers)
    at = f"{record.topic}-{record.partition} at offset {record.offset}"
    to, number = (headers.get(f"{_MARK}{name}") or b"" for name in ("topic", "partition"))
    if not to or not number.isdigit():
        raise RefusedCallError(409, f"{at} does not say which feed it was read from: it is no dead letter")
    if _CUT & set(headers):
        raise RefusedCallError(409, f"{at} was too large for a letter and is cut short: it is not sent")
    return to.decode(), int(number)
