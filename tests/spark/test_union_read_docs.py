"""The blocks of docs/union-read.md, run in their order."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.spark import session
from headrace.testing import Cluster
from tests.house.source import ROOT
from tests.spark.source_topics import fill, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_blocks_run(
    spark: "SparkSession",
    cluster: Cluster,
    make_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap, topic = cluster.bootstrap_servers, make_topic(2)
    fill(bootstrap, topic, numbered(30))
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall((ROOT / "docs/union-read.md").read_text())
    assert [kind for kind, _ in blocks] == ["sh", "python", "python", "sh"]
    for kind, text in blocks:
        text = text.replace("127.0.0.1:9092", bootstrap).replace("/data/", f"{tmp_path}/")
        text = re.sub(r'(?<=load )orders|(?<="subscribe", ")orders', topic, text)
        if kind == "python":
            exec(compile(text, "docs/union-read.md", "exec"), names)
            continue
        for line in text.splitlines():
            _, *arguments = shlex.split(line.replace("--continuous", ""))  # it would not end
            done = CliRunner().invoke(cli, [*arguments, "-b", bootstrap])
            assert done.exit_code == 0, done.output
        fill(bootstrap, topic, numbered(10, 30), partition=1)
    assert spark.table("seen").count() == names["orders"].count() == 40
