"""What a demonstration looks like from outside at one moment: feeds, queries, and how fast they go.

Views draw it; `running` keeps it up to date. It knows the world only by what it is told.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.spark.demo.feeds import DERIVED, INPUTS, PARTITIONS, QUERIES
from headrace.spark.demo.outcome import Outcome

# Rates are over this long, so that batches do not make them jump.
_RATE_MS: Final = 5_000


class Rate:
    """How fast a growing number grows."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()

    def note(self, now_ms: int, count: int) -> None:
        self._seen.append((now_ms, count))
        while now_ms - self._seen[0][0] > _RATE_MS:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        if len(self._seen) < 2:
            return 0.0
        (began_ms, before), (ended_ms, after) = self._seen[0], self._seen[-1]
        return (after - before) * 1000 / max(1, ended_ms - began_ms)


@dataclass(slots=True)
class FeedState:
    """A topic: how many records this run has put there, and how many replicas of how many are in sync."""

    name: str
    partitions: int
    records: int = 0
    rate: Rate = field(default_factory=Rate)
    in_sync: str = "-"


@dataclass(slots=True)
class QueryState:
    """A query of the Spark program; `lag` is how many records it has not read yet."""

    name: str
    batch: int | None = None
    read: int = 0
    rate: Rate = field(default_factory=Rate)
    batch_ms: int = 0
    state_rows: int = 0
    lag: int | None = None


@dataclass(slots=True)
class Picture:
    """All that is shown."""

    address: str
    # Where a browser sees the same; nothing where there is no console.
    console: str = ""
    phase: str = "starting"
    elapsed_ms: int = 0
    # What Spark is at while it starts, and for how long; nothing once its queries run.
    spark_step: str | None = "starting Spark"
    spark_began_ms: int = 0
    feeds: dict[str, FeedState] = field(default_factory=dict)
    queries: dict[str, QueryState] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)
    # What was done to it on purpose, for people to read.
    news: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feeds = {name: FeedState(name, PARTITIONS[name]) for name in (*INPUTS, *DERIVED)}
        self.queries = {name: QueryState(name) for name in QUERIES}

    @property
    def is_spark_ready(self) -> bool:
        """Every query has run a batch."""
        return all(each.batch is not None for each in self.queries.values())

    @property
    def is_all_in_sync(self) -> bool:
        """Every replica of every feed has everything."""
        found = [each.in_sync.split("/") for each in self.feeds.values()]
        return all(len(each) == 2 and each[0] == each[1] for each in found)

    def note_feed(self, name: str, records: int, in_sync: str | None = None) -> None:
        feed = self.feeds[name]
        feed.records = records
        feed.in_sync = in_sync or feed.in_sync
        feed.rate.note(self.elapsed_ms, records)

    def note_progress(self, said: dict[str, Any], starts: dict[str, dict[str, int]]) -> None:
        """A query has finished a batch."""
        query = self.queries[said["query"]]
        query.batch, query.batch_ms, query.state_rows = said["batch"], said["batch_ms"], said["state_rows"]
        query.read = sum(
            offset - starts[topic][partition]
            for ends in said["ends"]
            for topic, partitions in ends.items()
            if not topic.startswith("@")  # the source's own notes; `@` is no letter of a topic's name
            for partition, offset in partitions.items()
        )
        query.rate.note(self.elapsed_ms, query.read)

    def note_lag(self) -> None:
        for query in self.queries.values():
            if query.batch is not None:
                there = sum(self.feeds[topic].records for topic in QUERIES[query.name])
                query.lag = max(0, there - query.read)
