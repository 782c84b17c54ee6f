"""Feeds of a test: written and read by clients that know nothing of Spark, derived by a pipeline's file."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.clients import ConsumerRecord, Producer
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import StoppedQuery, run_all
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.testing import Cluster
from tests.spark.whole_topics import whole_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Feeds:
    """A cluster's topics, as a test wants them: as the user `admin`, where it asks for a login."""

    def __init__(self, cluster: Cluster) -> None:
        self.brokers = cluster.bootstrap_servers
        self._settings = cluster.client_settings("admin")

    def write(self, topic: str, values: Iterable[Any]) -> None:
        """Values as they are where they are bytes, else as JSON."""
        with Producer(self._settings) as producer:
            for value in values:
                producer.send(topic, value if isinstance(value, bytes) else json.dumps(value).encode())

    def read(self, topic: str) -> list[ConsumerRecord]:
        """All of a topic, by partition and offset."""
        return whole_topic(self.brokers, topic, self._settings)

    def rows(self, topic: str) -> list[Any]:
        """A topic's values, from JSON."""
        return [json.loads(record.value or b"null") for record in self.read(topic)]


def run_file(
    spark: "SparkSession", feeds: Feeds, path: Path, text: str
) -> tuple[list[BatchReport], list[StoppedQuery]]:
    """Run a pipeline that reads what is there and ends; its reports, and where it stopped."""
    return run_files(spark, feeds, path.parent, {path.name: text})


def run_files(
    spark: "SparkSession", feeds: Feeds, folder: Path, texts: Mapping[str, str]
) -> tuple[list[BatchReport], list[StoppedQuery]]:
    """The same of several files, side by side."""
    specs = []
    for name, text in texts.items():
        path = folder / name
        mark = "#" if path.suffix == ".py" else "--"
        path.write_text(f"{mark} trigger: available now\n{text}")
        specs.append(read_spec(str(path), path.read_text(), {}))
    reports: list[BatchReport] = []
    stops = run_all(spark, specs, feeds.brokers, tell=reports.append, should_stop=lambda: False)
    failures = [stop.failure for stop in stops if stop.failure is not None]
    assert not failures, failures
    return reports, stops
