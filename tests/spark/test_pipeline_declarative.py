"""Spark's own Declarative Pipelines on our source and sink: the example of the documentation, as it is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.session import prepare_environment
from headrace.testing import Cluster
from tests.spark.feeds import Feeds

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / "declarative"


@pytest.mark.timeout(300)  # two JVMs and a Spark Connect server start
def test_the_example_derives_two_feeds(cluster: Cluster, tmp_path: Path) -> None:
    feeds = Feeds(cluster)
    for topic in ("service-logs", "errors", "service-logs-dead"):
        cluster.create_topic(topic, 2)
    logs = [
        {"service": "web", "level": level, "message": str(n)} for n in range(5) for level in ("INFO", "ERROR")
    ]
    feeds.write("service-logs", [*logs, b"{poisoned"])
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
    errors = feeds.read("errors")
    assert {record.key for record in errors} == {b"web"}
    assert sorted(json.loads(record.value or b"")["message"] for record in errors) == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]
    [letter] = feeds.read("service-logs-dead")
    assert letter.value == b"{poisoned"
    assert dict(letter.headers)["headrace.dead-letter.topic"] == b"service-logs"
