"""Running and checking a pipeline's file: mistakes by line, a stop between batches, failures."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.plan import plan
from headrace.spark.pipeline.reports import BatchReport
from headrace.spark.pipeline.runner import run
from headrace.spark.pipeline.spec_reader import read_spec
from headrace.testing import Cluster
from tests.spark.feeds import Feeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines" / "files"
HEAD = """\
-- in logs: feed t
--   json: service STRING, n INT
-- out: feed u
"""


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEAD + "SELECT service,\n  nn\nFROM logs", 5, "nn"),
        (HEAD + "SELECT service\nFORM logs", 5, "Syntax error"),
        (HEAD + "SELECT service\nFROM log", 5, "log"),
        (HEAD + "SELECT 1 AS one", 4, "reads none of the input feeds"),
        (HEAD.replace("n INT", "n NUMBER") + "SELECT * FROM logs", 2, "NUMBER"),
        (HEAD + "--   key: who\nSELECT service FROM logs", 3, "no column 'who'"),
        (HEAD + "--   option topik: x\nSELECT service FROM logs", 3, "did you mean topic"),
        (
            HEAD.replace("u\n", "u\n--   option delivery: x\n") + "SELECT n FROM logs WHERE )",
            5,
            "Syntax error",
        ),
        (HEAD.replace("feed u", "feeds") + "SELECT service FROM logs", 3, "a column `topic`"),
        (HEAD.replace("feed u", "delta d\n--   partition by: x") + "SELECT n FROM logs", 3, "no column 'x'"),
        (
            HEAD.replace("-- out", "--   option startingOfsets: latest\n-- out") + "SELECT n FROM logs",
            1,
            "did you mean startingOffsets",
        ),
    ],
)
def test_mistakes_are_told_by_line(spark: "SparkSession", text: str, line: int, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        plan(spark, read_spec("p.sql", text, {}), "h:1")
    assert caught.value.line == line, caught.value
    assert said in caught.value.what


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("def query(logs):\n    return logs.where(", 5, "never closed"),
        ("def query(logs):\n    return logs.nothing()", 5, "nothing"),
        ("def query(others):\n    return others", 4, "query wants 'others': there are logs, spark"),
        ("def query(logs):\n    return 5", 4, "must return a DataFrame, not int"),
        ("rows = 5", 4, "no function `query`"),
    ],
)
def test_mistakes_in_python_too(
    spark: "SparkSession", tmp_path: Path, body: str, line: int, said: str
) -> None:
    path = tmp_path / "p.py"
    path.write_text(HEAD.replace("--", "#") + body)
    with pytest.raises(PipelineError) as caught:
        plan(spark, read_spec(str(path), path.read_text(), {}), "h:1")
    assert caught.value.line == line, caught.value
    assert said in caught.value.what


def test_a_stop_lets_the_batch_finish(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    feeds, numbers, copies = Feeds(cluster), make_topic(), make_topic()
    feeds.write(numbers, [{"n": number} for number in range(30)])
    path = tmp_path / "copy.sql"
    path.write_text(f"""\
-- in numbers: feed {numbers}
--   json: n INT
--   option maxOffsetsPerTrigger: 5
-- out: feed {copies}
SELECT n FROM numbers
""")
    spec = read_spec(str(path), path.read_text(), {})
    reports: list[BatchReport] = []
    [stop] = run(spark, spec, feeds.brokers, tell=reports.append, should_stop=lambda: bool(reports))
    assert stop.failure is None
    assert stop.last_batch is not None
    done = [each["n"] for each in feeds.rows(copies)]
    assert done == list(range(5 * (stop.last_batch + 1)))
    assert stop.ends == {numbers: {"0": len(done)}}
    assert [each.batch for each in reports] == list(range(stop.last_batch + 1))
    assert {(each.rows_in, each.rows_out) for each in reports} == {(5, 5)}
    assert reports[0].lag == 25
    assert all(each.phases_ms.keys() >= {"addBatch", "walCommit"} and each.started for each in reports)

    text = path.read_text() + "\n"
    path.write_text("-- trigger: available now\n" + text)
    spec = read_spec(str(path), path.read_text(), {})
    run(spark, spec, feeds.brokers, tell=reports.append, should_stop=lambda: False)
    assert [each["n"] for each in feeds.rows(copies)] == list(range(30))


def test_a_failure_stops_all_and_is_told(
    spark: "SparkSession", cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    feeds, numbers, small = Feeds(cluster), make_topic(), make_topic(1, {"max.message.bytes": "1000"})
    feeds.write(numbers, [{"n": "x" * 5_000}])
    path = tmp_path / "large.sql"
    path.write_text(f"""\
-- in numbers: feed {numbers}
--   json: n STRING
--   dead letters: {make_topic()}
-- out: feed {small}
SELECT n FROM numbers
""")
    spec = read_spec(str(path), path.read_text(), {})
    main, dead = run(spark, spec, feeds.brokers, tell=lambda _: None, should_stop=lambda: False)
    assert main.failure is not None
    assert "raise the topic's max.message.bytes" in main.failure
    assert dead.failure is None


@pytest.mark.parametrize("path", sorted(filter(Path.is_file, EXAMPLES.iterdir())), ids=lambda path: path.name)
def test_the_examples_are_right(spark: "SparkSession", path: Path) -> None:
    spec = read_spec(str(path), path.read_text(), {})
    planned = plan(spark, spec, "h:1")
    assert len(planned) == 1 + sum(each.dead_letters is not None for each in spec.inputs)
    assert all(each.rows.isStreaming for each in planned)
