"""Spark's own Declarative Pipelines on our source and sink: the example of the documentation, as it is.

The long form (`pytest -m slow`) has Spark's command run it, which starts two JVMs and a Connect server. The
short one has the example register its graph, and runs each flow into its sink in the tests' session.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import Output, Sink

from headrace.spark.session import prepare_environment
from headrace.testing import Cluster
from tests.spark.feeds import Feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / "declarative"


class Graph(GraphElementRegistry):
    """What a program has declared."""

    def __init__(self) -> None:
        self.sinks: dict[str, Sink] = {}
        self.flows: list[Flow] = []

    def register_output(self, output: Output) -> None:
        if isinstance(output, Sink):
            self.sinks[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise AssertionError(f"the example has no such flow as {flow.name}")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError(f"the example has no SQL as in {file_path}: {sql_text}")

    def run(self, spark: "SparkSession", folder: Path) -> None:
        """Views first, then each flow into its sink, side by side, from what is there."""
        for flow in self.flows:
            if flow.target not in self.sinks:
                flow.func().createOrReplaceTempView(flow.target)
        running = []
        for flow in self.flows:
            if sink := self.sinks.get(flow.target):
                writer = flow.func().writeStream.format(sink.format).options(**sink.options)
                writer = writer.option("checkpointLocation", str(folder / flow.name))
                running.append(writer.trigger(availableNow=True).start())
        for query in running:
            query.awaitTermination()


@pytest.fixture
def feeds() -> Iterator[Feeds]:
    """The example's topics on a node of its own, since it names them."""
    with Cluster() as cluster:
        feeds = Feeds(cluster)
        for topic in ("service-logs", "errors", "service-logs-dead"):
            cluster.create_topic(topic, 2)
        logs = [
            {"service": "web", "level": level, "message": str(n)}
            for n in range(5)
            for level in ("INFO", "ERROR")
        ]
        feeds.write("service-logs", [*logs, b"{poisoned"])
        yield feeds


def test_the_example_s_flows_derive_two_feeds(
    spark: "SparkSession", feeds: Feeds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", feeds.brokers)
    graph = Graph()
    (program,) = EXAMPLE.glob("transformations/*.py")
    with graph_element_registration_context(graph):
        runpy.run_path(str(program))
    graph.run(spark, tmp_path)
    check(feeds)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_s_command_runs_the_example(feeds: Feeds, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = (folder / "spark-pipeline.yml").read_text()
    lines = [
        f"storage: file://{tmp_path}/storage" if line.startswith("storage:") else line
        for line in spec.splitlines()
    ]
    (folder / "spark-pipeline.yml").write_text("\n".join(lines))
    prepare_environment()
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=folder,
        env={**os.environ, "HEADRACE_BOOTSTRAP_SERVER": feeds.brokers},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    check(feeds)


def check(feeds: Feeds) -> None:
    errors = feeds.read("errors")
    assert {record.key for record in errors} == {b"web"}
    messages = sorted(json.loads(record.value or b"")["message"] for record in errors)
    assert messages == ["0", "1", "2", "3", "4"]
    [letter] = feeds.read("service-logs-dead")
    assert letter.value == b"{poisoned"
    assert dict(letter.headers)["headrace.dead-letter.topic"] == b"service-logs"
